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
	// Already: the message was finished before under this very token; answer OK once everything appended is durable.
	Already
	// Stale: the lease ended or the message went out again; nothing was changed.
	Stale
)

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
	What   string // "strand parked", "attempt limit reached, policy block", "dead letter", "lease ended"
	Strand state.StrandKey
	Entry  int64
	Reason string
}

// Tokens gives fencing tokens; one for the whole broker.
type Tokens interface{ Next() uint64 }

// Explain is why a strand does or does not move.
type Explain struct {
	Strand   state.StrandKey
	Known    bool   // false: nothing unfinished of it below the cursor
	Status   string // ready, leased, finishing, backing off, parked, held after restart, idle
	Head     int64
	Attempt  int32
	ClientID string
	Token    uint64
	// Left is the rest of the lease, back-off or hold.
	Left      time.Duration
	LastError string
	Cursor    int64
}

// The machine's methods; the implementation keeps to these signatures. All take the monotonic now; none may be called
// concurrently. Every step first ends what is due by now (so an ended lease is ended before an ack is honoured).
//
//	func New(group state.Group, topic state.Topic, p *state.Progress, ix Index, tokens Tokens, o Options) *Machine
//	    Options: Now, Unclean bool, RestartHold time.Duration (default 5 s), MaxReady int (default 4096: the cursor stops there),
//	    RecoveredCount int64 (entries below it existed before the start: only they are held after an unclean stop).
//	    p may hold leases from before a restart: each runs its whole recorded length again and its handle may still ack once.
//	func (m *Machine) Visible(now, n int64) Actions            entries below n are visible: the cursor may read them
//	func (m *Machine) Receive(now, r Receive) Actions
//	func (m *Machine) Cancel(now, id RequestID) Actions         the waiting receive is gone; no answer
//	func (m *Machine) Undelivered(now, grants []Grant) Actions  the answer could not be written: leases end at once, attempt not counted
//	func (m *Machine) Ack(now, h Handle) (Verdict, Actions)
//	func (m *Machine) Fail(now, h Handle, reason string, delay time.Duration) (Verdict, Actions)   delay < 0: the group's back-off
//	func (m *Machine) Change(now, h Handle, d time.Duration) (Verdict, Actions)   lease ends d from now
//	func (m *Machine) ClientSeen(now, clientID) ; ClientGone(now, clientID, after time.Duration) Actions
//	    auto-renewed leases of the client end after that (0: at once) unless it is seen again; without a sign for 30 s they end too
//	func (m *Machine) Park(now, key, reason) (bool, Actions); Resume(now, key) (bool, Actions)
//	func (m *Machine) SetGroup(now, state.Group) Actions
//	func (m *Machine) Appended(end uint64)                      everything returned so far is in the log below this mark
//	func (m *Machine) Durable(now, mark uint64) Actions         a finished message's successor becomes ready only now
//	func (m *Machine) Applied(now, r state.Record) Actions      for DeadLetter records made by the sequencer
//	func (m *Machine) Tick(now) Actions; Next() (clock.Mono, bool)   the next time a Tick is due
//	func (m *Machine) Explain(now, key) Explain
//	func (m *Machine) Stats() Stats                             ready, leased, backing off, parked, waiting receives, unfinished below cursor is not needed
//
// type Index interface { Entry(n int64) (Entry, error) }  with the fields that deliver needs: Queue, GroupHash, TagHash, Next, QueueNext
