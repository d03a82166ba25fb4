// Package sdk runs the official Go SDK of RocketMQ 5, and raw clients beside it, under a tap: what they send, receive, ack
// and report is written down as a history where it crosses the wire, so that internal/history can judge a run of unmodified
// clients. The SDK's own answers would not do: its SimpleConsumer.Ack, for one, returns nil for an ack that was refused.
//
// A run: NewTap for the broker's address, then clients against that address, then ReadBack, then Tap.Judge.
package sdk
