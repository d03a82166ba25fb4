package dialect

import (
	"context"
	"database/sql"
)

// Tx is a transaction that someone else began and will end. *sql.Tx is one, and so are the wrappers of common query
// builders. A *sql.DB or *sql.Conn also has these methods; CheckWriter refuses them, since nothing done through them
// would be one act.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Dialect is one database as the library sees it.
type Dialect interface {
	// Name is a word for logs: "sqlite".
	Name() string
	// Migrate brings the library's own tables (all named keystrand_...) to the version of this build. Safe to call from
	// several processes at once and again at any time; it touches no other table.
	Migrate(ctx context.Context, db *sql.DB) error
	// Begin starts a transaction that may write: its first statement sees everything committed before Begin returned.
	Begin(ctx context.Context, db *sql.DB) (*sql.Tx, error)
	// CheckWriter refuses, with the reason, a Tx in which a write could fail or be lost although each statement is right:
	// one that is no transaction, or that cannot become a writer without losing what it has read.
	CheckWriter(ctx context.Context, tx Tx) error
	// Classify says what a database error means for the one who got it.
	Classify(err error) Class

	Outbox
	Relays
	Inbox
}

// Class is what a database error means.
type Class uint8

// The classes.
const (
	// ClassOther: none of the below: a fault of the statement, of the data or of the machine.
	ClassOther Class = iota
	// ClassRetry: surely nothing was done (busy, deadlock, serialization failure, rolled back): run the whole transaction again.
	ClassRetry
	// ClassUnknown: the connection was lost while something was going on that may have been done, a commit above all.
	ClassUnknown
	// ClassCorrupt: the database says that its stored bytes are wrong.
	ClassCorrupt
	// ClassRefused: the statement broke a rule of the schema (unique, check, foreign key); running it again will not help.
	ClassRefused
)

// String names the class.
func (c Class) String() string {
	return [...]string{"other", "retry", "unknown", "corrupt", "refused"}[c]
}
