package admin

import (
	"net/http"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

// Bounds of a receive.
const (
	maxReceive       = 32
	maxWait          = 30 * time.Second
	defaultInvisible = 30 * time.Second
	minInvisible     = time.Second
	maxInvisible     = 12 * time.Hour
	maxAckHandles    = 64
)

func (s *service) send(w http.ResponseWriter, r *http.Request) {
	var ask NewMessage
	err := readJSON(w, r, maxSendRequestBytes, &ask)
	if err == nil {
		err = ask.check()
	}
	if err != nil {
		s.reply(w, r, nil, err)
		return
	}
	receipts, err := s.backend.Send(r.Context(), ask.Topic, []keystrand.Message{{
		ID: ask.MessageID, Topic: ask.Topic, MessageGroup: ask.MessageGroup, Tag: ask.Tag, Keys: ask.Keys,
		Properties: ask.Properties, Body: ask.Content(), BornAt: time.Now(),
	}}, r.RemoteAddr)
	if err != nil {
		s.reply(w, r, nil, err)
		return
	}
	s.reply(w, r, Receipt{Topic: ask.Topic, MessageID: receipts[0].MessageID, Queue: receipts[0].Queue, Offset: int64(receipts[0].Offset)}, nil)
}

func (m NewMessage) check() error {
	if err := checkTopicName(m.Topic); err != nil {
		return err
	}
	if m.Text != nil && m.Bytes != nil {
		return rejected(http.StatusBadRequest, "both body and body_base64 are given", "give one of them")
	}
	return nil
}

func (s *service) receive(w http.ResponseWriter, r *http.Request) {
	var ask Receive
	err := readJSON(w, r, maxRequestBytes, &ask)
	if err == nil {
		err = ask.check()
	}
	if err != nil {
		s.reply(w, r, nil, err)
		return
	}
	select {
	case s.held <- struct{}{}:
		defer func() { <-s.held }()
	default:
		s.reply(w, r, nil, &Problem{What: "too many receives wait already", Class: "retry-later", DoThis: "retry in a moment", Status: http.StatusServiceUnavailable})
		return
	}
	if _, err := s.backend.EnsureGroup(r.Context(), ask.ConsumerGroup, ask.Topic); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	deliveries, err := s.backend.Receive(r.Context(), ask.command())
	if err != nil {
		s.reply(w, r, nil, err)
		return
	}
	list := List[Delivery]{Items: make([]Delivery, 0, len(deliveries))}
	for _, d := range deliveries {
		list.Items = append(list.Items, deliveryOf(d))
	}
	if r.Context().Err() != nil || writeJSON(w, http.StatusOK, list) != nil {
		s.backend.Undelivered(deliveries) // nobody has read them: their strands need not wait for the lease
	}
}

func (m Receive) check() error {
	if err := checkGroupName(m.ConsumerGroup); err != nil {
		return err
	}
	if err := checkTopicName(m.Topic); err != nil {
		return err
	}
	switch {
	case m.Max < 0 || m.Max > maxReceive:
		return rejected(http.StatusBadRequest, "max is not 1 to 32", "give 1 to 32, and ask again for more")
	case m.WaitMs < 0 || m.WaitMs > maxWait.Milliseconds():
		return rejected(http.StatusBadRequest, "wait_ms is not 0 to 30000", "give 0 to 30000, and ask again to wait longer")
	case m.InvisibleMs != 0 && (m.InvisibleMs < minInvisible.Milliseconds() || m.InvisibleMs > maxInvisible.Milliseconds()):
		return rejected(http.StatusBadRequest, "invisible_ms is not 1000 to 43200000", "choose a lease of 1 second to 12 hours")
	case len(m.ClientID) > 255 || len(m.Filter) > 1024:
		return rejected(http.StatusBadRequest, "client_id over 255 or filter over 1024 bytes", "choose a shorter one")
	}
	return nil
}

func (m Receive) command() sequencer.Receive {
	command := sequencer.Receive{
		Group: m.ConsumerGroup, Topic: m.Topic, Expression: m.Filter, Max: max(m.Max, 1), Lease: fromMs(m.InvisibleMs),
		Wait: fromMs(m.WaitMs), ClientID: m.ClientID,
	}
	if command.Lease == 0 {
		command.Lease = defaultInvisible
	}
	if command.Expression == "" {
		command.Expression = "*"
	}
	if command.ClientID == "" {
		command.ClientID = "http"
	}
	return command
}

func (s *service) ack(w http.ResponseWriter, r *http.Request) {
	var ask Ack
	err := readJSON(w, r, maxRequestBytes, &ask)
	if err == nil {
		err = ask.check()
	}
	if err != nil {
		s.reply(w, r, nil, err)
		return
	}
	result := AckResult{Results: make([]*Problem, len(ask.ReceiptHandles))}
	for i, err := range s.backend.Ack(r.Context(), ask.ConsumerGroup, ask.Topic, ask.ReceiptHandles...) {
		if err != nil {
			result.Results[i] = problemOf(err)
		}
	}
	s.reply(w, r, result, nil)
}

func (m Ack) check() error {
	if err := checkGroupName(m.ConsumerGroup); err != nil {
		return err
	}
	if err := checkTopicName(m.Topic); err != nil {
		return err
	}
	if len(m.ReceiptHandles) == 0 || len(m.ReceiptHandles) > maxAckHandles {
		return rejected(http.StatusBadRequest, "receipt_handles does not hold 1 to 64 handles", "give 1 to 64, and ack the others in further requests")
	}
	return nil
}
