// Package deliver decides who may see which message when: strands, leases, tokens, back-off, parks, dead letters. It is
// a step machine: events in, actions out, no clock, goroutine, disk or network. The sequencer performs the actions.
package deliver

import (
	"time"

	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// RequestID names a waiting Receive; the caller gives it and never reuses it.
type RequestID uint64

// Receive asks for messages.
type Receive struct {
	ID       RequestID
	ClientID string
	// Max is how many messages of as many strands at most; clamped to 1..32.
	Max int
	// Lease is the invisible duration of what is handed out. With AutoRenew it is ignored: the lease lasts while the client
	// lives, at most the group's MaxProcessing.
	Lease     time.Duration
	AutoRenew bool
	// Until is when the empty answer is due.
	Until clock.Mono
	// AttemptID: a repeat with the same non-empty id by the same client gets the same unfinished messages again, same attempt number.
	AttemptID string
	// Push: the rules for official FIFO push clients hold: one message an answer unless the group says push-batch many, and at
	// most PushWindow unacked messages per (ClientID, Slot); the receive is held until there is room.
	Push bool
	Slot int32
}

// Grant is one message handed out.
type Grant struct {
	Strand  state.StrandKey
	Entry   int64
	Attempt int32
	Token   uint64
	Lease   time.Duration
}

// Handle is what a receipt handle says after its checksum held.
type Handle struct {
	Strand state.StrandKey
	Entry  int64
	Token  uint64
}

// Verdict is the immediate answer to an Ack, Fail, Change or Release.
type Verdict uint8

// Verdicts.
const (
	// Done: a record was made; the answer is due when it is durable.
	Done Verdict = iota + 1
	// Already: the same was done before under this very token; answer OK once everything appended is durable.
	Already
	// Stale: the lease ended or the message went out again; nothing was changed.
	Stale
)

func (v Verdict) String() string {
	switch v {
	case Done:
		return "done"
	case Already:
		return "already done"
	case Stale:
		return "stale"
	}
	return "no verdict"
}

// Actions is what one step wants done, in this order: append Records; then answer the receives.
type Actions struct {
	Records []state.Record
	// Answers to receives: with Grants, or empty when the time was up. A receive is answered once.
	Answers []Answer
	// DeadLetters need the message's bytes, which the machine does not have: the sequencer reads each, appends a
	// state.DeadLetter record, applies it with Machine.Applied, and calls Machine.Appended. Until then the strand stays closed.
	DeadLetters []DeadLetter
	// Alarms are for events and logs: at-limit with policy block, park, ...
	Alarms []Alarm
}

// Answer ends one receive.
type Answer struct {
	ID     RequestID
	Grants []Grant
}

// DeadLetter asks for the move of a strand's head.
type DeadLetter struct {
	Strand  state.StrandKey
	Entry   int64
	Token   uint64
	Attempt int32
	Reason  string
}

// Alarm tells of something a person should know.
type Alarm struct {
	What   string // one of the Alarm constants
	Strand state.StrandKey
	Entry  int64
	Reason string
}

// What alarms tell of.
const (
	AlarmParked     = "strand parked"
	AlarmBlocked    = "attempt limit reached, policy block"
	AlarmDeadLetter = "dead letter"
	AlarmLeaseEnded = "lease ended"
	AlarmIndex      = "index not readable"
	AlarmFull       = "strands in memory at their bound, the cursor stopped"
	AlarmBroken     = "delivery stopped, the state is not what the machine made it"
)

// Tokens gives fencing tokens; one for the whole broker.
type Tokens interface{ Next() uint64 }

// Explain is why a strand does or does not move.
type Explain struct {
	Strand   state.StrandKey
	Known    bool   // false: nothing unfinished of it below the cursor
	Status   string // one of the Status constants
	Head     int64
	Attempt  int32
	ClientID string
	Token    uint64
	// Left is the rest of the lease, back-off or hold.
	Left      time.Duration
	LastError string
	Cursor    int64
}

// The statuses that Explain tells.
const (
	StatusReady      = "ready"
	StatusLeased     = "leased"
	StatusFinishing  = "finishing" // what closed the last hand-out is not durable yet, or a dead letter is being made
	StatusBackingOff = "backing off"
	StatusParked     = "parked"
	StatusHeld       = "held after restart"
	StatusIdle       = "idle" // nothing unfinished below the cursor
)

// Stats are counts of the moment.
type Stats struct {
	Ready, Leased, BackingOff, Parked, Held, Finishing int
	// Waiting receives.
	Waiting int
	// Strands in memory, and the first entry not looked at.
	Strands int
	Cursor  int64
	// Finished, DeadLettered and Filtered messages since the group's start.
	Finished, DeadLettered, Filtered int64
}

// Index is what the machine reads of the topic's index.
type Index = state.Index

// Options of a machine. Zero values mean the defaults.
type Options struct {
	// Now is the start.
	Now clock.Mono
	// Unclean: the process before this one did not stop in order, so grants may be lost that were not on disk yet. Strands
	// without a recorded grant whose head is below RecoveredCount then wait RestartHold (default 5 s; negative: none).
	Unclean        bool
	RestartHold    time.Duration
	RecoveredCount int64
	// MaxReady: the cursor stops while so many strands are ready or held; default 4096. Less: less memory. More: a wider
	// choice after many strands were blocked; not needed for order or fairness.
	MaxReady int
	// MaxStrands bounds the strands in memory, whatever their state; default 1,048,576. At it the cursor stops, with an
	// alarm: what is below it goes on, what is above waits.
	MaxStrands int
}

// Defaults and bounds.
const (
	defaultRestartHold = 5 * time.Second
	defaultMaxReady    = 4096
	defaultMaxStrands  = 1 << 20
	maxReceive         = 32
	defaultLease       = 30 * time.Second
	// clientSilence ends auto-renewed leases of a client that gave no sign.
	clientSilence = 30 * time.Second
	// readBudget bounds the entries that one step reads at the cursor and in successor searches.
	readBudget = 4096
	// indexRetry is the wait after a failed read of the index.
	indexRetry = time.Second
)
