//go:build !race

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/server"
	"github.com/keystrand/keystrand/internal/task"
)

// The official client has data races of its own (a settings command against the periodic sync, at its start), so these tests
// are built without the race detector only; `make check` runs them.

func init() {
	prepareSDK = func(dir string) {
		for name, value := range map[string]string{rmq.CLIENT_LOG_ROOT: dir, rmq.CLIENT_LOG_LEVEL: "error"} {
			if err := os.Setenv(name, value); err != nil {
				panic(err)
			}
		}
		rmq.ResetLogger()
	}
}

// TestOfficialGoClient runs the official Go client, unmodified, first as it dials by default (TLS), then over plaintext. The
// switch is a global of the client: the two cannot run side by side.
func TestOfficialGoClient(t *testing.T) {
	t.Run("TLS", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *edge){
			"producer and simple consumer":  testSDKSimple,
			"C03 unknown topic":             testSDKUnknownTopic,
			"C10 restart":                   testSDKRestart,
			"C20 wrong type":                testSDKWrongType,
			"C22 attempts":                  testSDKAttempts,
			"C25 empty receive":             testSDKEmptyReceive,
			"C37 push":                      testSDKPush,
			"C38 C39 failing push":          testSDKFailingPush,
			"C44 FIFO push":                 func(t *testing.T, e *edge) { testSDKFIFOPush(t, e, false) },
			"C44 FIFO push, accelerated":    func(t *testing.T, e *edge) { testSDKFIFOPush(t, e, true) },
			"C45 failing FIFO":              func(t *testing.T, e *edge) { testSDKFailingFIFO(t, e, false) },
			"C45 failing FIFO, accelerated": func(t *testing.T, e *edge) { testSDKFailingFIFO(t, e, true) },
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, start(t, nil)) })
		}
	})
	t.Run("plaintext", func(t *testing.T) {
		rmq.EnableSsl = false
		defer func() { rmq.EnableSsl = true }()
		e := start(t, nil)
		testSDKSimple(t, e)
		testSDKFIFOPush(t, e, false)
	})
}

func config(e *edge, group string) *rmq.Config {
	return &rmq.Config{Endpoint: e.addr, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

type starter interface {
	Start() error
	GracefulStop() error
}

// run starts an SDK client, within 5 s (C01, C02), and stops it with the test.
func run(t *testing.T, c starter, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("start took %v, want less than 5 s", took)
	}
	t.Cleanup(func() { _ = c.GracefulStop() }) // a client whose server is gone reports what it could not say
}

func startProducer(t *testing.T, e *edge, topics ...string) rmq.Producer {
	t.Helper()
	p, err := rmq.NewProducer(config(e, ""), rmq.WithTopics(topics...))
	run(t, p, err)
	return p
}

func sdkMessage(topic, group, body string) *rmq.Message {
	m := &rmq.Message{Topic: topic, Body: []byte(body)}
	if group != "" {
		m.SetMessageGroup(group)
	}
	return m
}

func sdkSend(t *testing.T, p rmq.Producer, topic, group string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		m := sdkMessage(topic, group, body)
		m.SetTag("paid")
		m.SetKeys("k1", "k2")
		m.AddProperty("p", "v")
		if receipts, err := p.Send(context.Background(), m); err != nil || len(receipts) != 1 || len(receipts[0].MessageID) != 34 {
			t.Fatalf("send %q: got %v, %v", body, receipts, err)
		}
	}
}

func startSimple(t *testing.T, e *edge, group string, await time.Duration, topic string) rmq.SimpleConsumer {
	t.Helper()
	c, err := rmq.NewSimpleConsumer(config(e, group), rmq.WithSimpleAwaitDuration(await),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	run(t, c, err)
	return c
}

func testSDKSimple(t *testing.T, e *edge) {
	p := startProducer(t, e, "orders")
	want := strings.Fields("1 2 3 4 5")
	sdkSend(t, p, "orders", "order-1001", want...)
	c := startSimple(t, e, "simple", 5*time.Second, "orders")
	for _, body := range want {
		views, err := c.Receive(context.Background(), 16, 20*time.Second)
		if err != nil || len(views) != 1 {
			t.Fatalf("got %d, %v", len(views), err)
		}
		v := views[0]
		if string(v.GetBody()) != body || *v.GetMessageGroup() != "order-1001" || *v.GetTag() != "paid" || !slices.Equal(v.GetKeys(), []string{"k1", "k2"}) ||
			v.GetProperties()["p"] != "v" || v.GetProperties()[keystrand.PropertyToken] == "" || v.GetDeliveryAttempt() != 1 {
			t.Errorf("got %+v, want body %s", v, body)
		}
		if err := c.ChangeInvisibleDuration(v, 30*time.Second); err != nil {
			t.Error(err)
		}
		if err := c.Ack(context.Background(), v); err != nil {
			t.Fatal(err)
		}
	}
}

func testSDKUnknownTopic(t *testing.T, e *edge) {
	p, err := rmq.NewProducer(config(e, ""), rmq.WithTopics("missing"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err == nil || !strings.Contains(err.Error(), "40402") && !strings.Contains(err.Error(), "TOPIC_NOT_FOUND") {
		t.Errorf("got %v, want 40402", err)
	}
}

func testSDKWrongType(t *testing.T, e *edge) {
	p := startProducer(t, e, "notes", "orders")
	for topic, group := range map[string]string{"notes": "A", "orders": ""} {
		if _, err := p.Send(context.Background(), sdkMessage(topic, group, "x")); err == nil {
			t.Errorf("%s took a message with group %q", topic, group)
		}
	}
}

// C22: a failing send is tried three times, as the Settings say.
func testSDKAttempts(t *testing.T, _ *edge) {
	d := newDouble()
	var tries atomic.Int32
	d.send = func(context.Context, string, []keystrand.Message) ([]keystrand.Receipt, error) {
		tries.Add(1)
		return nil, keystrand.ErrRetryLater
	}
	p := startProducer(t, serve(t, d, nil), "orders")
	if _, err := p.Send(context.Background(), sdkMessage("orders", "A", "x")); err == nil || tries.Load() != 3 {
		t.Errorf("got %v after %d tries, want an error after 3", err, tries.Load())
	}
}

func testSDKEmptyReceive(t *testing.T, e *edge) {
	c := startSimple(t, e, "empty", 5*time.Second, "orders")
	began := time.Now()
	_, err := c.Receive(context.Background(), 16, 20*time.Second)
	rpc, ok := rmq.AsErrRpcStatus(err)
	if took := time.Since(began); !ok || rpc.GetCode() != int32(v2.Code_MESSAGE_NOT_FOUND) || took < 5*time.Second {
		t.Errorf("got %v after %v, want 40401 after 5 s", err, took)
	}
}

// seenBy is what a listener saw, in order.
type seenBy struct {
	mu     sync.Mutex // guards bodies
	bodies []string
	more   chan struct{} // capacity 1
}

func newSeenBy() *seenBy { return &seenBy{more: make(chan struct{}, 1)} }

func (s *seenBy) add(body string) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	select {
	case s.more <- struct{}{}:
	default:
	}
	for _, b := range s.bodies {
		if b == body {
			times++
		}
	}
	return times
}

func (s *seenBy) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// wait blocks until n were seen.
func (s *seenBy) wait(t *testing.T, n int, limit time.Duration) []string {
	t.Helper()
	ctx := within(t, limit)
	for {
		if got := s.all(); len(got) >= n {
			return got
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			t.Fatalf("saw %d of %d within %v: %v", len(s.all()), n, limit, s.all())
		}
	}
}

func startPush(t *testing.T, e *edge, group, topic string, listener func(*rmq.MessageView) rmq.ConsumerResult, more ...rmq.PushConsumerOption) {
	t.Helper()
	options := append([]rmq.PushConsumerOption{
		rmq.WithPushAwaitDuration(5 * time.Second), rmq.WithPushConsumptionThreadCount(20),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: listener}),
	}, more...)
	c, err := rmq.NewPushConsumer(config(e, group), options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// Its graceful stop takes half a minute after any empty poll, which it counts as in flight for ever: nobody waits for it.
	t.Cleanup(func() { go func() { _ = c.GracefulStop() }() })
}

// C37: each message is seen, all are acked, nothing is left.
func testSDKPush(t *testing.T, e *edge) {
	n := 500
	if !testing.Short() {
		n = 10_000
	}
	saw := newSeenBy()
	startPush(t, e, "push", "notes", func(v *rmq.MessageView) rmq.ConsumerResult { saw.add(string(v.GetBody())); return rmq.SUCCESS })
	p := startProducer(t, e, "notes")
	var senders sync.WaitGroup
	for part := range 50 {
		senders.Go(func() {
			for i := range n / 50 {
				if _, err := p.Send(context.Background(), sdkMessage("notes", "", fmt.Sprint(part, "-", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	got := saw.wait(t, n, time.Minute)
	slices.Sort(got)
	if distinct := len(slices.Compact(got)); distinct != n {
		t.Errorf("saw %d different messages of %d", distinct, n)
	}
	eventually(t, "the backlog is 0", func() bool {
		lag, err := e.core.Lag(t.Context(), "push")
		return err == nil && len(lag) == 1 && lag[0].Unfinished == 0
	})
}

// eventually looks every 10 ms: for what an SDK does behind our back there is no event to wait for.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := within(t, callTime)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatalf("not within %v: %s", callTime, what)
		}
	}
}

// C38, C39: a listener that always fails sees the message again after its back-off, then it is a dead letter.
func testSDKFailingPush(t *testing.T, e *edge) {
	e.makeGroup(t, keystrand.GroupSpec{MaxAttempts: 2, AtLimit: keystrand.AtLimitDeadLetter})
	saw := newSeenBy()
	startPush(t, e, "g", "notes", func(v *rmq.MessageView) rmq.ConsumerResult {
		saw.add(fmt.Sprint(string(v.GetBody()), " ", v.GetDeliveryAttempt()))
		return rmq.FAILURE
	})
	sdkSend(t, startProducer(t, e, "notes"), "notes", "", "x")
	if got := saw.wait(t, 2, callTime); !slices.Equal(got, []string{"x 1", "x 2"}) {
		t.Errorf("saw %v, want attempts 1 and 2", got)
	}
	eventually(t, "the dead-letter topic is made by the second report", func() bool { _, made := e.core.Topic("%DLQ%g"); return made })
	dead := e.dial(t, "reader").take(t, poll{group: "readers", topic: "%DLQ%g", max: 1, lease: time.Minute, wait: 10 * time.Second})
	if got := saw.all(); body(dead) != "x" || len(got) != 2 {
		t.Errorf("dead letter %q, saw %v", body(dead), got)
	}
}

// C44: 100 messages of one group are seen in order, each once, one at a time.
func testSDKFIFOPush(t *testing.T, e *edge, accelerated bool) {
	saw := newSeenBy()
	var running, overlaps atomic.Int32
	group := fmt.Sprint("fifo-", accelerated)
	startPush(t, e, group, "one-queue", func(v *rmq.MessageView) rmq.ConsumerResult {
		if running.Add(1) > 1 {
			overlaps.Add(1)
		}
		saw.add(string(v.GetBody()))
		running.Add(-1)
		return rmq.SUCCESS
	}, rmq.WithPushEnableFifoConsumeAccelerator(accelerated))
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
	}
	sdkSend(t, startProducer(t, e, "one-queue"), "one-queue", "A", want...)
	if got := saw.wait(t, 100, 30*time.Second); !slices.Equal(got, want) || overlaps.Load() > 0 {
		t.Errorf("saw %v with %d overlaps, want 0 to 99 in order", got, overlaps.Load())
	}
}

// C45: message 3 fails twice. The strand repeats it before 4, another strand goes on meanwhile.
func testSDKFailingFIFO(t *testing.T, e *edge, accelerated bool) {
	e.makeGroup(t, keystrand.GroupSpec{Ordered: true, MaxAttempts: 5})
	a, b := newSeenBy(), newSeenBy()
	var bDone, third atomic.Int64
	startPush(t, e, "g", "one-queue", func(v *rmq.MessageView) rmq.ConsumerResult {
		text := string(v.GetBody())
		if *v.GetMessageGroup() == "B" {
			b.add(text)
			bDone.Store(time.Now().UnixNano())
			return rmq.SUCCESS
		}
		if times := a.add(text); text == "3" && times <= 2 {
			return rmq.FAILURE
		}
		if text == "3" {
			third.Store(time.Now().UnixNano())
		}
		return rmq.SUCCESS
	}, rmq.WithPushEnableFifoConsumeAccelerator(accelerated))
	p := startProducer(t, e, "one-queue")
	sdkSend(t, p, "one-queue", "A", strings.Fields("1 2 3 4")...)
	sdkSend(t, p, "one-queue", "B", strings.Fields("b1 b2 b3 b4")...)
	if got, want := a.wait(t, 6, 30*time.Second), strings.Fields("1 2 3 3 3 4"); !slices.Equal(got, want) {
		t.Errorf("A saw %v, want %v", got, want)
	}
	if got, want := b.wait(t, 4, callTime), strings.Fields("b1 b2 b3 b4"); !slices.Equal(got, want) || bDone.Load() > third.Load() {
		t.Errorf("B saw %v, done %v after A's third try; want %v before it", got, time.Duration(bDone.Load()-third.Load()), want)
	}
}

// C10, ours within 15 s: after a restart of the server, on the same port, a running push consumer and producer go on without being started again.
func testSDKRestart(t *testing.T, first *edge) {
	saw := newSeenBy()
	startPush(t, first, "again", "orders", func(v *rmq.MessageView) rmq.ConsumerResult { saw.add(string(v.GetBody())); return rmq.SUCCESS })
	p := startProducer(t, first, "orders")
	sdkSend(t, p, "orders", "A", "before")
	saw.wait(t, 1, callTime)
	first.server.Stop(within(t, 3*time.Second))
	second := server.New(server.Options{Sequencer: first.core})
	tasks := task.NewGroup(context.Background())
	tasks.Go("server", func(ctx context.Context) error {
		l, err := net.Listen("tcp", first.addr)
		if err != nil {
			return err
		}
		return second.Serve(ctx, l)
	})
	t.Cleanup(func() {
		second.Stop(within(t, 3*time.Second))
		if err := tasks.Stop(); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	deadline := within(t, 15*time.Second)
	for {
		_, err := p.Send(context.Background(), sdkMessage("orders", "A", "after"))
		if err == nil {
			break
		}
		if deadline.Err() != nil {
			t.Fatal(errors.Join(errors.New("no send within 15 s of the restart"), err))
		}
	}
	saw.wait(t, 2, 15*time.Second)
	t.Logf("first message %v after the restart", time.Since(began))
}
