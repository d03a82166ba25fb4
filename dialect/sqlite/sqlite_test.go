package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/dialect/dialecttest"
	"github.com/keystrand/keystrand/dialect/sqlite"
)

func open(t testing.TB) *sql.DB {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestSQLitePassesTheSuite(t *testing.T) {
	t.Parallel()
	dialecttest.Run(t, dialecttest.Subject{
		Dialect: sqlite.Dialect, Open: open, OneWriter: true,
		Refused: map[string]func(testing.TB, *sql.DB) dialect.Tx{
			"deferred": func(t testing.TB, db *sql.DB) dialect.Tx {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = tx.Rollback() })
				return tx
			},
			"the database itself": func(_ testing.TB, db *sql.DB) dialect.Tx { return db },
			"a database opened in another way": func(t testing.TB, _ *sql.DB) dialect.Tx {
				db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
				if err != nil {
					t.Fatal(err)
				}
				tx, err := db.BeginTx(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _, _ = tx.Rollback(), db.Close() })
				return tx
			},
		},
	})
}

func TestSettingsHoldOnEveryConnectionWhateverTheNameSays(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open("file:" + filepath.Join(t.TempDir(), "a b.db") + "?_pragma=synchronous(OFF)&_pragma=foreign_keys(OFF)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for range 3 {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // held, so that each round has another connection
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000"} {
			var got string
			if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s: got %q, %v, want %q", pragma, got, err, want)
			}
		}
	}
}

func TestInMemoryDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ":memory:", "file::memory:?cache=shared", "file:x?mode=memory"} {
		if _, err := sqlite.Open(name); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestBeginOnAForeignDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlite.Begin(t.Context(), db); !errors.Is(err, sqlite.ErrForeignDatabase) {
		t.Errorf("got %v", err)
	}
}

// The reason for Begin: a deferred transaction that has read cannot write after another commit, whatever the busy timeout.
func TestDeferredTransactionLosesItsWriteAndBeginDoesNot(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, "CREATE TABLE n (v INTEGER)")
	exec(t, db, "INSERT INTO n VALUES (0)")
	deferred, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var v int
	if err := deferred.QueryRowContext(t.Context(), "SELECT v FROM n").Scan(&v); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE n SET v = v + 1")
	_, err = deferred.ExecContext(t.Context(), "UPDATE n SET v = ?", v+1)
	if sqlite.Dialect.Classify(err) != dialect.ClassRetry {
		t.Errorf("the deferred write: %v, want busy", err)
	}
	_ = deferred.Rollback()

	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for range 10 {
				tx, err := sqlite.Begin(t.Context(), db)
				if err != nil {
					t.Error(err)
					return
				}
				var v int
				err = errors.Join(tx.QueryRowContext(t.Context(), "SELECT v FROM n").Scan(&v), func() error {
					_, err := tx.ExecContext(t.Context(), "UPDATE n SET v = ?", v+1)
					return err
				}(), tx.Commit())
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if err := db.QueryRowContext(t.Context(), "SELECT v FROM n").Scan(&v); err != nil || v != 161 {
		t.Errorf("got %d, %v, want 161: an update was lost", v, err)
	}
}

func exec(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func TestWriterPlaceIsFreeAfterEveryKindOfEnd(t *testing.T) {
	t.Parallel()
	db, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "test.db"), sqlite.Options{BusyTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ends := map[string]func(tx *sql.Tx, cancel func()){
		"commit": func(tx *sql.Tx, _ func()) { _ = tx.Commit() }, "rollback": func(tx *sql.Tx, _ func()) { _ = tx.Rollback() },
		"context": func(_ *sql.Tx, cancel func()) { cancel() },
	}
	for name, end := range ends {
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			tx, err := sqlite.Begin(ctx, db)
			if err != nil {
				t.Fatalf("after %s: %v", name, err)
			}
			end(tx, cancel)
			cancel()
		}
	}
	if tx, err := sqlite.Begin(t.Context(), db); err != nil {
		t.Error(err)
	} else {
		_ = tx.Rollback()
	}
}

func TestWaitForTheWriterPlaceEndsWithTheTimeoutAndWithTheContext(t *testing.T) {
	t.Parallel()
	db, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "test.db"), sqlite.Options{BusyTimeout: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := sqlite.Begin(t.Context(), db); !errors.Is(err, keystrand.ErrRetryLater) || !strings.Contains(err.Error(), "30ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Begin(ctx, db); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Another process holds the writer's place (S07): a second handle on the file stands for it.
func TestBusyFromAnotherProcessIsRetryLater(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "test.db")
	other, err := sqlite.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	db, err := sqlite.OpenWith(name, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := sqlite.Begin(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Begin(t.Context(), db); !errors.Is(err, keystrand.ErrRetryLater) || sqlite.Dialect.Classify(err) != dialect.ClassRetry {
		t.Errorf("while it is held: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	free, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatalf("once it is free: %v", err)
	}
	_ = free.Rollback()
}

func TestKeptStatementsServeNestedQueriesAndSchemaChanges(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, "CREATE TABLE n (v INTEGER)")
	exec(t, db, "INSERT INTO n VALUES (1), (2), (3)")
	tx, err := sqlite.Begin(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	const query = "SELECT v FROM n ORDER BY v"
	outer, err := tx.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for outer.Next() {
		var v, w int
		if err := errors.Join(outer.Scan(&v), tx.QueryRowContext(t.Context(), query).Scan(&w)); err != nil {
			t.Fatal(err)
		}
		sum += v * w
	}
	if err := errors.Join(outer.Err(), outer.Close()); err != nil || sum != 6 {
		t.Errorf("got %d, %v, want 6", sum, err)
	}
	if _, err := tx.ExecContext(t.Context(), "ALTER TABLE n ADD COLUMN w INTEGER DEFAULT 7"); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.QueryContext(t.Context(), "SELECT * FROM n")
	if err != nil {
		t.Fatal(err)
	}
	if columns, err := rows.Columns(); err != nil || len(columns) != 2 {
		t.Errorf("columns %v, %v", columns, err)
	}
	if err := errors.Join(rows.Close(), tx.Commit()); err != nil {
		t.Error(err)
	}
}

func TestMoreStatementsThanAreKeptStillRun(t *testing.T) {
	t.Parallel()
	db := open(t)
	for n := range 200 {
		var v int
		if err := db.QueryRowContext(t.Context(), "SELECT "+strings.Repeat(" ", n)+"1").Scan(&v); err != nil || v != 1 {
			t.Fatal(v, err)
		}
	}
}
