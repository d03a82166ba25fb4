package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/inbox"
)

func open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "receiver.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlite.Dialect.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE effect (n INTEGER PRIMARY KEY, aggregate TEXT, version INTEGER, event_id TEXT)`); err != nil {
		t.Fatal(err)
	}
	return db
}

func newInbox(t testing.TB, db *sql.DB, d dialect.Dialect, o inbox.Options) *inbox.Inbox {
	t.Helper()
	if o.Name == "" {
		o.Name = "stock"
	}
	b, err := inbox.New(db, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// effect writes one row for each time the handler's change is committed.
func effect(ctx context.Context, tx *sql.Tx, e keystrand.Event) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO effect (aggregate, version, event_id) VALUES (?, ?, ?)`, e.Aggregate, e.Version, e.EventID)
	return err
}

// effects are the versions of an aggregate in commit order.
func effects(t testing.TB, db *sql.DB, aggregate string) (versions []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT version FROM effect WHERE aggregate = ? ORDER BY n`, aggregate)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return versions
}

func oneTo(n int64) (versions []int64) {
	for v := int64(1); v <= n; v++ {
		versions = append(versions, v)
	}
	return versions
}

func event(aggregate string, version int64) keystrand.Event {
	return keystrand.Event{EventID: fmt.Sprintf("%s/%d", aggregate, version), Aggregate: aggregate, Version: version, Type: "Happened", Payload: []byte("x")}
}

func token(value uint64) keystrand.Token { return keystrand.Token{Broker: "b1", Value: value} }

// apply expects an outcome.
func apply(t testing.TB, b *inbox.Inbox, e keystrand.Event, tok uint64, want inbox.Outcome) inbox.Result {
	t.Helper()
	r, err := b.ApplyEvent(t.Context(), e, token(tok), effect)
	if (err == nil) != (want != inbox.Superseded) || r.Outcome != want {
		t.Fatalf("version %d under token %d: got %q, %v, want %q", e.Version, tok, r.Outcome, err, want)
	}
	return r
}

func TestHundredVersionsInReverseOrderAreAppliedInOrder(t *testing.T) { // G03
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{})
	for v := int64(100); v > 1; v-- {
		apply(t, b, event("a", v), uint64(200-v), inbox.Parked)
	}
	gaps, err := b.Gaps(t.Context(), 10)
	if err != nil || len(gaps) != 1 || gaps[0].First != 2 || gaps[0].Pending != 99 || gaps[0].Applied != 0 {
		t.Errorf("gaps %+v, %v", gaps, err)
	}
	if r := apply(t, b, event("a", 1), 300, inbox.Applied); len(r.Applied) != 100 {
		t.Errorf("one transaction applied %d events", len(r.Applied))
	}
	if got := effects(t, db, "a"); !slices.Equal(got, oneTo(100)) {
		t.Errorf("effects in commit order: %v", got)
	}
	if gaps, _ := b.Gaps(t.Context(), 10); len(gaps) != 0 {
		t.Errorf("gaps left: %v", gaps)
	}
}

func TestRandomOrderWithRepeatsAppliesEachOnceInOrder(t *testing.T) {
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{})
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	var all []keystrand.Event
	for v := range int64(30) {
		for _, g := range []string{"a", "b", "c"} {
			all = append(all, event(g, v+1), event(g, v+1))
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, e := range all {
		if _, err := b.ApplyEvent(t.Context(), e, token(uint64(i)), effect); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []string{"a", "b", "c"} {
		if got := effects(t, db, g); !slices.Equal(got, oneTo(30)) {
			t.Errorf("%s: %v", g, got)
		}
	}
}

// T05: a consumer slept past its lease, another one took the strand; the late one changes nothing.
func TestLateApplyUnderAnOldTokenIsRefused(t *testing.T) {
	t.Parallel()
	db := open(t)
	fenced := 0
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{Events: inbox.Events{Outcome: func(_ keystrand.Event, o inbox.Outcome) {
		if o == inbox.Superseded {
			fenced++
		}
	}}})
	apply(t, b, event("a", 1), 5, inbox.Applied)
	apply(t, b, event("a", 2), 7, inbox.Applied)
	late, err := b.ApplyEvent(t.Context(), event("a", 2), token(5), effect)
	var tokenError *inbox.TokenError
	if !errors.Is(err, keystrand.ErrSuperseded) || !errors.As(err, &tokenError) || late.Outcome != inbox.Superseded {
		t.Errorf("got %v, %v", late, err)
	}
	apply(t, b, event("a", 3), 6, inbox.Superseded)
	apply(t, b, event("a", 9), 6, inbox.Superseded)
	apply(t, b, event("a", 2), 8, inbox.Duplicate)
	if got := effects(t, db, "a"); !slices.Equal(got, oneTo(2)) || fenced != 3 {
		t.Errorf("effects %v, %d fenced", got, fenced)
	}
	other := keystrand.Token{Broker: "b2", Value: 1}
	if r, err := b.ApplyEvent(t.Context(), event("a", 3), other, effect); err != nil || r.Outcome != inbox.Applied {
		t.Errorf("another broker's token is not compared: %v, %v", r, err)
	}
}

// L03: the consumer died after the commit, before the ack.
func TestRedeliveryAfterTheCommitIsRecognised(t *testing.T) {
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{})
	d := keystrand.Delivery{Message: event("a", 1).Message("orders"), Attempt: 1, Token: token(1)}
	for attempt, want := range []inbox.Outcome{inbox.Applied, inbox.Duplicate, inbox.Duplicate} {
		d.Attempt, d.Token = attempt+1, token(uint64(attempt+1))
		if r, err := b.Apply(t.Context(), d, effect); err != nil || r.Outcome != want {
			t.Errorf("attempt %d: %v, %v, want %q", d.Attempt, r, err, want)
		}
	}
	if got := effects(t, db, "a"); !slices.Equal(got, oneTo(1)) {
		t.Errorf("effects %v", got)
	}
}

// S11, S12: many workers apply the same events of the same aggregates at once.
func TestManyWorkersOnTheSameEventsMakeOneEffectEach(t *testing.T) {
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{})
	const workers, versions = 6, 12
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for v := int64(1); v <= versions; v++ {
				for _, g := range []string{"a", "b"} {
					if _, err := b.ApplyEvent(t.Context(), event(g, v), keystrand.Token{}, effect); err != nil {
						t.Errorf("worker %d: %v", w, err)
					}
				}
			}
		})
	}
	wait.Wait()
	for _, g := range []string{"a", "b"} {
		if got := effects(t, db, g); !slices.Equal(got, oneTo(versions)) {
			t.Errorf("%s: %v", g, got)
		}
	}
}

func TestContradictionsAreSetAsideOnceAndReported(t *testing.T) {
	t.Parallel()
	db := open(t)
	var reported []string
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{Events: inbox.Events{SetAside: func(e keystrand.Event, reason string) { reported = append(reported, e.EventID+": "+reason) }}})
	for v := int64(1); v <= 3; v++ {
		apply(t, b, event("a", v), 1, inbox.Applied)
	}
	apply(t, b, event("a", 6), 1, inbox.Parked)
	otherBody, otherID, sameOtherID, waiting := event("a", 2), event("a", 2), event("a", 2), event("a", 6)
	otherBody.Payload = []byte("y")
	otherID.EventID, otherID.Payload = "x1", []byte("y")
	sameOtherID.EventID = "x2"
	waiting.EventID, waiting.Payload = "x3", []byte("y")
	apply(t, b, otherBody, 1, inbox.SetAside) // P13: the first body stays
	apply(t, b, otherID, 1, inbox.SetAside)
	apply(t, b, sameOtherID, 1, inbox.Stale)
	apply(t, b, waiting, 1, inbox.SetAside) // G05
	apply(t, b, otherID, 2, inbox.SetAside) // delivered again: no second row
	asides, err := b.Asides(t.Context(), 10)
	if err != nil || len(asides) != 3 || len(reported) != 4 {
		t.Errorf("%d set aside, reported %q, %v", len(asides), reported, err)
	}
	if v, _, err := b.Version(t.Context(), "a"); v != 3 || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
}

func TestGapBufferIsBoundedAndRefusesWithoutLoss(t *testing.T) { // G04
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{MaxPendingPerAggregate: 2, MaxPending: 3})
	for _, e := range []keystrand.Event{event("a", 3), event("a", 4), event("b", 5)} {
		apply(t, b, e, 1, inbox.Parked)
	}
	for _, e := range []keystrand.Event{event("a", 5), event("b", 6), event("c", 2)} {
		_, err := b.ApplyEvent(t.Context(), e, token(1), effect)
		var gap *inbox.GapError
		if !errors.As(err, &gap) || gap.Full == "" || !errors.Is(err, keystrand.ErrRetryLater) {
			t.Errorf("%s: %v", e.EventID, err)
		}
	}
	apply(t, b, event("a", 1), 1, inbox.Applied) // others go on
	apply(t, b, event("a", 2), 1, inbox.Applied)
	if got := effects(t, db, "a"); !slices.Equal(got, oneTo(4)) {
		t.Errorf("effects %v", got)
	}
	apply(t, b, event("c", 2), 1, inbox.Parked) // there is room again
}

func TestGapIsRefusedWhenTheSettingSaysSo(t *testing.T) {
	t.Parallel()
	b := newInbox(t, open(t), sqlite.Dialect, inbox.Options{Gap: inbox.GapReject})
	_, err := b.ApplyEvent(t.Context(), event("a", 4), token(1), effect)
	var gap *inbox.GapError
	if !errors.As(err, &gap) || gap.Applied != 0 || gap.Got != 4 || gap.Full != "" {
		t.Errorf("got %v", err)
	}
}

var orders = inbox.Transitions{
	"": {"OrderCreated": "CREATED"}, "CREATED": {"PaymentSucceeded": "PAID"}, "PAID": {"StockDeducted": "STOCKED_OUT"},
	"STOCKED_OUT": {"OrderShipped": "SHIPPED"}, "SHIPPED": {"OrderSigned": "SIGNED"},
}

func order(version int64, eventType string) keystrand.Event {
	e := event("order-1", version)
	e.Type = eventType
	return e
}

func TestIllegalTransitionIsRejectedAndChangesNothing(t *testing.T) {
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{Transitions: orders})
	apply(t, b, order(1, "OrderCreated"), 1, inbox.Applied)
	_, err := b.ApplyEvent(t.Context(), order(2, "OrderShipped"), token(1), effect)
	var illegal *inbox.TransitionError
	if !errors.As(err, &illegal) || illegal.State != "CREATED" || !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("got %v", err)
	}
	apply(t, b, order(2, "PaymentSucceeded"), 1, inbox.Applied)
	if v, state, err := b.Version(t.Context(), "order-1"); v != 2 || state != "PAID" || err != nil {
		t.Errorf("version %d, state %q, %v", v, state, err)
	}
}

func TestIllegalTransitionFromTheGapBufferIsSetAsideAndTheGapStaysOpen(t *testing.T) {
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{Transitions: orders})
	apply(t, b, order(2, "OrderShipped"), 1, inbox.Parked)
	apply(t, b, order(3, "StockDeducted"), 1, inbox.Parked)
	if r := apply(t, b, order(1, "OrderCreated"), 1, inbox.Applied); len(r.Applied) != 1 {
		t.Errorf("applied %d", len(r.Applied))
	}
	asides, err := b.Asides(t.Context(), 10)
	if err != nil || len(asides) != 1 || asides[0].Event.Version != 2 {
		t.Fatalf("set aside: %+v, %v", asides, err)
	}
	right := order(2, "PaymentSucceeded")
	right.EventID = "repaired"
	if r := apply(t, b, right, 2, inbox.Applied); len(r.Applied) != 2 {
		t.Errorf("after the repair: applied %d", len(r.Applied))
	}
}

func TestFailingOrPanickingHandlerLeavesNothing(t *testing.T) { // I12
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{})
	boom := errors.New("boom")
	failing := func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error {
		return errors.Join(effect(ctx, tx, e), boom)
	}
	if _, err := b.ApplyEvent(t.Context(), event("a", 1), token(1), failing); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = b.ApplyEvent(t.Context(), event("a", 1), token(1), func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error {
			_ = effect(ctx, tx, e)
			panic("boom")
		})
	}()
	if got := effects(t, db, "a"); got != nil {
		t.Errorf("effects %v", got)
	}
	apply(t, b, event("a", 1), 1, inbox.Applied)
	apply(t, b, event("a", 3), 1, inbox.Parked)
	onThree := func(ctx context.Context, tx *sql.Tx, e keystrand.Event) error {
		if e.Version == 3 {
			return boom
		}
		return effect(ctx, tx, e)
	}
	_, err := b.ApplyEvent(t.Context(), event("a", 2), token(1), onThree)
	var pending *inbox.PendingError
	if !errors.As(err, &pending) || pending.Version != 3 || !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if r := apply(t, b, event("a", 2), 1, inbox.Applied); len(r.Applied) != 2 { // G07: both or none
		t.Errorf("applied %d", len(r.Applied))
	}
}

func TestApplyInNeedsAWriterAndCommitsWithTheCaller(t *testing.T) {
	t.Parallel()
	db := open(t)
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{})
	deferred, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ApplyIn(t.Context(), deferred, event("a", 1), token(1), effect); !errors.Is(err, sqlite.ErrDeferred) {
		t.Errorf("deferred: %v", err)
	}
	_ = deferred.Rollback()
	for _, commit := range []bool{false, true} {
		tx, err := sqlite.Begin(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := b.ApplyIn(t.Context(), tx, event("a", 1), token(1), effect); err != nil || r.Outcome != inbox.Applied {
			t.Errorf("%v, %v", r, err)
		}
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := effects(t, db, "a"); !slices.Equal(got, oneTo(1)) {
		t.Errorf("effects %v", got)
	}
}

func TestApplyInWithoutATransactionIsRefused(t *testing.T) {
	t.Parallel()
	box := newInbox(t, open(t), sqlite.Dialect, inbox.Options{})
	if _, err := box.ApplyIn(t.Context(), nil, event("a", 1), token(1), effect); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("got %v", err)
	}
}

func TestNoEventIsRefused(t *testing.T) {
	t.Parallel()
	b := newInbox(t, open(t), sqlite.Dialect, inbox.Options{})
	for name, d := range map[string]keystrand.Delivery{
		"no version":   {Message: keystrand.Message{ID: "m", MessageGroup: "a", Tag: "T"}},
		"zero":         {Message: keystrand.Message{ID: "m", MessageGroup: "a", Tag: "T", Properties: map[string]string{"version": "0"}}},
		"huge (SEC84)": {Message: keystrand.Message{ID: "m", MessageGroup: "a", Tag: "T", Properties: map[string]string{"version": "9223372036854775807"}}},
	} {
		if _, err := b.Apply(t.Context(), d, effect); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name, o := range map[string]inbox.Options{
		"no name": {}, "gap policy": {Name: "x", Gap: "maybe"}, "transition to nowhere": {Name: "x", Transitions: inbox.Transitions{"": {"A": ""}}},
		"unreachable state": {Name: "x", Transitions: inbox.Transitions{"LOST": {"A": "B"}}},
	} {
		if _, err := inbox.New(db, sqlite.Dialect, o); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S07: another process holds the writer's place for longer than the busy timeout; the transaction is run again.
func TestBusyDatabaseIsRetriedFromTheStart(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "receiver.db")
	db, err := sqlite.OpenWith(name, sqlite.Options{BusyTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	other, err := sqlite.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := sqlite.Dialect.Migrate(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	holder, err := sqlite.Begin(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	b := newInbox(t, db, sqlite.Dialect, inbox.Options{Retries: 1000})
	began := time.Now()
	freed := time.AfterFunc(150*time.Millisecond, func() { _ = holder.Rollback() })
	defer freed.Stop()
	r, err := b.ApplyEvent(t.Context(), event("a", 1), token(1), nil)
	if err != nil || r.Outcome != inbox.Applied || time.Since(began) < 100*time.Millisecond {
		t.Errorf("%v, %v, after %v", r, err, time.Since(began))
	}
	strict := newInbox(t, db, sqlite.Dialect, inbox.Options{Retries: 1})
	again, err := sqlite.Begin(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Rollback() }()
	if _, err := strict.ApplyEvent(t.Context(), event("a", 2), token(1), nil); !errors.Is(err, keystrand.ErrRetryLater) {
		t.Errorf("after its retries: %v", err)
	}
}
