package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/consumer"
	"github.com/keystrand/keystrand/internal/task"
)

// start runs a consumer; stop waits for its end and returns Run's error.
func start(t testing.TB, s keystrand.Consumer, h consumer.Handler, o consumer.Options) (*consumer.Consumer, func() error) {
	t.Helper()
	c, err := consumer.New(s, h, o)
	if err != nil {
		t.Fatal(err)
	}
	g := task.NewGroup(context.Background())
	g.Go("consumer", c.Run)
	return c, g.Stop
}

func mustStop(t testing.TB, stop func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// journal records which messages were handled, per group, and whether two of a group overlapped.
type journal struct {
	mu      sync.Mutex
	handled map[string][]string
	open    map[string]bool
	overlap []string
}

func newJournal() *journal {
	return &journal{handled: map[string][]string{}, open: map[string]bool{}}
}

func (j *journal) begin(d keystrand.Delivery) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open[d.MessageGroup] {
		j.overlap = append(j.overlap, d.ID)
	}
	j.open[d.MessageGroup] = true
	j.handled[d.MessageGroup] = append(j.handled[d.MessageGroup], d.ID)
}

func (j *journal) end(d keystrand.Delivery) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[d.MessageGroup] = false
}

func (j *journal) check(t testing.TB, groups, each int) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.overlap) > 0 {
		t.Errorf("handled while another of the group ran: %v", j.overlap)
	}
	if len(j.handled) != groups {
		t.Errorf("%d groups were handled, want %d", len(j.handled), groups)
	}
	for g, ids := range j.handled {
		last := 0
		for _, id := range slices.Compact(ids) {
			var n int
			if _, err := fmt.Sscanf(id, g+"/%d", &n); err != nil || n != last+1 {
				t.Errorf("%s: %s follows %d", g, id, last)
			}
			last = n
		}
		if last != each {
			t.Errorf("%s: ends at %d of %d", g, last, each)
		}
	}
}

func TestGroupsRunAtTheSameTimeAndEachInOrder(t *testing.T) {
	t.Parallel()
	s, j := newSource(time.Minute), newJournal()
	const groups, each = 50, 20
	for g := range groups {
		s.add(fmt.Sprintf("g%d", g), each)
	}
	var failures atomic.Int32
	c, stop := start(t, s, func(_ context.Context, d keystrand.Delivery) error {
		j.begin(d)
		defer j.end(d)
		if d.Attempt == 1 && len(d.ID)%7 == 0 {
			failures.Add(1)
			return errors.New("first attempt fails")
		}
		return nil
	}, consumer.Options{Workers: 16})
	s.waitAcked(t, groups*each)
	mustStop(t, stop)
	j.check(t, groups, each)
	if n := c.Stats(); n.Acked != groups*each || n.Failed != int64(failures.Load()) || n.Running != 0 || n.Unanswered != 0 || n.Waiting != 0 {
		t.Errorf("%+v, %d failures", n, failures.Load())
	}
}

func TestPanicIsAFailedAttemptAndTheProcessLives(t *testing.T) { // L09
	t.Parallel()
	s := newSource(time.Minute)
	s.add("a", 2)
	var causes []error
	var mu sync.Mutex
	c, stop := start(t, s, func(_ context.Context, d keystrand.Delivery) error {
		if d.Attempt == 1 {
			panic("boom " + d.ID)
		}
		return nil
	}, consumer.Options{Events: consumer.Events{Failed: func(_ keystrand.Delivery, cause error) {
		mu.Lock()
		causes = append(causes, cause)
		mu.Unlock()
	}}})
	s.waitAcked(t, 2)
	mustStop(t, stop)
	mu.Lock()
	defer mu.Unlock()
	var p *consumer.PanicError
	if len(causes) != 2 || !errors.As(causes[0], &p) || p.Value != "boom a/1" || len(p.Stack) == 0 || c.Stats().Panics != 2 {
		t.Errorf("got %v", causes)
	}
}

func TestSupersededHandlerIsNeitherAckedNorFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(10 * time.Second)
		s.add("a", 1)
		c, stop := start(t, s, func(_ context.Context, d keystrand.Delivery) error {
			if d.Attempt == 1 {
				return fmt.Errorf("inbox: %w", keystrand.ErrSuperseded)
			}
			return nil
		}, consumer.Options{})
		s.waitAcked(t, 1)
		mustStop(t, stop)
		if n := c.Stats(); n.Superseded != 1 || n.Failed != 0 || n.Acked != 1 || s.calls.fail != 0 {
			t.Errorf("%+v", n)
		}
	})
}

func TestLeaseIsExtendedAtAThirdWhileTheHandlerRuns(t *testing.T) { // T09
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(30 * time.Second)
		s.add("a", 1)
		c, stop := start(t, s, func(ctx context.Context, d keystrand.Delivery) error {
			select {
			case <-time.After(2 * time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		}, consumer.Options{HandlerTimeout: time.Hour})
		s.waitAcked(t, 1)
		mustStop(t, stop)
		if n := c.Stats(); n.Extended < 11 || n.Extended > 12 || n.Acked != 1 || n.Received != 1 {
			t.Errorf("%+v, want an extension each 10 s of 120 s", n)
		}
	})
}

func TestWaitingDeliveriesAreExtendedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(6 * time.Second)
		for _, g := range []string{"a", "b", "c"} {
			s.add(g, 1)
		}
		c, stop := start(t, s, func(context.Context, keystrand.Delivery) error {
			<-time.After(20 * time.Second)
			return nil
		}, consumer.Options{Workers: 1, Window: 3})
		s.waitAcked(t, 3)
		mustStop(t, stop)
		if n := c.Stats(); n.Received != 3 || n.Superseded != 0 {
			t.Errorf("%+v", n)
		}
	})
}

func TestLostLeaseEndsTheHandlersContextWithTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(30 * time.Second)
		s.add("a", 1)
		s.fault = func(call string, d keystrand.Delivery) error {
			if call == "extend" && d.Attempt == 1 {
				s.strands["a"].until = time.Now() // given to someone else
				return keystrand.ErrLeaseExpired
			}
			return nil
		}
		var cause error
		c, stop := start(t, s, func(ctx context.Context, d keystrand.Delivery) error {
			if d.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil // what it did does not count
		}, consumer.Options{})
		s.waitAcked(t, 1)
		mustStop(t, stop)
		if n := c.Stats(); !errors.Is(cause, consumer.ErrLeaseLost) || n.Superseded != 1 || n.Acked != 1 {
			t.Errorf("cause %v, %+v", cause, n)
		}
	})
}

// A handler that hangs in one group: others go on, the lease ends, and the message comes again; what comes again does not
// run beside the one that hangs.
func TestHangingHandlerTakesOneWorkerAndItsMessageComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, j := newSource(10*time.Second), newJournal()
		s.add("hangs", 1)
		for g := range 5 {
			s.add(fmt.Sprintf("g%d", g), 50)
		}
		release := make(chan struct{})
		c, stop := start(t, s, func(ctx context.Context, d keystrand.Delivery) error {
			j.begin(d)
			defer j.end(d)
			if d.MessageGroup == "hangs" && d.Attempt < 3 {
				<-release // whatever becomes of its context
			}
			<-time.After(time.Second)
			return nil
		}, consumer.Options{Workers: 2, Window: 8, HandlerTimeout: 20 * time.Second})
		<-time.After(3 * time.Minute)
		s.mu.Lock()
		attempts, others := s.strands["hangs"].attempt, 0
		for g := range 5 {
			others += s.acked[fmt.Sprintf("g%d", g)]
		}
		s.mu.Unlock()
		if attempts < 4 || others < 150 {
			t.Errorf("after 3 min: %d attempts of the message that hangs, %d others done", attempts, others)
		}
		close(release)
		s.waitAcked(t, 251)
		mustStop(t, stop)
		if len(j.overlap) > 0 {
			t.Errorf("overlapped: %v", j.overlap)
		}
		if n := c.Stats(); n.Running != 0 || n.Unanswered != 0 || n.Waiting != 0 {
			t.Errorf("left over: %+v", n)
		}
	})
}

func TestStopDrainsRunningGivesBackWaitingAndIsBounded(t *testing.T) { // K05
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(time.Minute)
		for _, g := range []string{"quick", "slow", "waits1", "waits2"} {
			s.add(g, 1)
		}
		started := make(chan string, 4)
		c, stop := start(t, s, func(ctx context.Context, d keystrand.Delivery) error {
			started <- d.MessageGroup
			limit := 10 * time.Second
			if n := len(started); n == 2 {
				limit = time.Hour
			}
			select {
			case <-time.After(limit):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, consumer.Options{Workers: 2, Window: 4, DrainTimeout: 30 * time.Second})
		synctest.Wait()
		began := time.Now()
		mustStop(t, stop)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the stop took %v", took)
		}
		n := c.Stats()
		if n.Acked != 1 || n.Released != 3 || n.Failed != 0 || n.Running != 0 || n.Unanswered != 0 {
			t.Errorf("%+v, want one done, three given back", n)
		}
		for g, strand := range s.strands {
			if len(strand.messages) == 1 && (strand.attempt != 0 || strand.token != 0) {
				t.Errorf("%s: attempt %d counted, lease %d kept", g, strand.attempt, strand.token)
			}
		}
	})
}

func TestStopReportsHandlersThatIgnoreTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(time.Minute)
		s.add("a", 1)
		release := make(chan struct{})
		_, stop := start(t, s, func(context.Context, keystrand.Delivery) error { <-release; return nil }, consumer.Options{DrainTimeout: time.Second})
		synctest.Wait()
		err := stop()
		var drain *consumer.DrainError
		if !errors.As(err, &drain) || drain.Running != 1 {
			t.Errorf("got %v", err)
		}
		close(release)
	})
}

func TestAckIsRepeatedWhileTheLeaseLasts(t *testing.T) { // L04
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(30 * time.Second)
		s.add("a", 1)
		s.add("b", 1)
		refused := 0
		s.fault = func(call string, d keystrand.Delivery) error {
			if call == "ack" && d.MessageGroup == "a" && refused < 3 {
				refused++
				return keystrand.ErrUnknown
			}
			return nil
		}
		c, stop := start(t, s, func(context.Context, keystrand.Delivery) error { return nil }, consumer.Options{})
		s.waitAcked(t, 2)
		mustStop(t, stop)
		if n := c.Stats(); n.Received != 2 || n.Acked != 2 || n.Superseded != 0 {
			t.Errorf("%+v: a repeat of the ack, not of the message", n)
		}
	})
}

func TestEngineThatIsAwayIsAskedAgain(t *testing.T) { // N01
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(30 * time.Second)
		s.add("a", 3)
		began := time.Now()
		s.fault = func(call string, _ keystrand.Delivery) error {
			if time.Since(began) < 20*time.Second {
				return keystrand.ErrRetryLater
			}
			return nil
		}
		var faults atomic.Int32
		_, stop := start(t, s, func(context.Context, keystrand.Delivery) error { return nil }, consumer.Options{Receivers: 1, Events: consumer.Events{Fault: func(error) { faults.Add(1) }}})
		s.waitAcked(t, 3)
		mustStop(t, stop)
		if took := time.Since(began); took > 26*time.Second || faults.Load() < 8 || faults.Load() > 14 {
			t.Errorf("took %v with %d calls in vain", took, faults.Load())
		}
	})
}

func TestReceiveThatIsRejectedEndsRun(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{keystrand.ErrTopicNotFound, keystrand.ErrGroupNotFound, keystrand.ErrRejected} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(time.Minute)
			s.add("a", 1)
			gone := false
			s.fault = func(call string, _ keystrand.Delivery) error {
				if call == "receive" && gone {
					return reason
				}
				return nil
			}
			c, err := consumer.New(s, func(context.Context, keystrand.Delivery) error {
				s.mu.Lock()
				gone = true // while this handler runs
				s.mu.Unlock()
				<-time.After(time.Second)
				return nil
			}, consumer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Run(t.Context()); !errors.Is(err, reason) {
				t.Errorf("got %v, want %v", err, reason)
			}
			if n := c.Stats(); n.Acked != 1 || n.Running != 0 || n.Unanswered != 0 {
				t.Errorf("%+v: what ran is finished first", n)
			}
		})
	}
}

// A user's own clock: the type of Options.Clock can be named and made outside this module.
type stoppedClock struct{}

func (stoppedClock) Mono() time.Duration { return time.Hour }

func TestConsumerTakesAUsersClock(t *testing.T) {
	t.Parallel()
	s := newSource(time.Minute)
	s.add("a", 1)
	var clock consumer.Clock = stoppedClock{}
	_, stop := start(t, s, func(context.Context, keystrand.Delivery) error { return nil }, consumer.Options{Clock: clock})
	s.waitAcked(t, 1)
	mustStop(t, stop)
}

func TestRunTwiceIsRefused(t *testing.T) {
	t.Parallel()
	s := newSource(time.Minute)
	c, stop := start(t, s, func(context.Context, keystrand.Delivery) error { return nil }, consumer.Options{})
	s.add("a", 1)
	s.waitAcked(t, 1)
	if err := c.Run(t.Context()); !errors.Is(err, keystrand.ErrClosed) {
		t.Errorf("got %v", err)
	}
	mustStop(t, stop)
}

// The founding figure: K = W = 1,000 lanes with 40 ms handlers. Here the engine costs nothing, so what is measured is the
// consumer; bench/ measures it with the broker.
func BenchmarkThousandLanes(b *testing.B) {
	s := newSource(time.Minute)
	const groups = 1000
	each := b.N/groups + 1
	for g := range groups {
		s.add(fmt.Sprintf("g%d", g), each)
	}
	b.ResetTimer()
	began := time.Now()
	_, stop := start(b, s, func(context.Context, keystrand.Delivery) error {
		timer := time.NewTimer(40 * time.Millisecond)
		<-timer.C
		return nil
	}, consumer.Options{Workers: 1000})
	s.waitAcked(b, groups*each)
	took := time.Since(began)
	b.StopTimer()
	mustStop(b, stop)
	b.ReportMetric(float64(groups*each)/took.Seconds(), "msg/s")
	b.ReportMetric(float64(groups*each)/took.Seconds()/25000, "of-ideal")
}

// slowAck is a source whose acknowledgements take as long as a sync of a disk.
type slowAck struct {
	*source
	takes time.Duration
}

func (s slowAck) Ack(ctx context.Context, deliveries ...keystrand.Delivery) error {
	<-time.After(s.takes)
	return s.source.Ack(ctx, deliveries...)
}

// K = W = 1,000 with handlers of 40 ms and acknowledgements of 1 ms, in virtual time, where only waiting costs: nothing but
// handler and acknowledgement may stand between two messages of a group.
func TestThousandLanesLoseNoTimeBetweenMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(time.Minute)
		const groups, each = 1000, 10
		for g := range groups {
			s.add(fmt.Sprintf("g%d", g), each)
		}
		began := time.Now()
		_, stop := start(t, slowAck{s, time.Millisecond}, func(context.Context, keystrand.Delivery) error {
			<-time.After(40 * time.Millisecond)
			return nil
		}, consumer.Options{Workers: groups})
		s.waitAcked(t, groups*each)
		took := time.Since(began)
		mustStop(t, stop)
		if share := float64(each*40*time.Millisecond) / float64(took); share < 0.93 {
			t.Errorf("took %v, %.2f of the ideal", took, share)
		}
	})
}
