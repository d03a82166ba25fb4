package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/outbox"
)

// stoppedClock is a user's own: the type of RelayOptions.Clock can be named and made outside this module.
type stoppedClock struct{}

func (stoppedClock) Wall() time.Time     { return time.Unix(1_800_000_000, 0) }
func (stoppedClock) Mono() time.Duration { return time.Hour }

var _ outbox.Clock = stoppedClock{}

// engine is a producer that keeps what it was sent, in order, and fails as its fault says.
type engine struct {
	mu    sync.Mutex
	log   []keystrand.Message
	ids   map[string]int
	fault func(messages []keystrand.Message) (stored bool, err error)
	more  chan struct{}
}

func newEngine() *engine { return &engine{ids: map[string]int{}, more: make(chan struct{}, 1)} }

func (e *engine) Send(_ context.Context, messages ...keystrand.Message) ([]keystrand.Receipt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	stored, err := true, error(nil)
	if e.fault != nil {
		stored, err = e.fault(messages)
	}
	receipts := make([]keystrand.Receipt, len(messages))
	if stored {
		for i, m := range messages {
			receipts[i] = keystrand.Receipt{MessageID: m.ID, Offset: keystrand.Offset(len(e.log))}
			e.log = append(e.log, m)
			e.ids[m.ID]++
		}
		select {
		case e.more <- struct{}{}:
		default:
		}
	}
	return receipts, err
}

func (e *engine) Close() error { return nil }

// distinct counts messages stored at least once.
func (e *engine) distinct() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.ids)
}

// waitFor waits until n different messages are stored.
func (e *engine) waitFor(t testing.TB, n int) {
	t.Helper()
	limit := time.After(time.Minute)
	for e.distinct() < n {
		select {
		case <-e.more:
		case <-limit:
			t.Fatalf("%d of %d messages were sent", e.distinct(), n)
		}
	}
}

// checkOrder: first copies of each group stand in version order, without a hole.
func (e *engine) checkOrder(t testing.TB) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, m := range e.log {
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		event, err := keystrand.EventOf(m)
		if err != nil {
			t.Fatal(err)
		}
		if event.Version != last[event.Aggregate]+1 {
			t.Errorf("%s: version %d follows %d", event.Aggregate, event.Version, last[event.Aggregate])
		}
		last[event.Aggregate] = event.Version
	}
}

// start runs a relay until the returned stop, which waits.
func start(t testing.TB, db *sql.DB, p keystrand.Producer, o outbox.RelayOptions) (*outbox.Relay, func()) {
	t.Helper()
	r, err := outbox.NewRelay(db, sqlite.Dialect, p, o)
	if err != nil {
		t.Fatal(err)
	}
	g := task.NewGroup(context.Background())
	g.Go("relay", r.Run)
	var once sync.Once
	stop := func() {
		once.Do(func() {
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return r, stop
}

func unsent(t testing.TB, db *sql.DB) int64 {
	t.Helper()
	n, err := sqlite.Dialect.CountUnsent(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRelaySendsBacklogAndNewRowsInOrder(t *testing.T) {
	t.Parallel()
	db, e := open(t), newEngine()
	var events []keystrand.Event
	for n := range 40 {
		for g := range 30 {
			events = append(events, event(fmt.Sprintf("order-%d", g), fmt.Sprintf("e-%d-%d", g, n)))
		}
	}
	add(t, db, events[:600]...)
	r, stop := start(t, db, e, outbox.RelayOptions{})
	for i := 600; i < 1200; i += 60 {
		add(t, db, events[i:i+60]...)
		r.Notify()
	}
	e.waitFor(t, 1200)
	stop()
	e.checkOrder(t)
	if n := unsent(t, db); n != 0 || len(e.log) != 1200 {
		t.Errorf("%d rows are not stamped; %d messages were sent for 1200 rows", n, len(e.log))
	}
}

// The engine loses requests and answers, and is out for a while: every row arrives, first copies in order, and the copies
// of a row share one message ID.
func TestUnknownOutcomesAreSentAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	db, e := open(t), newEngine()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	faults := 0
	e.fault = func([]keystrand.Message) (bool, error) {
		switch random.IntN(12) {
		case 0:
			faults++
			return false, fmt.Errorf("request lost: %w", keystrand.ErrUnknown)
		case 1:
			faults++
			return true, fmt.Errorf("answer lost: %w", keystrand.ErrUnknown)
		case 2:
			faults++
			return false, keystrand.ErrRetryLater
		}
		return true, nil
	}
	var events []keystrand.Event
	for n := range 10 {
		for g := range 8 {
			events = append(events, event(fmt.Sprintf("order-%d", g), fmt.Sprintf("e-%d-%d", g, n)))
		}
	}
	add(t, db, events...)
	_, stop := start(t, db, e, outbox.RelayOptions{Batch: 3})
	e.waitFor(t, 80)
	stop()
	e.checkOrder(t)
	if len(e.ids) != 80 || faults == 0 {
		t.Errorf("%d message IDs for 80 events, %d faults struck", len(e.ids), faults)
	}
}

func TestPoisonHeadHoldsItsOwnGroupOnly(t *testing.T) {
	t.Parallel()
	db, e := open(t), newEngine()
	e.fault = func(messages []keystrand.Message) (bool, error) {
		for _, m := range messages {
			if m.MessageGroup == "order-3" {
				return false, fmt.Errorf("message %s: %w", m.ID, keystrand.ErrTooLarge)
			}
		}
		return true, nil
	}
	var mu sync.Mutex
	held := map[string]int{}
	var events []keystrand.Event
	for n := range 5 {
		for g := range 10 {
			events = append(events, event(fmt.Sprintf("order-%d", g), fmt.Sprintf("e-%d-%d", g, n)))
		}
	}
	add(t, db, events...)
	_, stop := start(t, db, e, outbox.RelayOptions{Events: outbox.RelayEvents{Held: func(e keystrand.Event, _ error) {
		mu.Lock()
		held[e.Aggregate]++
		mu.Unlock()
	}}})
	e.waitFor(t, 45)
	stop()
	e.checkOrder(t)
	mu.Lock()
	defer mu.Unlock()
	if n := unsent(t, db); n != 5 || len(held) != 1 || held["order-3"] == 0 {
		t.Errorf("%d rows wait, want the 5 of order-3; held: %v", n, held)
	}
}

// Relays come and go while rows are written (S17): every row is sent, and first copies stand in order.
func TestRelaysShareTheWorkAndTakeOverFromTheDead(t *testing.T) {
	t.Parallel()
	db, e := open(t), newEngine()
	const total = 300
	lease := time.Second
	writers := task.NewGroup(t.Context())
	for w := range 3 {
		writers.Go("writer", func(context.Context) error {
			for n := range total / 3 {
				add(t, db, event(fmt.Sprintf("order-%d-%d", w, n%20), fmt.Sprintf("e-%d-%d", w, n)))
			}
			return nil
		})
	}
	// One relay vanishes without a word: its row and slots stay.
	if err := sqlite.Dialect.Beat(t.Context(), db, "vanished"); err != nil {
		t.Fatal(err)
	}
	_, slots, err := sqlite.Dialect.Survey(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Dialect.TakeSlots(t.Context(), db, "vanished", slots[:40], nil); err != nil {
		t.Fatal(err)
	}
	_, stopFirst := start(t, db, e, outbox.RelayOptions{Lease: lease})
	_, stopSecond := start(t, db, e, outbox.RelayOptions{Lease: lease})
	e.waitFor(t, total/3)
	stopFirst()
	e.waitFor(t, total)
	stopSecond()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	e.checkOrder(t)
	if n := unsent(t, db); n != 0 {
		t.Errorf("%d rows are not stamped", n)
	}
	relays, slots, err := sqlite.Dialect.Survey(t.Context(), db)
	if err != nil || len(relays) != 0 {
		t.Errorf("relays left: %v, %v", relays, err)
	}
	for _, s := range slots {
		if s.Owner != "" {
			t.Errorf("slot %d still belongs to %s", s.ID, s.Owner)
		}
	}
}

// dialect.Dialect whose stamps fail: "commit happened, answer lost" and "nothing happened", by turns.
type flaky struct {
	dialect.Dialect
	mu sync.Mutex
	n  int
}

func (f *flaky) MarkSent(ctx context.Context, db *sql.DB, sent []dialect.Sent, at int64) (int, error) {
	f.mu.Lock()
	f.n++
	n := f.n
	f.mu.Unlock()
	if n%3 == 1 {
		return 0, keystrand.ErrRetryLater
	}
	stamped, err := f.Dialect.MarkSent(ctx, db, sent, at)
	if n%3 == 2 {
		return 0, errors.Join(err, keystrand.ErrUnknown)
	}
	return stamped, err
}

func TestLostStampsRepeatNothingAndLoseNothing(t *testing.T) {
	t.Parallel()
	db, e := open(t), newEngine()
	for n := range 50 {
		add(t, db, event(fmt.Sprintf("order-%d", n%7), fmt.Sprintf("e-%d", n)))
	}
	r, err := outbox.NewRelay(db, &flaky{Dialect: sqlite.Dialect}, e, outbox.RelayOptions{Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g := task.NewGroup(t.Context())
	g.Go("relay", r.Run)
	e.waitFor(t, 50)
	for unsent(t, db) > 0 {
		if t.Context().Err() != nil {
			t.Fatal("rows are not stamped")
		}
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	e.checkOrder(t)
	if len(e.log) != 50 {
		t.Errorf("%d messages for 50 rows, although the relay never stopped", len(e.log))
	}
}

// deaf is a dialect that writes no stamps: a relay on it dies, in effect, between every send and its stamp.
type deaf struct{ dialect.Dialect }

func (deaf) MarkSent(context.Context, *sql.DB, []dialect.Sent, int64) (int, error) {
	return 0, keystrand.ErrRetryLater
}

func TestRelayThatDiesBeforeStampingRepeatsUnderTheSameIDs(t *testing.T) { // S17, P03
	t.Parallel()
	db, e := open(t), newEngine()
	for n := range 40 {
		add(t, db, event(fmt.Sprintf("order-%d", n%4), fmt.Sprintf("e-%d", n)))
	}
	first, err := outbox.NewRelay(db, deaf{sqlite.Dialect}, e, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := task.NewGroup(t.Context())
	g.Go("first", first.Run)
	e.waitFor(t, 40)
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	second, stop := start(t, db, e, outbox.RelayOptions{})
	for n := int64(1); n > 0; {
		if n, err = second.Pending(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	e.checkOrder(t)
	if len(e.ids) != 40 || len(e.log) != 80 {
		t.Errorf("%d messages under %d IDs, want each of 40 twice", len(e.log), len(e.ids))
	}
}
