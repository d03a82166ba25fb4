package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"strings"
	"time"

	driverimpl "modernc.org/sqlite"

	"github.com/keystrand/keystrand"
)

// Options of a database. The zero value works.
type Options struct {
	// BusyTimeout bounds the wait for the writer's place; default 5 s, at least 1 ms. Longer: fewer retries when another
	// process holds it long; shorter: a stuck writer shows sooner. Keep it below the lease of a delivery.
	BusyTimeout time.Duration
	// MaxConns bounds open connections; default 8, at least 2: writers take one at a time, the rest read.
	MaxConns int
}

func (o Options) complete() Options {
	if o.BusyTimeout < time.Millisecond {
		o.BusyTimeout = 5 * time.Second
	}
	if o.MaxConns == 0 {
		o.MaxConns = 8
	}
	o.MaxConns = max(o.MaxConns, 2)
	return o
}

// Open opens, or creates, the database file of that name, or that a DSN "file:NAME?..." names, and sets it up as the
// library needs it: WAL, synchronous=FULL (a commit is on disk when it returns), foreign keys on. The caller closes it.
func Open(name string) (*sql.DB, error) { return OpenWith(name, Options{}) }

// OpenWith is Open with options.
func OpenWith(name string, o Options) (*sql.DB, error) {
	dsn, err := dsnOf(name)
	if err != nil {
		return nil, err
	}
	o = o.complete()
	base, err := driverimpl.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("open SQLite database %q: %w: %w", name, err, keystrand.ErrRejected)
	}
	c := &connector{Connector: base, options: o}
	c.driver = &poolDriver{Driver: base.Driver(), writer: make(chan struct{}, 1), patience: o.BusyTimeout}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(o.MaxConns)
	db.SetMaxIdleConns(o.MaxConns)
	if err := prepareFile(db, o); err != nil {
		_ = db.Close() // nothing was written; the error to tell is the first one
		return nil, fmt.Errorf("open SQLite database %q: %w", name, err)
	}
	return db, nil
}

// dsnOf makes the driver's name of a path or DSN. The driver's own default for BEGIN is set to immediate; conn asks for
// deferred where it wants that.
func dsnOf(name string) (string, error) {
	if name == "" || strings.Contains(name, ":memory:") || strings.Contains(name, "mode=memory") {
		return "", fmt.Errorf("open SQLite database %q: in memory each connection would have a database of its own; name a file: %w", name, keystrand.ErrRejected)
	}
	if !strings.HasPrefix(name, "file:") {
		name = "file:" + (&url.URL{Path: name}).EscapedPath()
	}
	glue := "?"
	if strings.Contains(name, "?") {
		glue = "&"
	}
	return name + glue + "_txlock=immediate", nil
}

// prepareFile switches the file to WAL, which stays with the file, and fails early when it is no database. The switch
// needs the file for itself for a moment, and SQLite does not wait for that: it is tried until the busy timeout is over, or
// leastOpen if that is longer: a short busy timeout is about waiting for writers, not about a slow disk. This is the bound
// here, since Open takes no context, as sql.Open takes none.
func prepareFile(db *sql.DB, o Options) error {
	const leastOpen = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), max(o.BusyTimeout, leastOpen))
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode)
		if err == nil && mode == "wal" {
			return nil
		}
		if err == nil {
			return fmt.Errorf("the file's journal mode is %q and cannot become wal: %w", mode, keystrand.ErrRejected)
		}
		if classify(err) != retryable {
			return wrap(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return wrap(err)
		}
	}
}

// poolDriver is the driver of one opened database; it carries what the connections of one pool share.
type poolDriver struct {
	driver.Driver
	writer   chan struct{} // holds one element while a writer of this pool is at work
	patience time.Duration
}

// connector opens connections and sets each up.
type connector struct {
	driver.Connector
	driver  *poolDriver
	options Options
}

// Driver gives the pool's own driver, by which Begin knows its databases.
func (c *connector) Driver() driver.Driver { return c.driver }

// Connect opens one connection. The settings are statements, not parameters of the name: so they hold whatever else the name says.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := raw.(innerConn)
	if !ok {
		_ = raw.Close()
		return nil, fmt.Errorf("SQLite driver's connection %T lacks context methods: %w", raw, keystrand.ErrRejected)
	}
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA busy_timeout=%d", c.options.BusyTimeout.Milliseconds()),
		"PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON",
	} {
		if _, err := inner.ExecContext(ctx, pragma, nil); err != nil {
			_ = inner.Close()
			return nil, fmt.Errorf("%s: %w", pragma, err)
		}
	}
	return &conn{innerConn: inner, statements: newStatements()}, nil
}
