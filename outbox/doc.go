// Package outbox is the sender's half of Keystrand: events become rows in the transaction that changes the business
// state, and a [Relay] sends the rows, in order per message group.
//
// # The life of an event
//
// [Outbox.Append], inside the caller's transaction, gives the event the next version of its aggregate under a lock on that
// aggregate, and inserts its row. The commit makes both the change and the event true, or neither. A relay finds the row,
// sends it when every earlier version of the aggregate was confirmed, and stamps it as sent; the row stays as the event log
// that repair reads ([dialect.Dialect] EventsOf).
//
// # What it keeps
//
//   - Versions of an aggregate have no hole, and their order is the order of the commits.
//   - A row whose transaction commits late is not passed over: relays look for rows that are not sent, never for rows
//     "after the last one".
//   - Version n+1 is sent after n was confirmed. A message that fails holds its own message group only.
//   - An unknown outcome is sent again under the same message ID, so a message may be stored twice; event id and version
//     let the inbox recognise it. The first copies stand in order.
//
// # What it does not
//
// It does not stop a relay that lost its slots while it slept from sending what it had begun. That is a duplicate too.
// Append may be called from any goroutine; a transaction belongs to one at a time.
package outbox
