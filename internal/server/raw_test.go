package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
)

// callTime is the deadline of ordinary calls in tests: generous, since many tests share two cores.
const callTime = 20 * time.Second

// ids gives message ids as official clients shape them.
var ids = make(chan string)

func init() {
	go func() { // ends with the test process
		for n := 0; ; n++ {
			ids <- fmt.Sprintf("01F2F6989D2F3F5DDB0B1FA246%08X", n)
		}
	}()
}

// newMessage is a message as the official client sends it; group "" for a normal one.
func newMessage(topic, group, body string) *v2.Message {
	m := &v2.Message{Topic: resource(topic), Body: []byte(body), SystemProperties: &v2.SystemProperties{
		MessageId: <-ids, MessageType: v2.MessageType_NORMAL, BodyEncoding: v2.Encoding_IDENTITY,
	}}
	if group != "" {
		m.SystemProperties.MessageGroup, m.SystemProperties.MessageType = &group, v2.MessageType_FIFO
	}
	return m
}

// sendCode sends and returns the top status.
func (r *raw) sendCode(t testing.TB, messages ...*v2.Message) v2.Code {
	t.Helper()
	answer, err := r.SendMessage(r.ctx(t, callTime), &v2.SendMessageRequest{Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(messages); len(answer.GetEntries()) != want {
		t.Fatalf("%d messages got %d entries", want, len(answer.GetEntries()))
	}
	for _, entry := range answer.GetEntries() {
		if entry.GetStatus().GetCode() != answer.GetStatus().GetCode() {
			t.Fatalf("entry says %v, top says %v", entry.GetStatus(), answer.GetStatus())
		}
	}
	return answer.GetStatus().GetCode()
}

// send sends bodies of one group, one call each, and returns the message ids.
func (r *raw) send(t testing.TB, topic, group string, bodies ...string) (sent []string) {
	t.Helper()
	for _, body := range bodies {
		m := newMessage(topic, group, body)
		if code := r.sendCode(t, m); code != v2.Code_OK {
			t.Fatalf("send %q: code %v", body, code)
		}
		sent = append(sent, m.GetSystemProperties().GetMessageId())
	}
	return sent
}

// poll is what a receive asks for.
type poll struct {
	group, topic string
	max          int32
	lease        time.Duration // simple consumers
	wait         time.Duration // 0: none named
	deadline     time.Duration // 0: callTime
	filter       string
	queue        int32
	push         bool
	attempt      string
	own          bool // as Keystrand's own client: short leases
}

// receive polls once.
func (r *raw) receive(t testing.TB, p poll) (*v2.Status, []*v2.Message) {
	t.Helper()
	status, messages, err := r.tryReceive(r.pollContext(t, p), p)
	if err != nil {
		t.Fatal(err)
	}
	return status, messages
}

func (r *raw) pollContext(t testing.TB, p poll) context.Context {
	if p.deadline == 0 {
		p.deadline = callTime
	}
	ctx := r.ctx(t, p.deadline)
	if p.own {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-mq-language", "KEYSTRAND")
	}
	return ctx
}

func (p poll) request() *v2.ReceiveMessageRequest {
	in := &v2.ReceiveMessageRequest{
		Group: resource(p.group), BatchSize: p.max, AutoRenew: p.push,
		MessageQueue:     &v2.MessageQueue{Topic: resource(p.topic), Id: p.queue, Broker: &v2.Broker{Name: "keystrand"}},
		FilterExpression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: p.filter},
	}
	if p.lease != 0 {
		in.InvisibleDuration = durationpb.New(p.lease)
	}
	if p.wait != 0 {
		in.LongPollingTimeout = durationpb.New(p.wait)
	}
	if p.attempt != "" {
		in.AttemptId = &p.attempt
	}
	return in
}

func (r *raw) tryReceive(ctx context.Context, p poll) (status *v2.Status, messages []*v2.Message, err error) {
	stream, err := r.ReceiveMessage(ctx, p.request())
	if err != nil {
		return nil, nil, err
	}
	stamped := false
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if status == nil || !stamped {
				return nil, nil, fmt.Errorf("stream ended with status %v, time of delivery: %v", status, stamped)
			}
			return status, messages, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch content := part.GetContent().(type) {
		case *v2.ReceiveMessageResponse_Status:
			status = content.Status
		case *v2.ReceiveMessageResponse_Message:
			messages = append(messages, content.Message)
		case *v2.ReceiveMessageResponse_DeliveryTimestamp:
			stamped = true
		}
	}
}

// take receives exactly one message within the poll time.
func (r *raw) take(t testing.TB, p poll) *v2.Message {
	t.Helper()
	if p.max == 0 {
		p.max = 1
	}
	status, messages := r.receive(t, p)
	if len(messages) != 1 {
		t.Fatalf("got %d messages with status %v, want one", len(messages), status)
	}
	return messages[0]
}

// none checks that nothing is there within the poll time.
func (r *raw) none(t testing.TB, p poll) {
	t.Helper()
	if status, messages := r.receive(t, p); status.GetCode() != v2.Code_MESSAGE_NOT_FOUND || len(messages) != 0 {
		t.Fatalf("got %d messages with status %v, want none with 40401; first: %v", len(messages), status, messages)
	}
}

func (r *raw) ack(t testing.TB, group string, m *v2.Message) v2.Code {
	t.Helper()
	return r.ackHandle(t, group, m.GetTopic().GetName(), m.GetSystemProperties().GetReceiptHandle())
}

func (r *raw) ackHandle(t testing.TB, group, topic, handle string) v2.Code {
	t.Helper()
	answer, err := r.AckMessage(r.ctx(t, callTime), &v2.AckMessageRequest{
		Group: resource(group), Topic: resource(topic), Entries: []*v2.AckMessageEntry{{ReceiptHandle: handle}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus().GetCode()
}

func (r *raw) change(t testing.TB, group string, m *v2.Message, d time.Duration) (v2.Code, string) {
	t.Helper()
	answer, err := r.ChangeInvisibleDuration(r.ctx(t, callTime), &v2.ChangeInvisibleDurationRequest{
		Group: resource(group), Topic: m.GetTopic(), ReceiptHandle: m.GetSystemProperties().GetReceiptHandle(), InvisibleDuration: durationpb.New(d),
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus().GetCode(), answer.GetReceiptHandle()
}

func (r *raw) forward(t testing.TB, group, topic, handle string) v2.Code {
	t.Helper()
	answer, err := r.ForwardMessageToDeadLetterQueue(r.ctx(t, callTime), &v2.ForwardMessageToDeadLetterQueueRequest{
		Group: resource(group), Topic: resource(topic), ReceiptHandle: handle,
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus().GetCode()
}

func body(m *v2.Message) string { return string(m.GetBody()) }

func attempt(m *v2.Message) int32 { return m.GetSystemProperties().GetDeliveryAttempt() }
