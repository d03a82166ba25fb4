package outbox_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/outbox"
)

func open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "sender.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlite.Dialect.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func newOutbox(t testing.TB) *outbox.Outbox {
	t.Helper()
	box, err := outbox.New(sqlite.Dialect, outbox.Options{Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// add appends events in one committed transaction.
func add(t testing.TB, db *sql.DB, events ...keystrand.Event) []keystrand.Event {
	t.Helper()
	tx, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	filled, err := newOutbox(t).AppendAll(t.Context(), tx, events...)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return filled
}

func event(aggregate, id string) keystrand.Event {
	return keystrand.Event{EventID: id, Aggregate: aggregate, Type: "Happened", Payload: []byte(id)}
}

func TestAppendWithoutATransactionIsRefused(t *testing.T) {
	t.Parallel()
	box := newOutbox(t)
	for name, tx := range map[string]dialect.Tx{"nil": nil, "nil of a type": (*sql.Tx)(nil), "no database": (*sql.DB)(nil)} {
		if _, err := box.Append(t.Context(), tx, event("order-1", "e1")); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := box.AppendAll(t.Context(), tx, event("order-1", "e1")); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s, all: got %v", name, err)
		}
	}
	if _, err := sqlite.Begin(t.Context(), nil); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("begin on no database: %v", err)
	}
}

func TestAppendBeforeMigrateSaysWhatToRun(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "new.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := newOutbox(t).Append(t.Context(), tx, event("order-1", "e1")); !errors.Is(err, keystrand.ErrRejected) || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("got %v", err)
	}
}

func TestAppendFillsInVersionIdAndTimes(t *testing.T) {
	t.Parallel()
	db := open(t)
	e := event("order-1", "")
	e.Payload = []byte("{}")
	got := add(t, db, e, e)
	for i, e := range got {
		if e.Version != int64(i+1) || len(e.EventID) != 32 || e.ProducedAt.IsZero() || !e.OccurredAt.Equal(e.ProducedAt) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if got[0].EventID == got[1].EventID {
		t.Error("two events got one id")
	}
}

func TestAppendAllKeepsTheOrderWithinAnAggregateAndOfTheAnswer(t *testing.T) {
	t.Parallel()
	db := open(t)
	got := add(t, db, event("b", "b1"), event("a", "a1"), event("b", "b2"), event("a", "a2"))
	text := ""
	for _, e := range got {
		text += fmt.Sprintf("%s=%d ", e.EventID, e.Version)
	}
	if text != "b1=1 a1=1 b2=2 a2=2 " {
		t.Errorf("got %s", text)
	}
}

func TestAppendRefusesAndTheTransactionGoesOn(t *testing.T) {
	t.Parallel()
	db := open(t)
	add(t, db, event("order-1", "e1"))
	tx, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	wrong := event("order-1", "e2")
	wrong.Version = 5
	var versionError *outbox.VersionError
	if _, err := newOutbox(t).Append(t.Context(), tx, wrong); !errors.As(err, &versionError) || versionError.Next != 2 || !errors.Is(err, keystrand.ErrSuperseded) {
		t.Errorf("wrong version: %v", err)
	}
	var idError *outbox.EventIDError
	if _, err := newOutbox(t).Append(t.Context(), tx, event("order-1", "e1")); !errors.As(err, &idError) || !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("id given twice: %v", err)
	}
	other, _ := outbox.New(sqlite.Dialect, outbox.Options{Topic: "refunds"})
	var topicError *outbox.TopicError
	if _, err := other.Append(t.Context(), tx, event("order-1", "e3")); !errors.As(err, &topicError) || topicError.Topic != "orders" {
		t.Errorf("another topic: %v", err)
	}
	if e, err := newOutbox(t).Append(t.Context(), tx, event("order-1", "e4")); err != nil || e.Version != 2 {
		t.Errorf("after the refusals: version %d, %v", e.Version, err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

func TestAppendRefusesADeferredTransactionWithTheReason(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	_, err = newOutbox(t).Append(t.Context(), tx, event("order-1", "e1"))
	if !errors.Is(err, sqlite.ErrDeferred) || !strings.Contains(err.Error(), "sqlite.Begin") {
		t.Errorf("got %v", err)
	}
}

func TestAppendRefusesWhatNoEngineWouldTake(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for name, spoil := range map[string]func(*keystrand.Event){
		"no aggregate": func(e *keystrand.Event) { e.Aggregate = " " }, "64 bytes": func(e *keystrand.Event) { e.Aggregate = strings.Repeat("a", 64) },
		"control": func(e *keystrand.Event) { e.Aggregate = "a\x01" }, "no UTF-8": func(e *keystrand.Event) { e.Aggregate = "a\xff" },
		"tag separator": func(e *keystrand.Event) { e.Type = "a|b" }, "long id": func(e *keystrand.Event) { e.EventID = strings.Repeat("e", 129) },
		"negative version": func(e *keystrand.Event) { e.Version = -1 }, "huge version": func(e *keystrand.Event) { e.Version = 1<<53 + 1 },
		"no payload": func(e *keystrand.Event) { e.Payload = nil }, "big payload": func(e *keystrand.Event) { e.Payload = make([]byte, 4<<20+1) },
		"forged line": func(e *keystrand.Event) { e.TraceID = "x\nlevel=error" },
	} {
		e := event("order-1", "e1")
		spoil(&e)
		if _, err := newOutbox(t).Append(t.Context(), tx, e); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAppendedEventSurvivesTheWayThroughAMessage(t *testing.T) {
	t.Parallel()
	e := event("order-1", "e1")
	e.Version, e.TraceID, e.Schema = 3, "t", "s/1"
	e.OccurredAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	m := e.Message("orders")
	if m.MessageGroup != "order-1" || m.Tag != "Happened" || len(m.ID) != 32 || m.ID != e.Message("orders").ID {
		t.Errorf("message %+v", m)
	}
	back, err := keystrand.EventOf(m)
	if err != nil || fmt.Sprint(back) != fmt.Sprint(e) {
		t.Errorf("got %+v, %v, want %+v", back, err, e)
	}
}

func TestMessageOfAForeignProducerIsReadByItsFallbacks(t *testing.T) {
	t.Parallel()
	m := keystrand.Message{ID: "M1", MessageGroup: "order-1001", Tag: "OrderCreated", Keys: []string{"evt-1001-1"}, Body: []byte("{}"), Properties: map[string]string{"aggregate_version": "1"}}
	e, err := keystrand.EventOf(m)
	if err != nil || e.EventID != "evt-1001-1" || e.Aggregate != "order-1001" || e.Version != 1 || e.Type != "OrderCreated" {
		t.Errorf("got %+v, %v", e, err)
	}
	delete(m.Properties, "aggregate_version")
	if _, err := keystrand.EventOf(m); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("without a version: %v", err)
	}
}
