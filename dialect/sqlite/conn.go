package sqlite

import (
	"context"
	"database/sql/driver"
	"io"
)

// innerConn is what every connection of the driver can do.
type innerConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn is a connection that knows how its transaction began and keeps the statements it has compiled.
type conn struct {
	innerConn
	mode       mode
	ticket     *ticket
	statements *statements
}

// mode is how the present transaction began.
type mode string

const (
	modeNone      mode = "none"
	modeDeferred  mode = "deferred"
	modeImmediate mode = "immediate"
)

// modeQuery asks a connection for its mode. To SQLite it is an unknown pragma, which answers no row: so a database that was
// opened in another way answers too, and is told apart.
const modeQuery = "PRAGMA keystrand_transaction_mode"

// Unwrap gives the driver's connection.
func (c *conn) Unwrap() driver.Conn { return c.innerConn }

// BeginTx begins immediate when ctx carries a writer's ticket, and deferred otherwise.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	t := ticketOf(ctx)
	if t == nil {
		inner, err := c.innerConn.BeginTx(ctx, driver.TxOptions{Isolation: o.Isolation, ReadOnly: true}) // read-only: the driver says plain BEGIN
		if err != nil {
			return nil, err
		}
		c.mode = modeDeferred
		return &transaction{inner, c}, nil
	}
	inner, err := c.innerConn.BeginTx(ctx, driver.TxOptions{Isolation: o.Isolation})
	if err != nil {
		return nil, err
	}
	c.mode, c.ticket = modeImmediate, t
	return &transaction{inner, c}, nil
}

func (c *conn) ended() {
	c.mode = modeNone
	if c.ticket != nil {
		c.ticket.giveBack()
		c.ticket = nil
	}
}

// Close finalizes the kept statements first.
func (c *conn) Close() error {
	c.statements.close()
	err := c.innerConn.Close()
	c.ended()
	return err
}

// ExecContext runs a statement, compiled once for the connection if it is of the kind that comes again.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.statements.take(ctx, c, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.innerConn.ExecContext(ctx, query, args)
	}
	defer c.statements.giveBack(s)
	return s.stmt.ExecContext(ctx, args)
}

// QueryContext likewise; and it answers modeQuery itself.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if query == modeQuery {
		m := c.mode
		if m == "" {
			m = modeNone
		}
		return &modeRows{m: m}, nil
	}
	s, err := c.statements.take(ctx, c, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.innerConn.QueryContext(ctx, query, args)
	}
	inner, err := s.stmt.QueryContext(ctx, args)
	if err != nil {
		c.statements.giveBack(s)
		return nil, err
	}
	typed, ok := inner.(innerRows)
	if !ok { // cannot be known as closed: let the rows be its last use
		return inner, nil
	}
	return &rows{innerRows: typed, c: c, s: s}, nil
}

// transaction tells the connection when it ends.
type transaction struct {
	driver.Tx
	c *conn
}

func (t *transaction) Commit() error {
	defer t.c.ended()
	return t.Tx.Commit()
}

func (t *transaction) Rollback() error {
	defer t.c.ended()
	return t.Tx.Rollback()
}

// innerRows is what the driver's rows can do.
type innerRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// rows gives its statement back when closed.
type rows struct {
	innerRows
	c *conn
	s *statement
}

func (r *rows) Close() error {
	err := r.innerRows.Close()
	if r.s != nil {
		r.c.statements.giveBack(r.s)
		r.s = nil
	}
	return err
}

// modeRows is the answer to modeQuery.
type modeRows struct {
	m    mode
	done bool
}

func (*modeRows) Columns() []string { return []string{"mode"} }
func (*modeRows) Close() error      { return nil }
func (r *modeRows) Next(dest []driver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done, dest[0] = true, string(r.m)
	return nil
}
