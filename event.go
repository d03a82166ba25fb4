package keystrand

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Event is a state change of one aggregate, in the envelope that outbox and inbox share.
//
// Invariant: versions of one aggregate are 1, 2, 3, ... in the order of their commits.
type Event struct {
	// EventID is globally unique and the key of deduplication. At most 128 bytes.
	EventID string
	// Aggregate is the thing the event belongs to, type and id in one text, e.g. "order-1001"; it is also the message group.
	Aggregate string
	// Version counts the aggregate's events; the first is 1.
	Version int64
	// Type says what happened, e.g. "PaymentSucceeded"; it is also the message's tag.
	Type string
	// OccurredAt is the business time; ProducedAt the time of the outbox row.
	OccurredAt, ProducedAt time.Time
	// TraceID and Schema are optional.
	TraceID, Schema string
	// Payload is the message body.
	Payload []byte
}

// Names of the message properties that carry an Event's envelope. PropertyAggregateVersion is read as a fallback for
// PropertyVersion, since producers outside Keystrand send that name.
const (
	PropertyEventID          = "event_id"
	PropertyAggregate        = "aggregate"
	PropertyVersion          = "version"
	PropertyAggregateVersion = "aggregate_version"
	PropertyEventType        = "event_type"
	PropertyOccurredAt       = "occurred_at"
	PropertyProducedAt       = "produced_at"
	PropertyTraceID          = "trace_id"
	PropertySchema           = "schema"
)

// Message is the event as it travels on a topic: group = aggregate, tag = type, key = event id, the envelope in
// properties. Its ID is derived from the event id, so a repeated send carries the same one.
func (e Event) Message(topic string) Message {
	sum := sha256.Sum256([]byte(e.EventID))
	m := Message{
		ID: strings.ToUpper(hex.EncodeToString(sum[:16])), Topic: topic, MessageGroup: e.Aggregate, Tag: e.Type,
		Body: e.Payload, BornAt: e.ProducedAt,
		Properties: map[string]string{
			PropertyEventID: e.EventID, PropertyAggregate: e.Aggregate, PropertyVersion: strconv.FormatInt(e.Version, 10), PropertyEventType: e.Type,
		},
	}
	if !strings.ContainsAny(e.EventID, " \t") {
		m.Keys = []string{e.EventID}
	}
	for name, t := range map[string]time.Time{PropertyOccurredAt: e.OccurredAt, PropertyProducedAt: e.ProducedAt} {
		if !t.IsZero() {
			m.Properties[name] = t.UTC().Format(time.RFC3339Nano)
		}
	}
	for name, text := range map[string]string{PropertyTraceID: e.TraceID, PropertySchema: e.Schema} {
		if text != "" {
			m.Properties[name] = text
		}
	}
	return m
}

// EventOf reads the envelope of a message. What a producer outside Keystrand leaves out has a fallback: the version stands
// in aggregate_version, the aggregate is the message group, the type the tag, the event id the first key or else the
// message ID. The error is ErrRejected: without aggregate, version and id the event cannot be placed. Payload is m.Body itself.
func EventOf(m Message) (Event, error) {
	p := m.Properties
	e := Event{EventID: p[PropertyEventID], Aggregate: p[PropertyAggregate], Type: p[PropertyEventType], TraceID: p[PropertyTraceID], Schema: p[PropertySchema], Payload: m.Body}
	if e.EventID == "" && len(m.Keys) > 0 {
		e.EventID = m.Keys[0]
	}
	e.EventID = cmp.Or(e.EventID, m.ID)
	e.Aggregate = cmp.Or(e.Aggregate, m.MessageGroup)
	e.Type = cmp.Or(e.Type, m.Tag)
	version := cmp.Or(p[PropertyVersion], p[PropertyAggregateVersion])
	var err error
	if e.Version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return Event{}, fmt.Errorf("message %q of group %q: property %s is %q, not a number: %w", m.ID, m.MessageGroup, PropertyVersion, version, ErrRejected)
	}
	for name, t := range map[string]*time.Time{PropertyOccurredAt: &e.OccurredAt, PropertyProducedAt: &e.ProducedAt} {
		if text := p[name]; text != "" {
			if *t, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return Event{}, fmt.Errorf("message %q of group %q: property %s is %q, not an RFC 3339 time: %w", m.ID, m.MessageGroup, name, text, ErrRejected)
			}
		}
	}
	return e, e.Validate()
}

// MaxVersion bounds versions: 2^53, which every language can count to.
const MaxVersion = 1 << 53

// Validate reports all that is wrong with an event that has its version; the error is ErrRejected.
func (e Event) Validate() error {
	faults := e.faults()
	if e.Version < 1 || e.Version > MaxVersion {
		faults = append(faults, fmt.Sprintf("version %d is not in 1..2^53", e.Version))
	}
	return e.rejected(faults)
}

// ValidateNew is Validate for an event whose version may still be 0.
func (e Event) ValidateNew() error {
	if e.Version == 0 {
		return e.rejected(e.faults())
	}
	return e.Validate()
}

func (e Event) rejected(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("event %q of %q version %d: %s: %w", clip(e.EventID), clip(e.Aggregate), e.Version, strings.Join(faults, "; "), ErrRejected)
}

func (e Event) faults() (faults []string) {
	check := func(name, text string, limitBytes int, required bool) {
		switch {
		case required && strings.TrimSpace(text) == "":
			faults = append(faults, name+" is missing")
		case len(text) > limitBytes:
			faults = append(faults, fmt.Sprintf("%s has %d bytes, the limit is %d", name, len(text), limitBytes))
		case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
			faults = append(faults, name+" holds control characters or is no UTF-8")
		}
	}
	check("event id", e.EventID, 128, true)
	check("aggregate", e.Aggregate, 63, true)
	check("type", e.Type, 128, true)
	check("trace id", e.TraceID, 256, false)
	check("schema", e.Schema, 256, false)
	if strings.Contains(e.Type, "|") {
		faults = append(faults, "type holds a |, which separates tags")
	}
	return faults
}

// clip shortens a text of unknown origin for an error message.
func clip(text string) string {
	if len(text) > 128 {
		return text[:128] + "..."
	}
	return text
}
