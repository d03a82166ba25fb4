// Package dialecttest is the suite that each dialect passes: what outbox and inbox rely on, stated as tests.
package dialecttest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// Subject is a dialect under test.
type Subject struct {
	Dialect dialect.Dialect
	// Open gives an empty database, closed when the test ends, and opened anew for each call.
	Open func(t testing.TB) *sql.DB
	// Refused are transactions that CheckWriter must refuse; each returns one on db and its end.
	Refused map[string]func(t testing.TB, db *sql.DB) dialect.Tx
	// OneWriter: the database has one writer at a time, so tests with two open writers are left out.
	OneWriter bool
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Run("MigrateTwiceAndAtOnceIsHarmless", s.migrate)
	t.Run("RefusedTransactionsAreRefusedWithTheReason", s.refused)
	t.Run("VersionsHaveNoHoleAndFollowTheCommits", s.versions)
	t.Run("RefusedAppendLeavesNoTraceEvenWhenCommitted", s.refusedAppend)
	t.Run("RolledBackVersionIsGivenAgain", s.rolledBack)
	t.Run("ConcurrentAppendsToOneAggregateGetEachVersionOnce", s.concurrentAppends)
	t.Run("UnsentRowsComeInOrderGroupByGroup", s.unsent)
	if !s.OneWriter { // with one writer at a time rows commit in the order of their numbers
		t.Run("LateCommitIsFoundByTheNextSweep", s.lateCommit)
	}
	t.Run("SlotsAreTakenOnceAndOnlyFromTheDead", s.slots)
	t.Run("StampUnderAnOldTokenIsRefused", s.staleStamp)
	t.Run("InboxRowIsSetOnlyAsRead", s.compareAndSet)
	t.Run("OlderTokenOfOneBrokerIsRefusedByTheStatement", s.tokenGuard)
	t.Run("EventIdIsRecordedOnce", s.eventID)
	t.Run("PendingEventsComeBackAsTheyWere", s.pending)
	t.Run("AsidesAreKeptOnce", s.aside)
}

func (s Subject) open(t testing.TB) *sql.DB {
	db := s.Open(t)
	if err := s.Dialect.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

// in runs f in a writing transaction and commits it.
func (s Subject) in(t testing.TB, db *sql.DB, f func(ctx context.Context, tx *sql.Tx)) {
	t.Helper()
	ctx := t.Context()
	tx, err := s.Dialect.Begin(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	f(ctx, tx)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// event makes the n-th event of an aggregate with every field set.
func event(aggregate string, n int) keystrand.Event {
	at := time.Date(2026, 6, 20, 12, 0, n, 123456000, time.UTC)
	return keystrand.Event{
		EventID: fmt.Sprintf("%s/%d", aggregate, n), Aggregate: aggregate, Version: int64(n), Type: "Happened", OccurredAt: at, ProducedAt: at.Add(time.Second),
		TraceID: "trace", Schema: "schema/1", Payload: []byte{0, 1, 2, byte(n)},
	}
}

func outboxEvent(aggregate string, n, slot int) dialect.OutboxEvent {
	return dialect.OutboxEvent{Event: event(aggregate, n), Topic: "orders", Slot: slot}
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (s Subject) migrate(t *testing.T) {
	t.Parallel()
	db := s.Open(t)
	failures := make(chan error, 4)
	for range cap(failures) {
		go func() { failures <- s.Dialect.Migrate(t.Context(), db) }()
	}
	for range cap(failures) {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	if err := s.Dialect.Migrate(t.Context(), db); err != nil {
		t.Error(err)
	}
}

func (s Subject) refused(t *testing.T) {
	t.Parallel()
	db := s.open(t)
	for name, begin := range s.Refused {
		t.Run(name, func(t *testing.T) {
			err := s.Dialect.CheckWriter(t.Context(), begin(t, db))
			if !errors.Is(err, keystrand.ErrRejected) || len(err.Error()) < 40 {
				t.Errorf("got %v, want a rejection that says why", err)
			}
		})
	}
	s.in(t, db, func(ctx context.Context, tx *sql.Tx) {
		if err := s.Dialect.CheckWriter(ctx, tx); err != nil {
			t.Errorf("a transaction of Begin: %v", err)
		}
	})
}
