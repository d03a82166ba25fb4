package dialecttest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keystrand/keystrand/dialect"
)

func (s Subject) append(t testing.TB, db *sql.DB, events ...dialect.OutboxEvent) {
	t.Helper()
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		for _, e := range events {
			if a := must(s.Dialect.AppendEvent(ctx, tx, e))(t); a.Refused != "" {
				t.Fatalf("append of %s: refused: %+v", e.EventID, a)
			}
		}
	})
}

func (s Subject) versions(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	for n := 1; n <= 4; n++ {
		e := outboxEvent("a", n, 0)
		if n%2 == 1 {
			e.Version = 0
		}
		s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
			if a := must(s.Dialect.AppendEvent(ctx, tx, e))(t); a.Version != int64(n) {
				t.Errorf("append %d: got %+v", n, a)
			}
		})
	}
	got := must(s.Dialect.EventsOf(t.Context(), db, "a", 2, 10))(t)
	want := []dialect.OutboxEvent{outboxEvent("a", 2, 0), outboxEvent("a", 3, 0), outboxEvent("a", 4, 0)}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("rows come back changed (-got +want):\n%s", d)
	}
}

func (s Subject) refusedAppend(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	s.append(t, db, outboxEvent("a", 1, 0))
	tooEarly, twice, elsewhere := outboxEvent("a", 3, 0), outboxEvent("a", 1, 0), outboxEvent("a", 2, 0)
	twice.Version, elsewhere.Topic = 0, "refunds"
	first := outboxEvent("b", 1, 0)
	first.EventID = "a/1"
	for _, c := range []struct {
		event dialect.OutboxEvent
		want  dialect.Appended
	}{
		{tooEarly, dialect.Appended{Refused: dialect.RefusedVersion, Next: 2, Topic: "orders"}},
		{twice, dialect.Appended{Refused: dialect.RefusedEventID, Next: 2, Topic: "orders"}},
		{elsewhere, dialect.Appended{Refused: dialect.RefusedTopic, Next: 2, Topic: "orders"}},
		{first, dialect.Appended{Refused: dialect.RefusedEventID, Next: 1}},
	} {
		s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
			if d := cmp.Diff(must(s.Dialect.AppendEvent(ctx, tx, c.event))(t), c.want); d != "" {
				t.Errorf("%+v (-got +want):\n%s", c.event, d)
			}
		})
	}
	s.append(t, db, outboxEvent("a", 2, 0), outboxEvent("b", 1, 0))
}

func (s Subject) rolledBack(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	tx := must(s.Dialect.Begin(t.Context(), db))(t)
	must(s.Dialect.AppendEvent(t.Context(), tx, outboxEvent("a", 1, 0)))(t)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.append(t, db, outboxEvent("a", 1, 0))
}

func (s Subject) concurrentAppends(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 20
	db := s.open(t)
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for n := range each {
				tx, err := s.Dialect.Begin(t.Context(), db)
				if err != nil {
					t.Error(err)
					return
				}
				e := outboxEvent("a", n, 0)
				e.EventID, e.Version = fmt.Sprintf("w%d/%d", w, n), 0
				if _, err := s.Dialect.AppendEvent(t.Context(), tx, e); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	rows := must(s.Dialect.EventsOf(t.Context(), db, "a", 1, 1000))(t)
	if len(rows) != writers*each || rows[0].Version != 1 || rows[len(rows)-1].Version != writers*each {
		t.Errorf("got %d rows from %d to %d, want versions 1 to %d", len(rows), rows[0].Version, rows[len(rows)-1].Version, writers*each)
	}
}

func names(rows []dialect.OutboxEvent) (ids []string) {
	for _, r := range rows {
		ids = append(ids, r.EventID)
	}
	return ids
}

func (s Subject) own(t testing.TB, db *sql.DB, owner string) map[int]dialect.Slot {
	t.Helper()
	if err := s.Dialect.Beat(t.Context(), db, owner); err != nil {
		t.Fatal(err)
	}
	_, slots, err := s.Dialect.Survey(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	took := map[int]dialect.Slot{}
	for _, slot := range must(s.Dialect.TakeSlots(t.Context(), db, owner, slots, nil))(t) {
		took[slot.ID] = slot
	}
	return took
}

func (s Subject) mark(t testing.TB, db *sql.DB, slot dialect.Slot, e dialect.OutboxEvent) int {
	t.Helper()
	return must(s.Dialect.MarkSent(t.Context(), db, []dialect.Sent{{Slot: slot.ID, Token: slot.Token, Aggregate: e.Aggregate, Version: e.Version}}, 1))(t)
}

func (s Subject) unsent(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	slots := s.own(t, db, "relay-1")
	for _, name := range []string{"c", "a", "b"} {
		for n := 1; n <= 5; n++ {
			s.append(t, db, outboxEvent(name, n, 7))
		}
	}
	s.append(t, db, outboxEvent("d", 1, 8))
	s.mark(t, db, slots[7], outboxEvent("b", 1, 7))
	for _, c := range []struct {
		q    dialect.Unsent
		want []string
	}{
		{dialect.Unsent{Slot: 7, Groups: 2, PerGroup: 2}, []string{"a/1", "a/2", "b/2", "b/3"}},
		{dialect.Unsent{Slot: 7, After: "a", Groups: 5, PerGroup: 1}, []string{"b/2", "c/1"}},
		{dialect.Unsent{Slot: 7, After: "c", Groups: 5, PerGroup: 1}, nil},
		{dialect.Unsent{Slot: 8, Groups: 5, PerGroup: 3}, []string{"d/1"}},
	} {
		if d := cmp.Diff(names(must(s.Dialect.UnsentEvents(t.Context(), db, c.q))(t)), c.want); d != "" {
			t.Errorf("%+v (-got +want):\n%s", c.q, d)
		}
	}
	busy := must(s.Dialect.BusySlots(t.Context(), db, "relay-1"))(t)
	if d := cmp.Diff(busy, []dialect.Slot{slots[7], slots[8]}); d != "" {
		t.Errorf("busy slots (-got +want):\n%s", d)
	}
	if n := must(s.Dialect.CountUnsent(t.Context(), db))(t); n != 15 {
		t.Errorf("%d unsent, want 15", n)
	}
}

// lateCommit: a transaction that began first commits last; its row is not passed over (S15).
func (s Subject) lateCommit(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	late := must(s.Dialect.Begin(t.Context(), db))(t)
	must(s.Dialect.AppendEvent(t.Context(), late, outboxEvent("a", 1, 0)))(t)
	s.append(t, db, outboxEvent("b", 1, 0))
	slots := s.own(t, db, "relay-1")
	sweep := func() []string {
		return names(must(s.Dialect.UnsentEvents(t.Context(), db, dialect.Unsent{Groups: 10, PerGroup: 10}))(t))
	}
	if got := sweep(); !slices.Equal(got, []string{"b/1"}) {
		t.Errorf("before the commit: %v", got)
	}
	s.mark(t, db, slots[0], outboxEvent("b", 1, 0))
	if err := late.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := sweep(); !slices.Equal(got, []string{"a/1"}) {
		t.Errorf("after the commit: %v", got)
	}
}

func (s Subject) slots(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	first := s.own(t, db, "relay-1")
	if len(first) != dialect.Slots {
		t.Fatalf("took %d slots of %d", len(first), dialect.Slots)
	}
	if stolen := s.own(t, db, "relay-2"); len(stolen) != 0 {
		t.Errorf("took %d slots of a living relay", len(stolen))
	}
	relays, slots, err := s.Dialect.Survey(t.Context(), db)
	if err != nil || len(relays) != 2 || relays[0] != (dialect.Relay{Owner: "relay-1", Beat: 1}) {
		t.Fatalf("relays %v, error %v", relays, err)
	}
	if err := s.Dialect.Beat(t.Context(), db, "relay-1"); err != nil {
		t.Fatal(err)
	}
	if took := must(s.Dialect.TakeSlots(t.Context(), db, "relay-2", slots[:3], relays[:1]))(t); len(took) != 0 {
		t.Errorf("took %d slots of a relay that beat again", len(took))
	}
	relays[0].Beat = 2
	took := must(s.Dialect.TakeSlots(t.Context(), db, "relay-2", slots[:3], relays[:1]))(t)
	if len(took) != 3 || took[0] != (dialect.Slot{ID: 0, Owner: "relay-2", Token: 2}) {
		t.Errorf("from a dead relay: %v", took)
	}
	if err := s.Dialect.ReleaseSlots(t.Context(), db, "relay-2", took[:1], true); err != nil {
		t.Fatal(err)
	}
	relays, slots, err = s.Dialect.Survey(t.Context(), db)
	if err != nil || len(relays) != 0 || slots[0].Owner != "" || slots[1].Owner != "relay-2" || slots[3].Owner != "relay-1" {
		t.Errorf("after the release: relays %v, slots %v, error %v", relays, slots[:4], err)
	}
}

func (s Subject) staleStamp(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	old := s.own(t, db, "relay-1")
	s.append(t, db, outboxEvent("a", 1, 3))
	if err := s.Dialect.ReleaseSlots(t.Context(), db, "relay-1", []dialect.Slot{old[3]}, true); err != nil {
		t.Fatal(err)
	}
	now := s.own(t, db, "relay-2")
	if n := s.mark(t, db, old[3], outboxEvent("a", 1, 3)); n != 0 {
		t.Error("a stamp under the old token was taken")
	}
	if n := s.mark(t, db, now[3], outboxEvent("a", 1, 3)); n != 1 {
		t.Error("a stamp under the present token was refused")
	}
}
