// Package sqlite is the SQLite dialect, on modernc.org/sqlite: no C compiler is needed.
//
//	db, err := sqlite.Open("orders.db")          // WAL, synchronous=FULL, foreign keys, busy timeout 5 s
//	err = sqlite.Dialect.Migrate(ctx, db)        // makes the keystrand_... tables
//	tx, err := sqlite.Begin(ctx, db)             // a writer from its first moment: BEGIN IMMEDIATE
//
// # Why Begin
//
// SQLite has one writer at a time. A transaction of db.BeginTx is deferred: it takes the writer's place at its first
// write, and when another writer committed since its first read, that fails at once (SQLITE_BUSY_SNAPSHOT), however long
// the busy timeout. Versions would be read before the lock that protects them. So whatever writes with outbox or inbox
// begins with [Begin]; a deferred transaction is detected and refused with that reason. Reading may stay deferred.
//
// Writers of one process queue for the writer's place in the order they came, before they take a connection, so they
// neither poll nor starve readers of connections. Writers of other processes meet through SQLite's busy timeout.
//
// # Limits
//
// A process that is stopped inside a writing transaction stops all writers of the file: that is SQLite's nature. In-memory
// databases are refused, since each connection would have one of its own.
package sqlite
