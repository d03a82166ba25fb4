package inbox_test

import (
	"testing"

	"github.com/keystrand/keystrand/dialect/sqlite"
	"github.com/keystrand/keystrand/inbox"
)

// Question: what does the inbox cost beside the change itself? On paper: one read, one compare-and-set and one insert more
// than the bare change, against the commit's sync; on a disk the sync decides, in memory the statements do.
func BenchmarkApply(b *testing.B) {
	db := open(b)
	box := newInbox(b, db, sqlite.Dialect, inbox.Options{})
	version := int64(0)
	for b.Loop() {
		version++
		if r, err := box.ApplyEvent(b.Context(), event("a", version), token(1), effect); err != nil || r.Outcome != inbox.Applied {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkBare is the change with a hand-made version step and event id, in the same kind of transaction.
func BenchmarkBare(b *testing.B) {
	db := open(b)
	for _, table := range []string{"CREATE TABLE bare (aggregate TEXT PRIMARY KEY, version INTEGER)", "CREATE TABLE seen (id TEXT PRIMARY KEY)", "INSERT INTO bare VALUES ('a', 0)"} {
		if _, err := db.ExecContext(b.Context(), table); err != nil {
			b.Fatal(err)
		}
	}
	version := int64(0)
	for b.Loop() {
		version++
		e := event("a", version)
		tx, err := sqlite.Begin(b.Context(), db)
		if err != nil {
			b.Fatal(err)
		}
		_, err = tx.ExecContext(b.Context(), "UPDATE bare SET version = ? WHERE aggregate = ? AND version = ?", version, "a", version-1)
		if err == nil {
			_, err = tx.ExecContext(b.Context(), "INSERT INTO seen VALUES (?)", e.EventID)
		}
		if err == nil {
			err = effect(b.Context(), tx, e)
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
