// Package state is the fold over the log: topics, queues, consumer groups, and per ordered (consumer group, topic) the
// progress of its strands. It holds what must survive a restart and how each record changes it; what it does not hold
// (ready lists, waiting receives, timers, clients) is package deliver's.
package state

import (
	"time"

	"github.com/keystrand/keystrand"
)

// Kind is the kind byte of a log record. Numbers are on disk: never reuse one.
type Kind uint8

// The record kinds. Each act is one record, also when it touches two things.
const (
	KindMessage    Kind = 1  // Message
	KindBoot       Kind = 2  // Boot: the broker started with a new epoch
	KindTopic      Kind = 3  // Topic: created or changed
	KindGroup      Kind = 4  // Group: created or changed
	KindSubscribe  Kind = 5  // Subscribe: a (group, topic) pair begins, or its filter changes
	KindGrant      Kind = 6  // Grant: a strand's head was handed out
	KindFinish     Kind = 7  // Finish: acked, skipped
	KindFail       Kind = 8  // Fail: an attempt was reported as failed
	KindPark       Kind = 9  // Park: the strand waits for an operator
	KindResume     Kind = 10 // Resume: a parked strand goes on
	KindDeadLetter Kind = 11 // DeadLetter: copy to the dead-letter topic and finish, in one
	KindLease      Kind = 12 // Lease: the lease of a grant was changed
	KindRelease    Kind = 13 // Release: the lease ended without a reported failure (time up, client gone, answer not written)
)

// TopicID and GroupID are small numbers given at creation, never reused.
type (
	TopicID uint32
	GroupID uint32
)

// StrandKey names a strand within a (consumer group, topic). Ordered groups: the hash of the message group; for messages
// without one, and at order level queue, QueueStrand(queue). Unordered groups: the entry's number.
//
// Two message groups with the same 64-bit keyed hash share a strand: order is kept, only their isolation is lost.
type StrandKey uint64

// Record is one of the types below.
type Record interface{ Kind() Kind }

type (
	// Message is a stored message. Queue, Offset, Entry and StoredMs are set by the sequencer at append.
	Message struct {
		Topic     TopicID
		Queue     int32
		Offset    int64
		Entry     int64
		StoredMs  int64
		BornMs    int64
		GroupHash uint64
		TagHash   uint32
		ID        string
		Group     string // message group
		Tag       string
		Keys      []string
		Props     map[string]string // encoded in sorted order
		BornHost  string
		Body      []byte
	}
	// Boot marks a start of the broker.
	Boot struct {
		Epoch  uint32
		WallMs int64
		Clean  bool
	}
	// Topic is created with its first record; a later one with the same ID changes it.
	Topic struct {
		ID     TopicID
		Name   string
		Type   keystrand.TopicType
		Queues int32
	}
	// Group likewise.
	Group struct {
		ID   GroupID
		Spec keystrand.GroupSpec // complete: defaults filled in
	}
	// Subscribe begins or changes what a group reads of a topic. Start is the first entry, used the first time only. Cursor is
	// the progress's cursor at a change: entries below it were judged by the old expression (0: not known).
	Subscribe struct {
		Group      GroupID
		Topic      TopicID
		Expression string
		Start      int64
		Cursor     int64
	}
	// Grant is a hand-out. Token is epoch << 40 | counter and grows with every grant of the broker.
	Grant struct {
		Group    GroupID
		Topic    TopicID
		Strand   StrandKey
		Entry    int64 // the strand's head
		Count    int32 // consecutive messages handed out under this token; 1 but for the embedded engine's runs
		Attempt  int32
		LeaseMs  int64
		Token    uint64
		ClientID string
		// AutoRenew: the lease lasts while the client gives signs of life; LeaseMs is then its upper bound.
		AutoRenew bool
	}
	// Finish ends a message for the group. Token 0: an operator's skip, with a reason.
	Finish struct {
		Group  GroupID
		Topic  TopicID
		Strand StrandKey
		Entry  int64
		Token  uint64
		Reason string
	}
	// Fail is a reported failure of an attempt. DelayMs is the back-off the broker chose.
	Fail struct {
		Group   GroupID
		Topic   TopicID
		Strand  StrandKey
		Entry   int64
		Token   uint64
		Attempt int32
		DelayMs int64
		Reason  string
	}
	// Park sets a strand aside with its messages.
	Park struct {
		Group  GroupID
		Topic  TopicID
		Strand StrandKey
		Entry  int64 // its head
		Reason string
	}
	// Resume lets a parked strand go on; its head's attempts start again at 1.
	Resume struct {
		Group  GroupID
		Topic  TopicID
		Strand StrandKey
		Entry  int64
	}
	// DeadLetter finishes Entry and stores Copy (a message of the group's dead-letter topic) in one act.
	DeadLetter struct {
		Group   GroupID
		Topic   TopicID
		Strand  StrandKey
		Entry   int64
		Token   uint64
		Attempt int32
		Reason  string
		Copy    Message
	}
	// Lease changes the length of the present grant, counted from the record's append. It is not auto-renewed from then on.
	Lease struct {
		Group   GroupID
		Topic   TopicID
		Strand  StrandKey
		Entry   int64
		Token   uint64
		LeaseMs int64
	}
	// Release ends a lease without a reported failure: its time was up, the client is gone, or the answer was not written.
	Release struct {
		Group  GroupID
		Topic  TopicID
		Strand StrandKey
		Entry  int64
		Token  uint64
		// Counted: the message was delivered, the attempt stays counted. False: it never left, the attempt is taken back.
		Counted bool
	}
)

// Kind methods.
func (*Message) Kind() Kind    { return KindMessage }
func (*Boot) Kind() Kind       { return KindBoot }
func (*Topic) Kind() Kind      { return KindTopic }
func (*Group) Kind() Kind      { return KindGroup }
func (*Subscribe) Kind() Kind  { return KindSubscribe }
func (*Grant) Kind() Kind      { return KindGrant }
func (*Finish) Kind() Kind     { return KindFinish }
func (*Fail) Kind() Kind       { return KindFail }
func (*Park) Kind() Kind       { return KindPark }
func (*Resume) Kind() Kind     { return KindResume }
func (*DeadLetter) Kind() Kind { return KindDeadLetter }
func (*Lease) Kind() Kind      { return KindLease }
func (*Release) Kind() Kind    { return KindRelease }

// Names of topics made by the broker.
const DeadLetterPrefix = "%DLQ%"

// MsOf converts to the unit of records.
func MsOf(d time.Duration) int64 { return d.Milliseconds() }
