// Package enginetest is the suite that each engine passes. What an engine promises is data (keystrand.Guarantees), and the
// suite checks just that.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

// Subject is an engine under test.
type Subject struct {
	// Open gives an engine with an empty store, closed when the test ends.
	Open func(t testing.TB) keystrand.Engine
	// Restart ends the engine's service as a crash-free stop does and starts it again on the same store. The returned engine
	// may be the same one. Nil: not tested.
	Restart func(t testing.TB, e keystrand.Engine) keystrand.Engine
	// ShortestLease is the engine's; tests that wait for a lease's end use it.
	ShortestLease time.Duration
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	for name, test := range map[string]func(*testing.T, *world){
		"MessageArrivesAsItWasSent":                         roundTrip,
		"GroupsArriveInOrderOneAtATimeOverSeveralConsumers": order,
		"NextMessageWaitsForTheFinishOfTheOneBefore":        oneAtATime,
		"UnfinishedGroupHoldsNoOther":                       isolation,
		"FailedAttemptComesAgainCountedAndWithALargerToken": failure,
		"EndedLeaseComesAgainCountedAndItsAckIsRefused":     leaseEnd,
		"ExtendedLeaseIsKept":                               extension,
		"ReleasedDeliveryComesAgainAtOnce":                  release,
		"AckTwiceIsHarmlessAndOthersOfItsBatchCount":        ackTwice,
		"ForeignHandleIsRefused":                            foreignHandle,
		"LimitParksTheStrandAndOthersGoOn":                  park,
		"LimitMovesToTheDeadLetterTopicAndTheStrandGoesOn":  deadLetter,
		"ConsumerGroupsAreIndependent":                      independence,
		"FilterPassesOverOtherTags":                         filter,
		"CallersMistakesAreRejected":                        mistakes,
		"EmptyReceiveEndsInTimeAndWithItsContext":           emptyReceive,
		"CreatingAgainIsHarmlessUnlessSettingsDiffer":       admin,
		"ClosedProducerAndConsumerSaySo":                    closed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, s))
		})
	}
	if s.Restart != nil {
		t.Run("RestartKeepsMessagesFinishesAttemptsAndTokens", func(t *testing.T) {
			t.Parallel()
			restart(t, newWorld(t, s))
		})
	}
}

// world is an engine with a topic and an ordered consumer group of its own.
type world struct {
	testing.TB
	subject      Subject
	engine       keystrand.Engine
	topic, group string
	producer     keystrand.Producer
	sent         map[string]int
}

var worlds atomic.Int64

func newWorld(t testing.TB, s Subject) *world {
	t.Helper()
	n := worlds.Add(1)
	w := &world{TB: t, subject: s, engine: s.Open(t), topic: fmt.Sprintf("orders-%d", n), group: fmt.Sprintf("stock-%d", n), sent: map[string]int{}}
	w.create(keystrand.TopicSpec{Name: w.topic, Type: keystrand.TopicFIFO, Queues: 4})
	w.createGroup(keystrand.GroupSpec{Name: w.group, Ordered: true, BackOffMin: 10 * time.Millisecond, BackOffMax: 20 * time.Millisecond})
	w.producer = w.newProducer()
	return w
}

func (w *world) create(topic keystrand.TopicSpec) {
	w.Helper()
	w.must(w.engine.Admin().CreateTopic(w.Context(), topic))
}

func (w *world) createGroup(group keystrand.GroupSpec) {
	w.Helper()
	w.must(w.engine.Admin().CreateGroup(w.Context(), group))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) newProducer() keystrand.Producer {
	w.Helper()
	p, err := w.engine.Producer(w.Context())
	w.must(err)
	w.Cleanup(func() { _ = p.Close() })
	return p
}

// consumer opens a receiver of the world's topic.
func (w *world) consumer(lease time.Duration) keystrand.Consumer {
	w.Helper()
	return w.consumerOf(keystrand.ConsumerOptions{Group: w.group, Topic: w.topic, Lease: lease, Wait: 20 * time.Second})
}

func (w *world) consumerOf(o keystrand.ConsumerOptions) keystrand.Consumer {
	w.Helper()
	c, err := w.engine.Consumer(w.Context(), o)
	w.must(err)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// send stores n next messages of each group; their bodies say group/number.
func (w *world) send(n int, groups ...string) {
	w.Helper()
	for range n {
		var batch []keystrand.Message
		for _, g := range groups {
			w.sent[g]++
			batch = append(batch, keystrand.Message{Topic: w.topic, MessageGroup: g, Body: []byte(fmt.Sprintf("%s/%d", g, w.sent[g]))})
		}
		receipts, err := w.producer.Send(w.Context(), batch...)
		w.must(err)
		if len(receipts) != len(batch) || receipts[0].MessageID == "" {
			w.Fatalf("receipts %v for %d messages", receipts, len(batch))
		}
	}
}

// limit bounds every wait for a message.
const limit = 30 * time.Second

// receive waits for exactly one message, with that body.
func (w *world) receive(c keystrand.Consumer, body string) keystrand.Delivery {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	for {
		got, err := c.Receive(ctx, 1)
		w.must(err)
		if len(got) == 0 {
			continue
		}
		if len(got) != 1 || string(got[0].Body) != body {
			w.Fatalf("got %d messages, the first %q, want %q", len(got), got[0].Body, body)
		}
		return got[0]
	}
}

// nothing expects that no message comes for a moment.
func (w *world) nothing(o keystrand.ConsumerOptions) {
	w.Helper()
	o.Wait = 150 * time.Millisecond
	got, err := w.consumerOf(o).Receive(w.Context(), 32)
	w.must(err)
	for _, d := range got {
		w.Errorf("received %v: %q", d, d.Body)
	}
}

func (w *world) options() keystrand.ConsumerOptions {
	return keystrand.ConsumerOptions{Group: w.group, Topic: w.topic, Lease: limit}
}

func (w *world) wants(err error, class error) {
	w.Helper()
	if !errors.Is(err, class) {
		w.Errorf("got error %v, want %q", err, class)
	}
}
