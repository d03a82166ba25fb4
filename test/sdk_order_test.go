package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/test/internal/sdk"
)

const (
	orderTopic = "one"
	orderGroup = "pair"
	// arrivesWithin is what a message of another group may take from its send to its receiver.
	arrivesWithin = time.Second
	// othersEvery is the time between two messages of the groups B and C.
	othersEvery = 25 * time.Millisecond
)

// Goal: a message that is received and not acked holds back its own group and no other, although all stand in one queue.
// Method: two SimpleConsumers; A1 is kept, B and C go on for 60 s. Its lease of 20 s ends twice, each time it comes again
// as the next attempt, and an ack under the first attempt's handle changes nothing; A2 comes only after A1 was acked.
func TestAnUnackedMessageHoldsBackItsOwnGroupAndNoOther(t *testing.T) {
	t.Parallel()
	r := &orderRun{lease: 20 * time.Second, keep: 60 * time.Second}
	r.run(t)
	if tls, plain := r.tap.Calls(); tls == 0 || plain > 0 {
		t.Errorf("%d calls over TLS and %d over plaintext: the SDK dials TLS unless told otherwise", tls, plain)
	}
}

// Not parallel: whether the SDK dials TLS is a variable of its package.
func TestAnUnackedMessageHoldsBackItsOwnGroupAndNoOtherOverPlaintext(t *testing.T) {
	rmq.EnableSsl = false
	t.Cleanup(func() { rmq.EnableSsl = true })
	r := &orderRun{lease: 10 * time.Second, keep: 15 * time.Second}
	r.run(t)
	if tls, plain := r.tap.Calls(); tls > 0 || plain == 0 {
		t.Errorf("%d calls over TLS and %d over plaintext, want plaintext alone", tls, plain)
	}
}

// The contrast: what the runs above would look like if order were kept by queue, as on other brokers. So they can fail.
func TestWithOrderLevelQueueAnUnackedMessageHoldsBackTheWholeQueue(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, "--data", t.TempDir(), "--topic", orderTopic+":fifo:1")
	broker.keystrand(t, "group", "create", orderGroup, "--ordered", "--order-level", "queue")
	producer := sdk.NewProducer(t, broker.GRPCAddr, orderTopic)
	for _, key := range []string{"A", "B"} {
		if err := sdk.Send(t.Context(), producer, orderTopic, key, 1); err != nil {
			t.Fatal(err)
		}
	}
	c := sdk.NewSimpleConsumer(t, broker.GRPCAddr, orderGroup, orderTopic)
	held := sdk.Receive(t.Context(), c, 16, 20*time.Second)
	if len(held) != 1 || sdk.KeyOf(held[0]) != "A" {
		t.Fatalf("the first receive brought %d messages, want A1 alone", len(held))
	}
	if got := sdk.Receive(t.Context(), c, 16, 20*time.Second); len(got) != 0 { // held for its 5 s
		t.Fatalf("%s arrived while A1 was out", got[0].GetBody())
	}
	if err := sdk.Ack(t.Context(), c, held[0]); err != nil {
		t.Fatal(err)
	}
	if got := sdk.Receive(t.Context(), c, 16, 20*time.Second); len(got) != 1 || sdk.KeyOf(got[0]) != "B" {
		t.Fatalf("after the ack of A1 %d messages arrived, want B1", len(got))
	}
}

// orderRun is one run: A1 is not acked for keep.
type orderRun struct {
	lease, keep time.Duration

	broker *brokerProcess
	tap    *sdk.Tap

	mu     sync.Mutex // guards all below
	sentAt map[string]time.Time
	ofA    []arrival // deliveries of group A, which are kept
	late   []string
	others int // deliveries of B and C
}

// arrival is one delivery of group A.
type arrival struct {
	number, attempt int
	at              time.Time
	view            *rmq.MessageView
	consumer        rmq.SimpleConsumer
}

func (r *orderRun) run(t *testing.T) {
	r.sentAt = map[string]time.Time{}
	r.broker = startBroker(t, "--data", t.TempDir(), "--topic", orderTopic+":fifo:1")
	r.broker.keystrand(t, "group", "create", orderGroup, "--ordered")
	r.tap = sdk.NewTap(t, r.broker.GRPCAddr)
	r.tap.Main().Subscribe(orderGroup, orderTopic, true, "earliest")
	producer := sdk.NewProducer(t, r.broker.GRPCAddr, orderTopic)
	for n := 1; n <= 2; n++ {
		if err := sdk.Send(t.Context(), producer, orderTopic, "A", n); err != nil {
			t.Fatal(err)
		}
	}
	tasks := task.NewGroup(t.Context())
	for range 2 {
		c := sdk.NewSimpleConsumer(t, r.broker.GRPCAddr, orderGroup, orderTopic)
		tasks.Go("consumer", func(ctx context.Context) error { return r.consume(ctx, c) })
	}
	sdk.Eventually(t, 10*time.Second, "A1 received", func() bool { return len(r.arrivals()) > 0 })
	ended := make(chan struct{})
	tasks.Go("sender of the others", func(ctx context.Context) error {
		defer close(ended)
		return r.sendOthers(ctx, producer, r.arrivals()[0].at.Add(r.keep))
	})
	r.keepA1(t, ended)
	r.finish(t)
	if err := tasks.Stop(); err != nil {
		t.Fatal(err)
	}
	r.judge(t)
}

// consume acks B and C at once and keeps A.
func (r *orderRun) consume(ctx context.Context, c rmq.SimpleConsumer) error {
	for ctx.Err() == nil {
		for _, m := range sdk.Receive(ctx, c, 16, r.lease) {
			if r.took(m, c) {
				continue
			}
			if err := sdk.Ack(ctx, c, m); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// took notes an arrival and says whether it is kept.
func (r *orderRun) took(m *rmq.MessageView, c rmq.SimpleConsumer) (kept bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if sdk.KeyOf(m) == "A" {
		r.ofA = append(r.ofA, arrival{sdk.NumberOf(m), int(m.GetDeliveryAttempt()), now, m, c})
		return true
	}
	r.others++
	name := string(m.GetBody())
	if took := now.Sub(r.sentAt[name]); took > arrivesWithin {
		r.late = append(r.late, fmt.Sprintf("%s after %v", name, took))
	}
	return false
}

func (r *orderRun) sendOthers(ctx context.Context, p rmq.Producer, until time.Time) error {
	tick := time.NewTicker(othersEvery)
	defer tick.Stop()
	for n := 1; time.Now().Before(until); n++ {
		for _, key := range []string{"B", "C"} {
			r.mu.Lock()
			r.sentAt[fmt.Sprintf("%s/%d", key, n)] = time.Now()
			r.mu.Unlock()
			if err := sdk.Send(ctx, p, orderTopic, key, n); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (r *orderRun) arrivals() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.ofA...)
}

// keepA1 watches while A1 is out: it comes again each time its lease has ended, and nothing else of A comes.
func (r *orderRun) keepA1(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	sdk.Eventually(t, r.lease+5*time.Second, "A1 again, as attempt 2", func() bool { return len(r.arrivals()) > 1 })
	first := r.arrivals()[0]
	if err := sdk.Ack(t.Context(), first.consumer, first.view); err != nil { // too late: nil says that an answer came, not which
		t.Fatal(err)
	}
	if e := explain(t, r.broker, orderGroup, orderTopic, "A"); e.Status != "leased" || e.DeliveryAttempt != 2 || e.Behind != 1 {
		t.Errorf("after an ack under the old handle the strand is %+v, want attempt 2 leased with one message behind", e)
	}
	select {
	case <-ended:
	case <-time.After(r.keep + 10*time.Second):
		t.Fatal("the sender of the others did not end")
	}
	all := r.arrivals()
	if want := int(r.keep/r.lease) + 1; len(all) < 2 || len(all) > want {
		t.Errorf("A was delivered %d times in %v with leases of %v, want 2 to %d", len(all), r.keep, r.lease, want)
	}
	for i, a := range all {
		if a.number != 1 || a.attempt != i+1 {
			t.Errorf("delivery %d of A is A%d as attempt %d, want A1 as attempt %d", i+1, a.number, a.attempt, i+1)
		}
		if i > 0 && a.at.Sub(all[i-1].at) < r.lease-arrivesWithin {
			t.Errorf("attempt %d came %v after the one before it, whose lease was %v", a.attempt, a.at.Sub(all[i-1].at), r.lease)
		}
	}
}

// finish acks A1 under its current handle: then A2 comes.
func (r *orderRun) finish(t *testing.T) {
	t.Helper()
	acked := 0
	next := func() bool {
		all := r.arrivals()
		for ; acked < len(all); acked++ { // the lease may end just before the ack: then A1 comes once more
			if err := sdk.Ack(t.Context(), all[acked].consumer, all[acked].view); err != nil {
				t.Fatal(err)
			}
		}
		return all[len(all)-1].number == 2
	}
	sdk.Eventually(t, 5*time.Second, "A2 after the ack of A1", next)
	r.tap.Main().DrainBegin()
	sdk.Eventually(t, 10*time.Second, "everything acked", func() bool { return unfinished(t, r.broker, orderGroup) == 0 })
	r.tap.Main().DrainEnd()
}

func (r *orderRun) judge(t *testing.T) {
	t.Helper()
	r.broker.keystrand(t, "group", "create", "read-back")
	n := messagesOf(t, r.broker, orderTopic)
	r.tap.NoteReadBack(t, orderTopic, sdk.ReadAll(t, r.broker.GRPCAddr, "read-back", orderTopic, n))
	r.tap.CheckJudged(t, history.Options{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.late) > 0 {
		t.Errorf("%d of %d messages of B and C took longer than %v: %v", len(r.late), r.others, arrivesWithin, r.late[:min(len(r.late), 10)])
	}
	if want := 2 * int(r.keep/othersEvery) / 2; r.others < want {
		t.Errorf("%d messages of B and C arrived, want at least %d", r.others, want)
	}
	t.Logf("A came %d times, B and C %d times, %d of them late", len(r.ofA), r.others, len(r.late))
}
