// Package consumer is the receiving loop of Keystrand: it takes deliveries from an engine and runs a handler for each, in
// order within a message group and at the same time across them.
//
// # The life of a delivery
//
// Receivers ask the engine for as many deliveries as there is room for. Each goes to the lane of its message group. A lane
// runs one delivery at a time, on one of a bounded number of workers; lanes with work wait their turn in the order they
// came. While a delivery waits or runs, its lease is extended at a third of its length. When the handler returns nil, the
// delivery is acknowledged, together with all others that finished meanwhile; an error or a panic is reported as a failed
// attempt; an error of class keystrand.ErrSuperseded is neither: the delivery belongs to someone else.
//
// An engine that does not answer is asked again, for ever; Options.Events.Fault tells of it. An engine that rejects a receive,
// because topic or consumer group do not exist, ends Run with that error.
//
// # What it keeps
//
//   - Of a message group at most one handler runs in this process, also when a delivery comes again while the handler of
//     the one before still runs.
//   - Memory, workers and calls to the engine are bounded; an idle message group leaves no trace.
//   - One slow, failing or hanging handler takes one worker. Others wait only when no worker is left.
//
// # What it does not
//
// It does not undo a handler that ran longer than its lease. Effects belong into a transaction that checks the fencing
// token: package inbox. A handler that ignores the end of its context keeps its worker for ever.
//
// The handler is called on goroutines that the consumer owns, several at once, and may call anything but Run.
package consumer
