package dialecttest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

var key = dialect.InboxKey{Inbox: "stock", Aggregate: "a"}

func (s Subject) set(t testing.TB, db *sql.DB, old, next dialect.InboxRow, exists bool) (ok bool) {
	t.Helper()
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		ok = must(s.Dialect.SetInbox(ctx, tx, key, old, next, exists))(t)
	})
	return ok
}

func (s Subject) compareAndSet(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	one := dialect.InboxRow{Version: 1, State: "CREATED", Token: keystrand.Token{Broker: "b1", Value: 1<<40 | 7}, Pending: 2}
	if !s.set(t, db, dialect.InboxRow{}, one, false) {
		t.Fatal("the first row was refused")
	}
	if s.set(t, db, dialect.InboxRow{}, one, false) {
		t.Error("a second first row was taken (S11)")
	}
	row, exists, err := s.Dialect.InboxOf(t.Context(), db, key)
	if d := cmp.Diff(row, one); d != "" || !exists || err != nil {
		t.Errorf("read back: exists %v, error %v (-got +want):\n%s", exists, err, d)
	}
	two := one
	two.Version = 2
	if s.set(t, db, dialect.InboxRow{Version: 5}, two, true) {
		t.Error("set although the version read was another (S12)")
	}
	if !s.set(t, db, one, two, true) || s.set(t, db, one, two, true) {
		t.Error("the same compare-and-set must hold once and not twice")
	}
}

func (s Subject) tokenGuard(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	at := func(version int64, broker string, token uint64) dialect.InboxRow {
		return dialect.InboxRow{Version: version, Token: keystrand.Token{Broker: broker, Value: token}}
	}
	s.set(t, db, dialect.InboxRow{}, at(1, "b1", 10), false)
	for _, c := range []struct {
		name string
		old  int64
		next dialect.InboxRow
		want bool
	}{
		{"older token", 1, at(2, "b1", 9), false},
		{"same token", 1, at(2, "b1", 10), true},
		{"newer token", 2, at(3, "b1", 11), true},
		{"another broker", 3, at(4, "b2", 1), true},
		{"back again: another broker again", 4, at(5, "b1", 3), true},
	} {
		if got := s.set(t, db, dialect.InboxRow{Version: c.old}, c.next, true); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func (s Subject) eventID(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	e := dialect.InboxEvent{EventID: "e1", Aggregate: "a", Version: 1, Sum: []byte{1, 2}}
	s.set(t, db, dialect.InboxRow{}, dialect.InboxRow{Version: 1}, false)
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		if err := s.Dialect.PutApplied(ctx, tx, key, e, 5); err != nil {
			t.Fatal(err)
		}
		_, _, seen, err := s.Dialect.ReadInbox(ctx, tx, key, "e1")
		if d := cmp.Diff(seen, &e); d != "" || err != nil {
			t.Errorf("by id: %v (-got +want):\n%s", err, d)
		}
		if d := cmp.Diff(must(s.Dialect.AppliedAt(ctx, tx, key, 1))(t), &e); d != "" {
			t.Errorf("by version (-got +want):\n%s", d)
		}
		if none := must(s.Dialect.AppliedAt(ctx, tx, key, 2))(t); none != nil {
			t.Errorf("a version that was not applied: %v", none)
		}
		other := dialect.InboxKey{Inbox: "shipping", Aggregate: "a"}
		if _, exists, seen, err := s.Dialect.ReadInbox(ctx, tx, other, "e1"); exists || seen != nil || err != nil {
			t.Errorf("another inbox knows it: %v, %v, %v", exists, seen, err)
		}
	})
	tx := must(s.Dialect.Begin(t.Context(), db))(t)
	defer func() { _ = tx.Rollback() }()
	if err := s.Dialect.PutApplied(t.Context(), tx, key, e, 6); s.Dialect.Classify(err) != dialect.ClassRefused {
		t.Errorf("the same id again: %v", err)
	}
}

func (s Subject) pending(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		for _, n := range []int{3, 5} {
			if !must(s.Dialect.PutPending(ctx, tx, key, event("a", n), []byte{9}, int64(n)))(t) {
				t.Errorf("version %d was refused", n)
			}
		}
		if must(s.Dialect.PutPending(ctx, tx, key, event("a", 3), []byte{8}, 1))(t) {
			t.Error("a second event of one version was taken")
		}
		if n := must(s.Dialect.CountPending(ctx, tx, "stock", 100))(t); n != 2 {
			t.Errorf("%d wait, want 2", n)
		}
		if n := must(s.Dialect.CountPending(ctx, tx, "stock", 1))(t); n != 1 {
			t.Errorf("%d counted up to 1", n)
		}
	})
	gaps := must(s.Dialect.Gaps(t.Context(), db, "stock", 10))(t)
	if d := cmp.Diff(gaps, []dialect.Gap{{Aggregate: "a", First: 3, Pending: 2, SinceNs: 3}}); d != "" {
		t.Errorf("gaps (-got +want):\n%s", d)
	}
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		for _, f := range []func(context.Context, dialect.Tx, dialect.InboxKey, int64) (*keystrand.Event, []byte, error){s.Dialect.PendingAt, s.Dialect.TakePending} {
			e, sum, err := f(ctx, tx, key, 3)
			want := event("a", 3)
			if d := cmp.Diff(e, &want); d != "" || err != nil || len(sum) != 1 || sum[0] != 9 {
				t.Errorf("sum %v, error %v (-got +want):\n%s", sum, err, d)
			}
		}
		if e, _, err := s.Dialect.TakePending(ctx, tx, key, 3); e != nil || err != nil {
			t.Errorf("taken twice: %v, %v", e, err)
		}
	})
}

func (s Subject) aside(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	a := dialect.Aside{Reason: "other content", Event: event("a", 2), Sum: []byte{1}, AtNs: 7}
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		if !must(s.Dialect.PutAside(ctx, tx, key, a))(t) || must(s.Dialect.PutAside(ctx, tx, key, a))(t) {
			t.Error("an event is set aside once")
		}
	})
	if d := cmp.Diff(must(s.Dialect.Asides(t.Context(), db, "stock", 10))(t), []dialect.Aside{a}); d != "" {
		t.Errorf("set aside (-got +want):\n%s", d)
	}
}
