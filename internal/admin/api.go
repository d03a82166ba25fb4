package admin

import (
	"time"
	"unicode/utf8"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// Topic is a topic as JSON. Offsets holds the next offset of each queue; a request to make one leaves it and Messages out.
type Topic struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Queues   int     `json:"queues"`
	Messages int64   `json:"messages"`
	Offsets  []int64 `json:"offsets"`
}

// NewTopic asks for a topic; zero fields mean the defaults of keystrand.TopicSpec.
type NewTopic struct {
	Name   string `json:"name"`
	Type   string `json:"type,omitempty"`
	Queues int    `json:"queues,omitempty"`
}

func (t NewTopic) spec() keystrand.TopicSpec {
	return keystrand.TopicSpec{Name: t.Name, Type: keystrand.TopicType(t.Type), Queues: t.Queues}
}

func topicOf(t sequencer.TopicInfo) Topic {
	return Topic{Name: t.Name, Type: string(t.Type), Queues: int(t.Queues), Messages: t.Messages, Offsets: t.Offsets}
}

// GroupSpec is a consumer group's settings as JSON, both asked for and told. Zero fields of a request mean the defaults.
type GroupSpec struct {
	Name            string `json:"name"`
	Ordered         bool   `json:"ordered"`
	MaxAttempts     int    `json:"max_attempts,omitempty"`
	AtLimit         string `json:"at_limit,omitempty"`
	From            string `json:"from,omitempty"`
	OrderLevel      string `json:"order_level,omitempty"`
	PushBatch       string `json:"push_batch,omitempty"`
	PushWindow      int    `json:"push_window,omitempty"`
	MaxProcessingMs int64  `json:"max_processing_ms,omitempty"`
	BackOffMinMs    int64  `json:"back_off_min_ms,omitempty"`
	BackOffMaxMs    int64  `json:"back_off_max_ms,omitempty"`
}

// GroupSpecOf writes a spec as JSON says it.
func GroupSpecOf(g keystrand.GroupSpec) GroupSpec {
	return GroupSpec{
		Name: g.Name, Ordered: g.Ordered, MaxAttempts: g.MaxAttempts, AtLimit: string(g.AtLimit), From: g.From,
		OrderLevel: g.OrderLevel, PushBatch: g.PushBatch, PushWindow: g.PushWindow,
		MaxProcessingMs: g.MaxProcessing.Milliseconds(), BackOffMinMs: g.BackOffMin.Milliseconds(), BackOffMaxMs: g.BackOffMax.Milliseconds(),
	}
}

// Spec is the way back.
func (g GroupSpec) Spec() keystrand.GroupSpec {
	return keystrand.GroupSpec{
		Name: g.Name, Ordered: g.Ordered, MaxAttempts: g.MaxAttempts, AtLimit: keystrand.AtLimit(g.AtLimit), From: g.From,
		OrderLevel: g.OrderLevel, PushBatch: g.PushBatch, PushWindow: g.PushWindow,
		MaxProcessing: fromMs(g.MaxProcessingMs), BackOffMin: fromMs(g.BackOffMinMs), BackOffMax: fromMs(g.BackOffMaxMs),
	}
}

// Group is a consumer group with its standing on each topic it reads.
type Group struct {
	GroupSpec
	Topics []GroupTopic `json:"topics"`
}

// GroupTopic is a group's standing on one topic. Unfinished counts messages that the group has not finished, parked ones
// included; the strand counts tell of strands, not of messages.
type GroupTopic struct {
	ConsumerGroup   string `json:"consumer_group"`
	Topic           string `json:"topic"`
	Expression      string `json:"expression"`
	Cursor          int64  `json:"cursor"`
	Messages        int64  `json:"messages"`
	Unfinished      int64  `json:"unfinished"`
	Ready           int64  `json:"ready"`
	Leased          int64  `json:"leased"`
	BackingOff      int64  `json:"backing_off"`
	Parked          int64  `json:"parked"`
	DeadLettered    int64  `json:"dead_lettered"`
	WaitingReceives int    `json:"waiting_receives"`
}

func standingOf(group string, t sequencer.GroupTopic) GroupTopic {
	return GroupTopic{
		ConsumerGroup: group, Topic: t.Topic, Expression: t.Expression, Cursor: t.Cursor, Messages: t.Messages, Unfinished: t.Unfinished,
		Ready: t.Ready, Leased: t.Leased, BackingOff: t.BackingOff, Parked: t.Parked, DeadLettered: t.DeadLettered,
		WaitingReceives: t.WaitingReceives,
	}
}

// Strand names one strand in a request.
type Strand struct {
	ConsumerGroup string `json:"consumer_group"`
	Topic         string `json:"topic"`
	MessageGroup  string `json:"message_group"`
	Reason        string `json:"reason,omitempty"`
}

// Explanation says why a strand does or does not move. Behind is counted up to 10,000.
type Explanation struct {
	ConsumerGroup   string `json:"consumer_group"`
	Topic           string `json:"topic"`
	MessageGroup    string `json:"message_group"`
	Status          string `json:"status"`
	Why             string `json:"why"`
	MessageID       string `json:"message_id,omitempty"`
	Queue           int32  `json:"queue"`
	Offset          int64  `json:"offset"`
	DeliveryAttempt int    `json:"delivery_attempt"`
	MaxAttempts     int    `json:"max_attempts"`
	Owner           string `json:"owner,omitempty"`
	LeftMs          int64  `json:"left_ms"`
	Behind          int64  `json:"behind"`
	LastError       string `json:"last_error,omitempty"`
	Token           uint64 `json:"token,string,omitempty"`
}

func explanationOf(e sequencer.Explanation) Explanation {
	return Explanation{
		ConsumerGroup: e.Group, Topic: e.Topic, MessageGroup: e.Key, Status: e.Status, Why: e.Why, MessageID: e.HeadID,
		Queue: e.HeadQueue, Offset: int64(e.HeadOffset), DeliveryAttempt: e.Attempt, MaxAttempts: e.MaxAttempts, Owner: e.Owner,
		LeftMs: e.Left.Milliseconds(), Behind: e.Behind, LastError: e.LastError, Token: e.Token,
	}
}

// Body is a message's body in JSON: as text when it is UTF-8, else as base64. Both set is refused.
type Body struct {
	Text  *string `json:"body,omitempty"`
	Bytes []byte  `json:"body_base64,omitempty"`
}

// BodyOf picks the form.
func BodyOf(b []byte) Body {
	if utf8.Valid(b) {
		text := string(b)
		return Body{Text: &text}
	}
	return Body{Bytes: b}
}

// Content returns the bytes.
func (b Body) Content() []byte {
	if b.Text != nil {
		return []byte(*b.Text)
	}
	return b.Bytes
}

// NewMessage asks for a message to be stored.
type NewMessage struct {
	Topic        string            `json:"topic"`
	MessageID    string            `json:"message_id,omitempty"`
	MessageGroup string            `json:"message_group,omitempty"`
	Tag          string            `json:"tag,omitempty"`
	Keys         []string          `json:"keys,omitempty"`
	Properties   map[string]string `json:"properties,omitempty"`
	Body
}

// Receipt tells where it was stored, durably.
type Receipt struct {
	Topic     string `json:"topic"`
	MessageID string `json:"message_id"`
	Queue     int32  `json:"queue"`
	Offset    int64  `json:"offset"`
}

// Receive asks for messages of as many different strands. WaitMs bounds the hold, InvisibleMs is the lease.
type Receive struct {
	ConsumerGroup string `json:"consumer_group"`
	Topic         string `json:"topic"`
	Filter        string `json:"filter,omitempty"`
	Max           int    `json:"max,omitempty"`
	WaitMs        int64  `json:"wait_ms,omitempty"`
	InvisibleMs   int64  `json:"invisible_ms,omitempty"`
	ClientID      string `json:"client_id,omitempty"`
}

// Delivery is one hand-out.
type Delivery struct {
	Topic           string            `json:"topic"`
	Queue           int32             `json:"queue"`
	Offset          int64             `json:"offset"`
	MessageID       string            `json:"message_id"`
	MessageGroup    string            `json:"message_group,omitempty"`
	Tag             string            `json:"tag,omitempty"`
	Keys            []string          `json:"keys,omitempty"`
	Properties      map[string]string `json:"properties,omitempty"`
	BornAt          time.Time         `json:"born_at,omitzero"`
	StoredAt        time.Time         `json:"stored_at,omitzero"`
	DeliveryAttempt int               `json:"delivery_attempt"`
	Token           string            `json:"token"`
	LeaseMs         int64             `json:"lease_ms"`
	ReceiptHandle   string            `json:"receipt_handle,omitempty"`
	Body
}

func deliveryOf(d keystrand.Delivery) Delivery {
	return Delivery{
		Topic: d.Topic, Queue: d.Queue, Offset: int64(d.Offset), MessageID: d.ID, MessageGroup: d.MessageGroup, Tag: d.Tag,
		Keys: d.Keys, Properties: d.Properties, BornAt: d.BornAt, StoredAt: d.StoredAt, DeliveryAttempt: d.Attempt,
		Token: d.Token.String(), LeaseMs: d.Lease.Milliseconds(), ReceiptHandle: d.ReceiptHandle, Body: BodyOf(d.Message.Body),
	}
}

// Ack finishes deliveries.
type Ack struct {
	ConsumerGroup  string   `json:"consumer_group"`
	Topic          string   `json:"topic"`
	ReceiptHandles []string `json:"receipt_handles"`
}

// AckResult has one entry per handle, in order: null is done.
type AckResult struct {
	Results []*Problem `json:"results"`
}

// List is an answer with many items.
type List[T any] struct {
	Items []T `json:"items"`
}

func fromMs(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
