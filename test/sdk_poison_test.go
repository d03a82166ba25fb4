package test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/test/internal/sdk"
)

const (
	poisonTopic    = "shop"
	poisonKey      = "poison"
	poisonMessages = 3
	poisonLimit    = 3   // attempts
	healthyKeys    = 200 // message groups beside the poisoned one
	healthyRounds  = 3
	pushThreads    = 20
	maxProcessing  = 20 * time.Second
	// othersWithin is what all messages of all other groups may take, from the last send, while the poisoned one is stuck.
	othersWithin = 20 * time.Second
)

// Goal: what becomes of a message group whose handler always fails, or never returns, in the official PushConsumer, with and
// without its FIFO accelerator, under each at-limit policy; and that all other groups are served meanwhile.
// Method: eight consumer groups read one topic, each with a PushConsumer of 20 threads, all at the same time; they are looked
// at one after the other, and judged as one history.
func TestAPoisonedMessageGroupMeetsItsPolicyAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, "--data", t.TempDir(), "--topic", poisonTopic+":fifo:8")
	tap := sdk.NewTap(t, broker.GRPCAddr)
	cases := poisonedCases(broker, tap)
	starts := task.NewGroup(t.Context())
	for _, c := range cases {
		c.createGroup(t)
		starts.Go("start "+c.group, func(context.Context) error { return c.start() })
	}
	if err := starts.Wait(); err != nil {
		t.Fatal(err)
	}
	sendPoisoned(t, broker)
	for _, c := range cases {
		t.Run(c.group, func(t *testing.T) {
			c.checkOthers(t)
			c.check(c, t)
		})
	}
	judgePoisoned(t, broker, tap, cases)
}

// poisonedCases are the eight consumer groups, those that take longest last.
func poisonedCases(broker *brokerProcess, tap *sdk.Tap) (cases []*poisoned) {
	for _, c := range []struct {
		name  string
		args  []string
		hangs bool
		check func(*poisoned, *testing.T)
	}{
		{name: "park", args: []string{"--at-limit", "park", "--max-attempts", fmt.Sprint(poisonLimit)}, check: (*poisoned).checkParked},
		{name: "dead-letter", args: []string{"--at-limit", "dead-letter", "--max-attempts", fmt.Sprint(poisonLimit)}, check: (*poisoned).checkDeadLettered},
		{name: "block", args: []string{"--at-limit", "block", "--max-attempts", fmt.Sprint(poisonLimit)}, check: (*poisoned).checkBlocked},
		{name: "hang", args: []string{"--max-processing", maxProcessing.String()}, hangs: true, check: (*poisoned).checkHung},
	} {
		for _, accelerator := range []bool{false, true} {
			cases = append(cases, &poisoned{
				name: c.name, args: c.args, hangs: c.hangs, check: c.check, group: c.name, accelerator: accelerator,
				broker: broker, tap: tap, cured: make(chan struct{}), others: map[string]int{},
			})
		}
	}
	return cases
}

// poisoned is one consumer group with its PushConsumer.
type poisoned struct {
	name        string
	args        []string
	hangs       bool
	check       func(*poisoned, *testing.T)
	accelerator bool
	broker      *brokerProcess
	tap         *sdk.Tap
	group       string
	consumer    rmq.PushConsumer
	cured       chan struct{} // closed when the poisoned messages may succeed

	mu     sync.Mutex // guards those below
	poison []poisonDelivery
	others map[string]int // deliveries of each other message
}

// poisonDelivery is one delivery of the poisoned message group.
type poisonDelivery struct {
	number, attempt int
	at              time.Time
}

func (d poisonDelivery) String() string { return fmt.Sprintf("%d as attempt %d", d.number, d.attempt) }

func (c *poisoned) createGroup(t *testing.T) {
	t.Helper()
	args := append([]string{"--ordered", "--back-off", "1s,1s"}, c.args...)
	if c.accelerator {
		c.group += "-accelerated"
		args = append(args, "--push-batch", "many") // it runs the message groups of one answer beside each other
	}
	c.broker.keystrand(t, append([]string{"group", "create", c.group}, args...)...)
	c.tap.Main().Subscribe(c.group, poisonTopic, true, "earliest")
}

func (c *poisoned) start() (err error) {
	c.consumer, err = sdk.StartPushConsumer(c.broker.GRPCAddr, c.group, poisonTopic,
		sdk.PushOptions{Threads: pushThreads, Accelerator: c.accelerator, Handle: c.handle})
	return err
}

func (c *poisoned) handle(m *rmq.MessageView) rmq.ConsumerResult {
	key, number := sdk.KeyOf(m), sdk.NumberOf(m)
	c.mu.Lock()
	if key != poisonKey {
		c.others[fmt.Sprintf("%s/%d", key, number)]++
		c.mu.Unlock()
		return rmq.SUCCESS
	}
	c.poison = append(c.poison, poisonDelivery{number, int(m.GetDeliveryAttempt()), time.Now()})
	c.mu.Unlock()
	if c.hangs {
		<-c.cured
		return rmq.SUCCESS
	}
	select {
	case <-c.cured:
		return rmq.SUCCESS
	default:
		return rmq.FAILURE
	}
}

func (c *poisoned) deliveries() []poisonDelivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]poisonDelivery(nil), c.poison...)
}

// sendPoisoned sends the poisoned messages among the others.
func sendPoisoned(t *testing.T, broker *brokerProcess) {
	t.Helper()
	producer := sdk.NewProducer(t, broker.GRPCAddr, poisonTopic)
	for n := 1; n <= healthyRounds; n++ {
		for k := range healthyKeys {
			if err := sdk.Send(t.Context(), producer, poisonTopic, fmt.Sprintf("cart-%03d", k), n); err != nil {
				t.Fatal(err)
			}
			if k == healthyKeys/2 && n <= poisonMessages {
				if err := sdk.Send(t.Context(), producer, poisonTopic, poisonKey, n); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// checkOthers: every other message was handled, once.
func (c *poisoned) checkOthers(t *testing.T) {
	t.Helper()
	handled := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.others)
	}
	sdk.Eventually(t, othersWithin, "all messages of the other groups handled", func() bool { return handled() == healthyKeys*healthyRounds })
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.others {
		if n != 1 {
			t.Errorf("%s was delivered %d times", name, n)
		}
	}
}

// expect compares the first deliveries of the poisoned group with want, and their number, unless more may have followed.
func (c *poisoned) expect(t *testing.T, more bool, want ...poisonDelivery) {
	t.Helper()
	got := c.deliveries()
	if len(got) < len(want) || len(got) > len(want) && !more {
		t.Errorf("the poisoned group was delivered %d times (%v), want %d (%v)", len(got), got, len(want), want)
		return
	}
	for i := range want {
		if got[i].number != want[i].number || got[i].attempt != want[i].attempt {
			t.Errorf("delivery %d of the poisoned group is %v, want %v", i+1, got[i], want[i])
		}
	}
}

// attempts are deliveries of one message from attempt 1 to n.
func attempts(number, n int) (all []poisonDelivery) {
	for a := 1; a <= n; a++ {
		all = append(all, poisonDelivery{number: number, attempt: a})
	}
	return all
}

func (c *poisoned) explain(t *testing.T) explanation {
	t.Helper()
	return explain(t, c.broker, c.group, poisonTopic, poisonKey)
}

func (c *poisoned) checkParked(t *testing.T) {
	sdk.Eventually(t, 15*time.Second, "the strand parked", func() bool { return c.explain(t).Status == "parked" })
	c.expect(t, false, attempts(1, poisonLimit)...)
	if e := c.explain(t); e.DeliveryAttempt != poisonLimit || e.Behind != poisonMessages-1 {
		t.Errorf("explained as %+v, want attempt %d and %d messages behind", e, poisonLimit, poisonMessages-1)
	}
	if l := lags(t, c.broker, c.group); len(l) != 1 || l[0].Parked != 1 || l[0].Unfinished != poisonMessages || l[0].DeadLettered != 0 {
		t.Errorf("lag is %+v, want 1 parked strand with %d messages", l, poisonMessages)
	}
	c.tap.Main().Park(c.about(1), "limit of attempts")
}

func (c *poisoned) checkDeadLettered(t *testing.T) {
	sdk.Eventually(t, 30*time.Second, "everything finished", func() bool { return unfinished(t, c.broker, c.group) == 0 })
	var want []poisonDelivery
	for n := 1; n <= poisonMessages; n++ {
		want = append(want, attempts(n, poisonLimit)...)
	}
	c.expect(t, false, want...)
	topic, reader := "%DLQ%"+c.group, c.group+"-dlq-reader"
	c.broker.keystrand(t, "group", "create", reader)
	dead := sdk.ReadAll(t, c.broker.GRPCAddr, reader, topic, messagesOf(t, c.broker, topic))
	if len(dead) != poisonMessages {
		t.Fatalf("%d dead letters, want %d", len(dead), poisonMessages)
	}
	for i, d := range dead {
		if d.Key != poisonKey || int(d.ID.Counter) != i+1 || d.Props["DLQ_ORIGIN_TOPIC"] != poisonTopic || d.Props["KS_DEAD_ATTEMPTS"] != fmt.Sprint(poisonLimit) {
			t.Errorf("dead letter %d is message %v of %q with %v", i+1, d.ID, d.Key, d.Props)
		}
		about := c.about(i + 1)
		about.Attempt = poisonLimit
		c.tap.Main().DeadLetter(about, poisonLimit)
	}
}

func (c *poisoned) checkBlocked(t *testing.T) {
	more := func() bool { d := c.deliveries(); return len(d) > 0 && d[len(d)-1].attempt >= poisonLimit+3 }
	sdk.Eventually(t, 20*time.Second, "attempts beyond the limit", more)
	got := c.deliveries()
	c.expect(t, true, attempts(1, len(got))...)
	if e := c.explain(t); e.Status == "parked" || e.DeliveryAttempt <= poisonLimit || e.Behind != poisonMessages-1 {
		t.Errorf("explained as %+v, want an attempt above %d with %d messages behind", e, poisonLimit, poisonMessages-1)
	}
	alarm := false
	for line := range strings.Lines(c.broker.log.String()) {
		alarm = alarm || strings.Contains(line, "level=WARN") && strings.Contains(line, "policy block") && strings.Contains(line, "consumer_group="+c.group+" ")
	}
	if !alarm {
		t.Errorf("no alarm of group %s in the broker's log", c.group)
	}
	c.cure(t)
}

func (c *poisoned) checkHung(t *testing.T) {
	sdk.Eventually(t, maxProcessing+15*time.Second, "the hanging message again", func() bool { return len(c.deliveries()) > 1 })
	c.expect(t, true, attempts(1, 2)...)
	d := c.deliveries()
	if took := d[1].at.Sub(d[0].at); took < maxProcessing-time.Second {
		t.Errorf("attempt 2 came after %v, want not before the end of %v", took, maxProcessing)
	}
	t.Logf("attempt 2 came %v after attempt 1", d[1].at.Sub(d[0].at))
	c.cure(t)
}

// cure lets the poisoned messages succeed: the strand goes on, in order.
func (c *poisoned) cure(t *testing.T) {
	t.Helper()
	close(c.cured)
	sdk.Eventually(t, 15*time.Second, "everything finished after the cure", func() bool { return unfinished(t, c.broker, c.group) == 0 })
	d := c.deliveries()
	for n := 2; n <= poisonMessages; n++ {
		if last := d[len(d)-poisonMessages+n-1]; last.number != n || last.attempt != 1 {
			t.Errorf("after the cure came %v, want message %d as attempt 1", last, n)
		}
	}
}

// about describes message n of the poisoned group for the history.
func (c *poisoned) about(n int) history.Delivery {
	return history.Delivery{Topic: poisonTopic, Group: c.group, Key: poisonKey, ID: history.ID{Producer: 1, Counter: uint32(n)}, Queue: -1, Offset: -1}
}

func judgePoisoned(t *testing.T, broker *brokerProcess, tap *sdk.Tap, cases []*poisoned) {
	t.Helper()
	tap.Main().DrainBegin()
	for _, c := range cases {
		if left := unfinished(t, broker, c.group); left != 0 && c.name != "park" {
			t.Errorf("group %s has %d messages left", c.group, left)
		}
	}
	tap.Main().DrainEnd()
	broker.keystrand(t, "group", "create", "read-back")
	n := messagesOf(t, broker, poisonTopic)
	tap.NoteReadBack(t, poisonTopic, sdk.ReadAll(t, broker.GRPCAddr, "read-back", poisonTopic, n))
	report := tap.CheckJudged(t, history.Options{})
	if s := report.Summary; s.DeadLetters != 2*poisonMessages || s.ParkedStrands != 2 || s.Parked != 2*poisonMessages {
		t.Errorf("the judge saw %d dead letters and %d parked strands with %d messages", s.DeadLetters, s.ParkedStrands, s.Parked)
	}
	var consumers []rmq.PushConsumer
	for _, c := range cases {
		consumers = append(consumers, c.consumer)
	}
	if err := stopAll(context.WithoutCancel(t.Context()), broker, consumers...); err != nil {
		t.Errorf("stop: %v\n%s", err, broker.log)
	}
}
