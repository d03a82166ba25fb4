package test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/test/internal/sdk"
)

// long asks for the long versions: more kills, and the measurements whose bounds are times.
var long = flag.Bool("long", false, "run the long versions of the tests, with bounds on rates and times")

// The load of the kill test.
const (
	killTopic      = "orders"
	killGroup      = "workers"
	messageGroups  = 500
	senders        = 250 // each has one send open and owns its message groups alone
	killConsumers  = 4
	receivesEach   = 2
	killLease      = 10 * time.Second // the least that a SimpleConsumer may ask for
	handleFor      = 20 * time.Millisecond
	leastOpenSends = 100
	leastRate      = 1000 // messages a second, answered ok, while the broker is up
)

// Goal: a broker process that is killed under load loses nothing that it answered, keeps every message group's order, and
// brings nothing back whose ack it answered.
// Method: the official SDK's producer keeps 250 sends of 500 message groups open, its SimpleConsumers ack as they come; the
// broker gets SIGKILL at random moments with at least 100 sends open, and starts again on the same ports and data. This
// process, which is not killed, records at the wire; at the end the whole topic is read back and the history judged.
func TestSIGKILLOfTheBrokerUnderLoadLosesNothingAndKeepsOrder(t *testing.T) {
	kills := 3
	if *long {
		kills = 10
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d kills", seed, kills)
	run := startKillRun(t, rand.New(rand.NewPCG(seed, 1)))
	run.awaitLoad(t)
	for n := range kills {
		run.untilRandomMoment(t)
		run.kill(t, n)
		run.awaitLoad(t)
	}
	run.drain(t)
	run.judge(t, kills)
}

type killRun struct {
	random   *rand.Rand
	broker   *brokerProcess
	args     []string
	tap      *sdk.Tap
	sending  *task.Group
	stop     atomic.Bool // no sender begins another message
	handling *task.Group
	up       time.Time
	uptime   time.Duration // of rounds that are over
	upSent   int64         // sent in them
	sentAt   int64         // sent when this round began
	openAt   []int64       // sends open at each kill
	downtime []time.Duration
}

func startKillRun(t *testing.T, random *rand.Rand) *killRun {
	t.Helper()
	r := &killRun{random: random, args: []string{"--data", t.TempDir(), "--log-level", "error"}}
	r.broker = startBroker(t, append(r.args, "--topic", killTopic+":fifo:8")...)
	r.broker.keystrand(t, "group", "create", killGroup, "--ordered", "--max-attempts", "100")
	r.tap = sdk.NewTap(t, r.broker.GRPCAddr)
	r.tap.Main().Subscribe(killGroup, killTopic, true, "earliest")
	r.handling = task.NewGroup(t.Context())
	for range killConsumers {
		c := sdk.NewSimpleConsumer(t, r.broker.GRPCAddr, killGroup, killTopic)
		for range receivesEach {
			r.handling.Go("consumer", func(ctx context.Context) error { return ackAll(ctx, c) })
		}
	}
	producer := sdk.NewProducer(t, r.broker.GRPCAddr, killTopic)
	r.sending = task.NewGroup(t.Context())
	r.up = time.Now()
	for s := range senders {
		r.sending.Go("sender", func(ctx context.Context) error { return r.send(ctx, producer, s) })
	}
	return r
}

// send sends the messages of the groups that belong to sender s in turn.
func (r *killRun) send(ctx context.Context, p rmq.Producer, s int) error {
	for n := 1; ; n++ {
		for g := s; g < messageGroups; g += senders {
			if r.stop.Load() {
				return nil
			}
			if err := sdk.Send(ctx, p, killTopic, fmt.Sprintf("order-%03d", g), n); err != nil {
				return err
			}
		}
	}
}

// ackAll receives, handles and acks, the messages of one answer at the same time.
func ackAll(ctx context.Context, c rmq.SimpleConsumer) error {
	for ctx.Err() == nil {
		acks := task.NewGroup(ctx)
		for _, m := range sdk.Receive(ctx, c, 32, killLease) {
			acks.Go("handler", func(ctx context.Context) error {
				sdk.Pause(ctx, handleFor) // so that many messages are out at each kill
				return sdk.Ack(ctx, c, m)
			})
		}
		if err := acks.Wait(); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// awaitLoad waits until the load runs again after a start.
func (r *killRun) awaitLoad(t *testing.T) {
	t.Helper()
	before := r.tap.Sent()
	sdk.Eventually(t, 20*time.Second, "2,000 sends answered after the start", func() bool { return r.tap.Sent() > before+2000 })
}

// untilRandomMoment waits up to 2 s, or 5 s in the long version, and then until enough sends are open.
func (r *killRun) untilRandomMoment(t *testing.T) {
	t.Helper()
	most := 2 * time.Second
	if *long {
		most = 5 * time.Second
	}
	sdk.Pause(t.Context(), time.Duration(r.random.Int64N(int64(most))))
	sdk.Eventually(t, 20*time.Second, "100 sends open", func() bool { return r.tap.Open() >= leastOpenSends })
}

// kill ends the broker and starts it again on its ports and data.
func (r *killRun) kill(t *testing.T, n int) {
	t.Helper()
	main, process, what := r.tap.Main(), uint32(100_000+n), fmt.Sprintf("kill %d", n+1)
	main.FaultBegin(what)
	r.openAt = append(r.openAt, r.tap.Open())
	main.Kill(process, "broker")
	r.broker.Kill(t)
	down := time.Now()
	r.uptime += down.Sub(r.up)
	r.upSent += r.tap.Sent() - r.sentAt
	main.Kill(process, "broker") // again: what it had handed out may have been read since
	at := append(r.args, "--grpc-addr", r.broker.GRPCAddr, "--http-addr", r.broker.HTTPAddr)
	r.broker = startBroker(t, at...)
	main.Boot(process+1, "broker")
	main.FaultEnd(what)
	r.up, r.sentAt = time.Now(), r.tap.Sent()
	r.downtime = append(r.downtime, time.Since(down))
}

// drain ends the senders, with their messages answered, and waits until the consumers have acked everything.
func (r *killRun) drain(t *testing.T) {
	t.Helper()
	r.stop.Store(true)
	if err := r.sending.Wait(); err != nil {
		t.Fatal(err)
	}
	r.uptime += time.Since(r.up)
	r.upSent += r.tap.Sent() - r.sentAt
	r.tap.Main().DrainBegin()
	sdk.Eventually(t, time.Minute, "everything acked", func() bool { return unfinished(t, r.broker, killGroup) == 0 })
	r.tap.Main().DrainEnd()
	if err := r.handling.Stop(); err != nil {
		t.Fatal(err)
	}
}

func (r *killRun) judge(t *testing.T, kills int) {
	t.Helper()
	r.broker.keystrand(t, "group", "create", "read-back")
	r.tap.NoteReadBack(t, killTopic, sdk.ReadAll(t, r.broker.GRPCAddr, "read-back", killTopic, messagesOf(t, r.broker, killTopic)))
	report := r.tap.CheckJudged(t, history.Options{})
	rate := float64(r.upSent) / r.uptime.Seconds()
	t.Logf("%d kills with %v sends open, %d messages sent ok, %.0f a second while up; down for %v each; causes of repeats %+v",
		kills, r.openAt, report.Summary.SendsOK, rate, r.downtime, report.Summary.Causes)
	if report.Summary.SendsUnknown < kills*leastOpenSends/2 {
		t.Errorf("%d sends of unknown outcome: the kills did not strike among open sends", report.Summary.SendsUnknown)
	}
	if *long && rate < leastRate {
		t.Errorf("%.0f messages a second, at least %d belong to this run", rate, leastRate)
	}
}
