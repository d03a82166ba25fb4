package sequencer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// maxSendMessages bounds one Send.
const maxSendMessages = 1024

// sendCommand stores messages of one topic, all or none.
type sendCommand struct {
	topic    state.TopicID
	records  []store.Record // encoded messages; queue, offset, entry and time are patched in the loop
	messages []sendMessage
	receipts []keystrand.Receipt
	done     chan error // capacity 1
}

// sendMessage is what the loop and the index need of a message.
type sendMessage struct {
	id        string
	groupHash uint64
	tagHash   uint32
}

// Send stores messages of one topic in the given order and returns when they are durable. Everything that can be checked
// is checked here, in the caller's goroutine.
func (s *Sequencer) Send(ctx context.Context, topic string, messages []keystrand.Message, bornHost string) ([]keystrand.Receipt, error) {
	c, err := s.prepareSend(topic, messages, bornHost)
	if err != nil {
		return nil, err
	}
	if err := s.submit(c); err != nil {
		return nil, err
	}
	select {
	case err := <-c.done:
		if err != nil {
			return nil, fmt.Errorf("send of %d messages to topic %q: %w", len(messages), topic, err)
		}
		return c.receipts, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("send of %d messages to topic %q: %w: %w", len(messages), topic, keystrand.ErrUnknown, ctx.Err())
	}
}

func (s *Sequencer) prepareSend(topic string, messages []keystrand.Message, bornHost string) (*sendCommand, error) {
	t, ok := s.view.Load().topics[topic]
	if !ok {
		return nil, fmt.Errorf("send to topic %q: %w; create it first (keystrand topic create)", topic, keystrand.ErrTopicNotFound)
	}
	if len(messages) == 0 || len(messages) > maxSendMessages {
		return nil, fmt.Errorf("send to topic %q: %d messages, 1 to %d are allowed in one call: %w", topic, len(messages), maxSendMessages, keystrand.ErrRejected)
	}
	c := &sendCommand{
		topic:    t.ID,
		records:  make([]store.Record, 0, len(messages)),
		messages: make([]sendMessage, 0, len(messages)),
		receipts: make([]keystrand.Receipt, len(messages)),
		done:     make(chan error, 1),
	}
	total := 0
	for i := range messages {
		m, err := s.storedMessage(t.Topic, &messages[i], bornHost)
		if err != nil {
			return nil, fmt.Errorf("send to topic %q, message %d of %d: %w", topic, i+1, len(messages), err)
		}
		body := state.Encode(make([]byte, 0, 256+len(m.Body)), &m)
		if total += len(body); total > maxTurnSendBytes {
			return nil, fmt.Errorf("send to topic %q: more than %d bytes in one call: %w", topic, maxTurnSendBytes, keystrand.ErrTooLarge)
		}
		c.records = append(c.records, store.Record{Kind: store.Kind(state.KindMessage), Body: body})
		c.messages = append(c.messages, sendMessage{m.ID, m.GroupHash, m.TagHash})
		c.receipts[i].MessageID = m.ID
	}
	return c, nil
}

// storedMessage checks one message against its topic and the limits, and turns it into its stored form.
func (s *Sequencer) storedMessage(t state.Topic, m *keystrand.Message, bornHost string) (state.Message, error) {
	if m.Topic != "" && m.Topic != t.Name {
		return state.Message{}, fmt.Errorf("its topic is %q; one call sends to one topic: %w", m.Topic, keystrand.ErrRejected)
	}
	switch {
	case t.Type == keystrand.TopicFIFO && m.MessageGroup == "":
		return state.Message{}, fmt.Errorf("a fifo topic needs a message group: %w", keystrand.ErrMessageType)
	case t.Type == keystrand.TopicNormal && m.MessageGroup != "":
		return state.Message{}, fmt.Errorf("a normal topic takes no message group (got %q): %w", m.MessageGroup, keystrand.ErrMessageType)
	}
	if err := state.ValidateMessage(m); err != nil {
		return state.Message{}, err
	}
	born := m.BornAt
	if born.IsZero() {
		born = s.clock.Wall()
	}
	stored := state.Message{
		Topic: t.ID, BornMs: born.UnixMilli(), TagHash: state.TagHash(m.Tag),
		ID: m.ID, Group: m.MessageGroup, Tag: m.Tag, Keys: m.Keys, Props: m.Properties, BornHost: bornHost, Body: m.Body,
	}
	if stored.ID == "" {
		stored.ID = newMessageID()
	}
	if m.MessageGroup != "" {
		stored.GroupHash = s.codec.groupHash(m.MessageGroup)
	}
	return stored, nil
}

// newMessageID has the length of the official clients' ids (34), so that tools which cut by length work.
func newMessageID() string {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New() // no randomness left is a panic there; an error of NewV7 is only its clock's
	}
	return "4B" + strings.ToUpper(hex.EncodeToString(id[:]))
}

func (c *sendCommand) run(s *Sequencer) {
	s.loop.turn.sends = append(s.loop.turn.sends, c)
	for _, r := range c.records {
		s.loop.turn.bytes += len(r.Body)
	}
}

func (c *sendCommand) refuse(err error) { c.done <- err }
func (c *sendCommand) synced(err error) { c.done <- err }

// appendSends gives the turn's messages their places and appends them in one batch.
func (s *Sequencer) appendSends(waits *syncing) {
	l := &s.loop
	batch := l.turn.records[:0] // its former content is in the log already
	now := s.clock.Wall().UnixMilli()
	for _, c := range l.turn.sends {
		t := l.topics[c.topic]
		for i := range c.records {
			queue := t.pickQueue(c.messages[i].groupHash)
			offset := t.queueNext[queue]
			state.PatchMessage(c.records[i].Body, queue, offset, t.next, now)
			c.receipts[i].Queue, c.receipts[i].Offset = queue, keystrand.Offset(offset)
			t.queueNext[queue]++
			t.next++
		}
		batch = append(batch, c.records...)
	}
	first, end, err := s.log.Append(batch, false)
	if err != nil {
		s.takeBackPlaces()
		if !errors.Is(err, store.ErrNoSpace) {
			s.fail(fmt.Errorf("broker: append of %d messages: %w", len(batch), err))
			err = fmt.Errorf("%w: %w", keystrand.ErrUnknown, s.Err()) // a part of the batch may have reached the disk
		}
		for _, c := range l.turn.sends {
			c.refuse(err)
		}
		return
	}
	at := 0
	for _, c := range l.turn.sends {
		t := l.topics[c.topic]
		for i := range c.records {
			s.index(t, first[at], len(c.records[i].Body), c.receipts[i].Queue, int64(c.receipts[i].Offset), c.messages[i])
			at++
		}
		waits.see(t)
		waits.synced = append(waits.synced, c)
	}
	waits.end = end
	l.turn.records = batch
	l.stats.Sent += uint64(at)
}

// takeBackPlaces undoes the counters of a batch that was refused whole.
func (s *Sequencer) takeBackPlaces() {
	for _, c := range s.loop.turn.sends {
		t := s.loop.topics[c.topic]
		for _, r := range c.receipts {
			t.queueNext[r.Queue]--
			t.next--
		}
	}
}

// index enters a stored message. A failing index does not lose the message (the log has it), but no later message may be
// indexed behind the hole, so the broker stops taking work.
func (s *Sequencer) index(t *topicState, at store.Position, size int, queue int32, offset int64, m sendMessage) {
	n, err := t.index.Append(store.Entry{
		Position: at, SizeBytes: uint32(size), Queue: queue, QueueOffset: offset, GroupHash: m.groupHash, TagHash: m.tagHash,
	})
	if err == nil {
		err = t.index.PutID(m.id, n)
	}
	if err != nil {
		s.fail(fmt.Errorf("broker: index of topic %q: %w", t.Name, err))
	}
}

// see notes that t's entries become visible with this turn.
func (w *syncing) see(t *topicState) {
	for i := range w.visible {
		if w.visible[i].topic == t {
			w.visible[i].count = t.next
			return
		}
	}
	w.visible = append(w.visible, topicMark{t, t.next})
}
