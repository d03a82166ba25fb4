// Package sequencer joins the log, the state and delivery: one goroutine owns the tail of the log and all delivery
// state. Callers hand it commands; it runs the steps, appends their records, and answers when they are durable.
package sequencer

import (
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
)

// Receive asks for messages of one (consumer group, topic).
type Receive struct {
	Group, Topic string
	Expression   string
	Max          int
	Lease        time.Duration
	AutoRenew    bool
	Wait         time.Duration
	AttemptID    string
	ClientID     string
	Push         bool
	Slot         int32
}

// TopicInfo and GroupInfo are what edges and tools see.
type TopicInfo struct {
	state.Topic
	Messages int64   `json:"messages"`
	Offsets  []int64 `json:"offsets"` // next offset per queue
}

// GroupInfo is a consumer group with its subscriptions.
type GroupInfo struct {
	state.Group
	Topics []GroupTopic
}

// GroupTopic is a group's standing on one topic.
type GroupTopic struct {
	Topic                                           string
	Expression                                      string
	Cursor, Messages                                int64
	Unfinished                                      int64 // messages not finished: above the cursor, and those of open strands (heads and their followers)
	Ready, Leased, BackingOff, Parked, DeadLettered int64
	WaitingReceives                                 int
}

// Explanation is deliver.Explain with names and message details.
type Explanation struct {
	Group, Topic, Key    string
	Status               string
	Why                  string // one sentence for a person
	HeadID               string
	HeadQueue            int32
	HeadOffset           keystrand.Offset
	Attempt, MaxAttempts int
	Owner                string
	Left                 time.Duration
	Behind               int64 // messages of the strand waiting behind the head; counted up to 10,000
	LastError            string
	Token                uint64
}

// The sequencer's methods; the implementation keeps to these signatures. All are safe from any goroutine, wrap the
// errors of package keystrand, and end with ctx.
//
//	func Open(o Options) (*Sequencer, error)                  Options: FS, Dir, Clock, Logger, Sync (interval), RestartHold, AutoCreate, store options, snapshot interval
//	func (s *Sequencer) Run(ctx context.Context) error; Close() error
//	func (s *Sequencer) Send(ctx, topic string, msgs []keystrand.Message, bornHost string) ([]keystrand.Receipt, error)
//	    all or nothing, in order; ids are given when empty; answers when durable
//	func (s *Sequencer) Receive(ctx, Receive) ([]keystrand.Delivery, error)      holds up to Wait; empty and nil when the time is up
//	func (s *Sequencer) Undelivered(deliveries []keystrand.Delivery)             the answer was not written
//	func (s *Sequencer) Ack(ctx, group, topic string, handles ...string) []error one per handle: nil, ErrLeaseExpired, ErrBadHandle, ...
//	func (s *Sequencer) Fail(ctx, group, topic, handle, reason string) error
//	func (s *Sequencer) ChangeInvisible(ctx, group, topic, handle string, d time.Duration) (newHandle string, err error)
//	func (s *Sequencer) ClientSeen(clientID, group string); ClientGone(clientID string, after time.Duration)
//	func (s *Sequencer) Topic(name string) (TopicInfo, bool); Topics() []TopicInfo; Group(name string) (GroupInfo, bool); Groups() []GroupInfo
//	func (s *Sequencer) CreateTopic(ctx, keystrand.TopicSpec) error; CreateGroup(ctx, keystrand.GroupSpec) error
//	func (s *Sequencer) EnsureGroup(ctx, group, topic string) (GroupInfo, error)   an unknown group that appears on a FIFO topic becomes ordered (auto-create), else ErrGroupNotFound
//	func (s *Sequencer) Explain(ctx, group, topic, key string) (Explanation, error)
//	func (s *Sequencer) Park(ctx, group, topic, key, reason string) error; Resume(ctx, group, topic, key string) error
//	func (s *Sequencer) Lag(ctx, group string) ([]GroupTopic, error)
//	func (s *Sequencer) BrokerID() string; Err() error; Stats() Stats
