package sdk

import (
	"context"
	"errors"
	"io"
	"strconv"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/history"
)

// handout is a delivery whose ack was not answered ok.
type handout struct{ delivery history.Delivery }

// stream records receives.
func (t *Tap) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	since := history.Now()
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil || method != v2.MessagingService_ReceiveMessage_FullMethodName {
		return s, err
	}
	p, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	return &receiveStream{ClientStream: s, tap: t, process: p, since: since}, nil
}

// receiveStream notes deliveries when their answer is whole: before its end the official clients use nothing of it.
type receiveStream struct {
	grpc.ClientStream
	tap     *Tap
	process *process
	since   int64
	request *v2.ReceiveMessageRequest
	ok      bool
	got     []*v2.Message
}

// SendMsg implements grpc.ClientStream.
func (s *receiveStream) SendMsg(m any) error {
	s.request, _ = m.(*v2.ReceiveMessageRequest)
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (s *receiveStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF) && s.ok && len(s.got) > 0:
		s.note()
	case err == nil:
		answer := m.(*v2.ReceiveMessageResponse)
		s.ok = s.ok || answer.GetStatus().GetCode() == v2.Code_OK
		if got := answer.GetMessage(); got != nil {
			s.got = append(s.got, got)
		}
	}
	return err
}

func (s *receiveStream) note() {
	w := s.process.take()
	defer s.process.give(w)
	for _, m := range s.got {
		d := s.deliveryOf(m)
		w.Recv(d)
		s.tap.mu.Lock()
		s.tap.handles[m.GetSystemProperties().GetReceiptHandle()] = &handout{d}
		s.tap.mu.Unlock()
	}
	s.got = nil
}

func (s *receiveStream) deliveryOf(m *v2.Message) history.Delivery {
	system := m.GetSystemProperties()
	token, err := strconv.ParseUint(m.GetUserProperties()[keystrand.PropertyToken], 10, 64)
	if err != nil {
		token = 0 // then the judge has no token to go by, and says so where it matters
	}
	return history.Delivery{
		Topic: m.GetTopic().GetName(), Group: s.request.GetGroup().GetName(), Key: system.GetMessageGroup(), ID: idOf(m),
		Queue: system.GetQueueId(), Offset: system.GetQueueOffset(), Token: token, Broker: m.GetUserProperties()[keystrand.PropertyBroker],
		Attempt: int(system.GetDeliveryAttempt()), Sum: history.Sum(m.GetBody()), Since: s.since, Lease: system.GetInvisibleDuration().AsDuration(),
	}
}
