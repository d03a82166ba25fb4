// Package embedded is the engine of Keystrand's own broker, near and far.
//
// [Open] runs a broker in this process, on a data directory of its own: for tests, for a service that needs no other, and
// for the least latency. [Dial] uses a broker in another process over the RocketMQ 5 gRPC protocol, on the official stubs.
// Both are a keystrand.Engine, and package enginetest shows that both keep the same promises:
//
//   - order and blocking per message group; at most one unfinished message of a message group is out;
//   - fencing: each delivery carries a token that grows with each grant of the strand;
//   - the engine counts attempts, and keeps the count over restarts;
//   - Send and Ack return when it is on disk.
//
// # Putting it together, and stopping it
//
// The package's example is the whole way: a transaction with its events in the outbox, the relay, the broker, a consumer, and
// an inbox that applies them. Topic and consumer group must exist before the consumer is opened: name them in Options, or make
// them by Admin.
//
// Stop in this order:
//
//  1. End the contexts of consumer.Run and of the relay's Run, and wait until both have returned: handlers and sends that are
//     out come to their end, and what they did is acknowledged and stamped.
//  2. Close the keystrand.Consumer and the keystrand.Producer.
//  3. Close the engine. In another order what is out gets ErrClosed, and its messages come again after the lease.
//  4. Close the database: handlers and relay used it to the last.
//
// # What differs over Dial
//
// The protocol does not say which queue took a message (Receipt.Queue is -1), nor whether a report of failure came too late:
// Fail of a delivery that went out again changes nothing and returns nil. Bad and expired receipt handles share one code,
// which is read as ErrLeaseExpired. Topics and groups are managed over HTTP, so Admin needs DialOptions.AdminURL.
//
// When a connection breaks while a call is out, its outcome is unknown (keystrand.ErrUnknown): repeat a Send with the same
// message IDs. Connections come back by themselves. A receive whose answer was lost is repeated under the same attempt id,
// so the broker hands the same messages out again at once, without counting an attempt.
//
// All methods may be called from any goroutine.
package embedded
