package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driverimpl "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// Errors of transactions that outbox and inbox refuse, each of the class keystrand.ErrRejected.
var (
	// ErrDeferred: the transaction began deferred (db.BeginTx). Begin it with sqlite.Begin.
	ErrDeferred = refused("this SQLite transaction began deferred: its first write fails when another writer committed after its first read, and its reads are not protected until then; begin it with sqlite.Begin")
	// ErrNoTransaction: a database or connection was handed over, not a transaction. Begin one with sqlite.Begin.
	ErrNoTransaction = refused("this is not inside a transaction, so what is written would not be one act with yours; begin one with sqlite.Begin")
	// ErrNilTransaction: nil was handed over instead of a transaction. Begin one with sqlite.Begin, and look at its error.
	ErrNilTransaction = refused("the transaction is nil; begin one with sqlite.Begin and look at its error")
	// ErrForeignDatabase: the database was not opened with sqlite.Open, so nobody can tell how its transactions began.
	ErrForeignDatabase = refused("the database was not opened with sqlite.Open, which sets WAL, synchronous=FULL and the busy timeout; open it so")
)

type refusedError struct{ text string }

func refused(text string) error       { return &refusedError{text} }
func (e *refusedError) Error() string { return e.text }
func (e *refusedError) Unwrap() error { return keystrand.ErrRejected }

const retryable = dialect.ClassRetry

// classify reads SQLite's result code; the low byte is the primary one.
func classify(err error) dialect.Class {
	var e *driverimpl.Error
	if !errors.As(err, &e) {
		return dialect.ClassOther
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM:
		return dialect.ClassRetry
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return dialect.ClassCorrupt
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_READONLY:
		return dialect.ClassRefused
	case sqlite3.SQLITE_IOERR:
		// A commit whose sync failed may or may not be in the WAL file after a restart.
		return dialect.ClassUnknown
	}
	return dialect.ClassOther
}

// wrap adds the class, unless the error has one or is the context's.
func wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, class := range []error{keystrand.ErrRetryLater, keystrand.ErrUnknown, keystrand.ErrRejected, keystrand.ErrSuperseded, keystrand.ErrCorrupt} {
		if errors.Is(err, class) {
			return err
		}
	}
	switch classify(err) {
	case dialect.ClassRetry:
		return fmt.Errorf("%w: %w", err, keystrand.ErrRetryLater)
	case dialect.ClassUnknown:
		return fmt.Errorf("%w: %w", err, keystrand.ErrUnknown)
	case dialect.ClassCorrupt:
		return fmt.Errorf("%w: %w", err, keystrand.ErrCorrupt)
	}
	if strings.Contains(err.Error(), missingTable) {
		err = fmt.Errorf("%w; this database has not got the tables of outbox and inbox: run sqlite.Dialect.Migrate on it first", err)
	}
	return fmt.Errorf("%w: %w", err, keystrand.ErrRejected)
}

// missingTable is how SQLite's text begins, which alone tells it from other SQLITE_ERRORs, when the table is one of ours.
const missingTable = "no such table: keystrand_"
