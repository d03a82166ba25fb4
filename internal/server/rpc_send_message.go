package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// SendMessage stores messages of one topic and answers when they are durable. The queue is chosen by the broker, message
// by message: clients of different languages disagree about it and some do not tell.
func (s *Server) SendMessage(ctx context.Context, in *v2.SendMessageRequest) (*v2.SendMessageResponse, error) {
	c, fault := s.caller(ctx)
	if fault != nil {
		return refusedSend(in, fault), nil
	}
	s.clients.seenIn(c, "")
	topic, messages, fault := wire.Messages(in.GetMessages())
	if fault != nil {
		return refusedSend(in, fault), nil
	}
	size := bodyBytes(messages)
	defer s.counters.storingBytes.Add(-size)
	if s.counters.storingBytes.Add(size) > s.options.MaxHeldBytes {
		s.counters.exhausted.Add(1)
		return refusedSend(in, tooMuchHeld), nil
	}
	receipts, err := s.core.Send(ctx, topic, messages, wire.BornHost(in.GetMessages()))
	if err != nil {
		return refusedSend(in, wire.StatusOf(err)), nil
	}
	return acceptedSend(receipts), nil
}

// sendAnswer is the answer to the usual request of one message, in one allocation.
type sendAnswer struct {
	response v2.SendMessageResponse
	entry    v2.SendResultEntry
	entries  [1]*v2.SendResultEntry
}

func acceptedSend(receipts []keystrand.Receipt) *v2.SendMessageResponse {
	out := &sendAnswer{}
	out.response.Status = wire.OK()
	if len(receipts) == 1 {
		fillEntry(&out.entry, receipts[0])
		out.entries[0] = &out.entry
		out.response.Entries = out.entries[:]
		return &out.response
	}
	out.response.Entries = make([]*v2.SendResultEntry, len(receipts))
	for i := range receipts {
		out.response.Entries[i] = &v2.SendResultEntry{}
		fillEntry(out.response.Entries[i], receipts[i])
	}
	return &out.response
}

func fillEntry(entry *v2.SendResultEntry, r keystrand.Receipt) {
	entry.Status = wire.OK()
	entry.MessageId = r.MessageID
	entry.Offset = int64(r.Offset)
}

// refusedSend says so at the top and in one entry for each message: some clients read the one, some the other, and one
// fails when their number differs.
func refusedSend(in *v2.SendMessageRequest, fault *v2.Status) *v2.SendMessageResponse {
	out := &v2.SendMessageResponse{Status: fault}
	for _, m := range in.GetMessages()[:min(len(in.GetMessages()), wire.MaxSendMessages)] {
		out.Entries = append(out.Entries, &v2.SendResultEntry{Status: fault, MessageId: m.GetSystemProperties().GetMessageId()})
	}
	return out
}

// tooMuchHeld is shared: read only.
var tooMuchHeld = wire.NewStatus(v2.Code_TOO_MANY_REQUESTS, "messages that wait to be stored hold all memory that is set aside for them; retry later")

func bodyBytes(messages []keystrand.Message) (n int64) {
	for i := range messages {
		n += int64(len(messages[i].Body))
	}
	return n
}
