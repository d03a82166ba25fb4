package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/keystrand/keystrand"
)

// remoteProducer sends to a broker in another process.
type remoteProducer struct {
	remote *Remote
	header metadata.MD
	open   opening
}

// Send stores messages of one topic, all or none, in the given order. Messages without an ID get one.
func (p *remoteProducer) Send(ctx context.Context, messages ...keystrand.Message) ([]keystrand.Receipt, error) {
	if p.open.closed.Err() != nil {
		return nil, keystrand.ErrClosed
	}
	topic, err := oneTopic(messages)
	if err != nil {
		return nil, err
	}
	request := &v2.SendMessageRequest{Messages: make([]*v2.Message, len(messages))}
	resource := &v2.Resource{Name: topic}
	for i := range messages {
		request.Messages[i] = wireMessage(resource, &messages[i])
	}
	limited, cancel := context.WithTimeout(ctx, p.remote.options.CallTimeout)
	defer cancel()
	answer, err := p.remote.stub.SendMessage(metadata.NewOutgoingContext(limited, p.header), request)
	if err := errorOf(answer.GetStatus(), err, keystrand.ErrUnknown); err != nil {
		return nil, fmt.Errorf("send %d messages to topic %q: %w", len(messages), topic, err)
	}
	if len(answer.GetEntries()) != len(messages) {
		return nil, fmt.Errorf("send %d messages to topic %q: the broker answers for %d: %w", len(messages), topic, len(answer.GetEntries()), keystrand.ErrUnknown)
	}
	receipts := make([]keystrand.Receipt, len(messages))
	for i, entry := range answer.GetEntries() {
		receipts[i] = keystrand.Receipt{MessageID: entry.GetMessageId(), Queue: -1, Offset: keystrand.Offset(entry.GetOffset())}
	}
	return receipts, nil
}

func wireMessage(topic *v2.Resource, m *keystrand.Message) *v2.Message {
	system := &v2.SystemProperties{
		Keys: m.Keys, MessageId: m.ID, BodyEncoding: v2.Encoding_IDENTITY, MessageType: v2.MessageType_NORMAL, BornTimestamp: timestamppb.Now(),
	}
	if system.MessageId == "" {
		system.MessageId = strings.ToUpper(randomID("") + randomID(""))
	}
	if m.Tag != "" {
		system.Tag = &m.Tag
	}
	if m.MessageGroup != "" {
		system.MessageGroup, system.MessageType = &m.MessageGroup, v2.MessageType_FIFO
	}
	if !m.BornAt.IsZero() {
		system.BornTimestamp = timestamppb.New(m.BornAt)
	}
	return &v2.Message{Topic: topic, UserProperties: m.Properties, SystemProperties: system, Body: m.Body}
}

// Close ends the producer; the connection is the engine's. Safe twice.
func (p *remoteProducer) Close() error {
	p.open.close()
	return nil
}

// timeOf reads a stamp; none is the zero time.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
