// Package inbox is the receiver's half of Keystrand: it applies events exactly once and in version order, together with
// the change they cause, in one database transaction.
//
// # The life of an event
//
// [Inbox.Apply] reads what the inbox holds of the aggregate and decides:
//
//   - The next version: the aggregate's row takes version and fencing token in one compare-and-set, the state machine
//     allows the transition, the handler makes its change, the event id is recorded, and what waited in the gap buffer for
//     this version is applied too. All of it commits, or nothing.
//   - A later version: a gap. It waits in the gap buffer, which is bounded, or is refused ([Options] Gap). Then the delivery
//     may be acknowledged: the transaction that fills the gap applies it.
//   - A version applied before: a known event id is a duplicate; an unknown one is compared with what was applied. The same
//     content is done; other content is set aside for a person and reported.
//   - A token older than the stored one of the same broker: the lease was lost; nothing changes, the error is ErrSuperseded.
//     A token of another broker is accepted: there the version guards.
//
// Acknowledge the delivery after Apply returned without an error, whatever the outcome. An error of class ErrRejected, such as
// a forbidden transition, comes with each delivery again; the engine still delivers until the group's attempts are used up,
// and the message group waits meanwhile. [TransitionError] says what a handler can do about it.
//
// # What it does not
//
// It cannot take back what the handler did outside the transaction. Events of versions-1-to-n streams only: a subscription
// that filters events out leaves gaps that nobody fills.
//
// An Inbox may be used from any goroutine; it keeps no state outside the database.
package inbox
