// Package dialect is the edge to databases: what outbox and inbox need of one, in words that no database owns. SQL text,
// drivers, migrations and error codes stand in the folder of each database (package dialect/sqlite); the suite that each
// of them passes is package dialect/dialecttest.
//
// A [Dialect] keeps no state. Methods that change something for a caller run in the caller's transaction ([Tx]); the
// others take the database and end before they return. All may be called from any goroutine; one transaction belongs to
// one goroutine at a time.
package dialect
