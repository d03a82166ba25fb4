package server

import (
	"context"
	"errors"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// refusalHold is how long a push consumer's receive is held before it is refused: the Go client polls again after 20 ms
// whatever it hears, on up to eight queues.
const refusalHold = time.Second

// ReceiveMessage hands out messages: a status, the messages, the time, and the end of the stream. An empty poll is held for
// its whole time, because clients ask again at once. Whatever queue the request names, messages come from all queues of the
// topic. If the answer is not written the leases end at once.
func (s *Server) ReceiveMessage(in *v2.ReceiveMessageRequest, stream v2.MessagingService_ReceiveMessageServer) error {
	ctx := stream.Context()
	deliveries, fault := s.receive(ctx, in)
	if fault != nil {
		if in.GetAutoRenew() {
			s.holdRefusal(ctx, fault)
		}
		return s.endReceive(stream, fault)
	}
	if len(deliveries) == 0 {
		return s.endReceive(stream, noMessage)
	}
	if err := s.deliver(stream, deliveries); err != nil {
		s.core.Undelivered(deliveries)
		return err
	}
	return nil
}

// noMessage is shared: read only.
var noMessage = wire.NewStatus(v2.Code_MESSAGE_NOT_FOUND, "no message to receive")

func (s *Server) receive(ctx context.Context, in *v2.ReceiveMessageRequest) ([]keystrand.Delivery, *v2.Status) {
	request, fault := s.receiveRequest(ctx, in)
	if fault != nil {
		return nil, fault
	}
	// The poll ends with the client and with the server.
	poll, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.running, cancel)()
	deliveries, err := s.core.Receive(poll, request)
	if errors.Is(err, keystrand.ErrGroupNotFound) {
		if _, err = s.core.EnsureGroup(ctx, request.Group, request.Topic); err == nil {
			deliveries, err = s.core.Receive(poll, request)
		}
	}
	switch {
	case err == nil:
		return deliveries, nil
	case poll.Err() != nil && ctx.Err() == nil:
		return nil, nil // the server stops: the poll ends empty
	case errors.Is(err, keystrand.ErrRejected) && wire.StatusOf(err).GetCode() == v2.Code_BAD_REQUEST:
		// Names, times and sizes have been checked: what is left is the expression.
		return nil, wire.NewStatus(v2.Code_ILLEGAL_FILTER_EXPRESSION, err.Error())
	}
	return nil, wire.StatusOf(err)
}

func (s *Server) receiveRequest(ctx context.Context, in *v2.ReceiveMessageRequest) (r sequencer.Receive, fault *v2.Status) {
	c, fault := s.member(ctx, in.GetGroup(), in.GetMessageQueue().GetTopic())
	if fault != nil {
		return r, fault
	}
	expression, fault := wire.CheckExpression(in.GetFilterExpression())
	if fault != nil {
		return r, fault
	}
	lease := in.GetInvisibleDuration().AsDuration()
	if !in.GetAutoRenew() && (lease < minInvisible(ctx, lease) || lease > wire.MaxInvisible) {
		return r, wire.NewStatus(v2.Code_ILLEGAL_INVISIBLE_TIME,
			"invisible duration is not between "+wire.MinInvisible.String()+" and "+wire.MaxInvisible.String())
	}
	wait, fault := pollTime(ctx, in)
	if fault != nil {
		return r, fault
	}
	c.push.Store(in.GetAutoRenew())
	return sequencer.Receive{
		Group: in.GetGroup().GetName(), Topic: in.GetMessageQueue().GetTopic().GetName(), Expression: expression,
		Max: int(min(max(in.GetBatchSize(), 1), wire.MaxReceive)), Lease: lease, AutoRenew: in.GetAutoRenew(), Wait: wait,
		AttemptID: attemptID(in), ClientID: c.id, Push: in.GetAutoRenew(), Slot: in.GetMessageQueue().GetId(),
	}, nil
}

// minInvisible is the least lease of a simple consumer: Apache's 10 s, less for clients that call their language KEYSTRAND.
func minInvisible(ctx context.Context, asked time.Duration) time.Duration {
	if asked >= wire.MinInvisible {
		return wire.MinInvisible
	}
	if language := metadata.ValueFromIncomingContext(ctx, "x-mq-language"); len(language) > 0 && language[0] == "KEYSTRAND" {
		return wire.MinOwnInvisible
	}
	return wire.MinInvisible
}

// attemptID is the name under which a lost answer may be asked for again; one that is too long to keep names nothing.
func attemptID(in *v2.ReceiveMessageRequest) string {
	if id := in.GetAttemptId(); len(id) <= wire.MaxClientIDBytes {
		return id
	}
	return ""
}

// deliver writes the answer. A client that left before its end has not seen it whole, and official clients use nothing
// before the end: so a context that ended counts as not written.
func (s *Server) deliver(stream grpc.ServerStreamingServer[v2.ReceiveMessageResponse], deliveries []keystrand.Delivery) error {
	ctx := stream.Context()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := stream.Send(receivedOK); err != nil {
		return err
	}
	for i := range deliveries {
		if err := stream.Send(wire.DeliveryResponse(&deliveries[i], s.storeHost)); err != nil {
			return err
		}
	}
	if err := stream.Send(wire.TimestampResponse(time.Now())); err != nil {
		return err
	}
	return ctx.Err()
}

// receivedOK is shared: read only.
var receivedOK = wire.StatusResponse(wire.OK())

func (s *Server) endReceive(stream grpc.ServerStreamingServer[v2.ReceiveMessageResponse], status *v2.Status) error {
	if err := stream.Send(wire.StatusResponse(status)); err != nil {
		return err
	}
	return stream.Send(wire.TimestampResponse(time.Now()))
}

// holdRefusal waits, so that a push consumer that is refused does not ask fifty times a second. The stop of the server
// and a client that leaves end it.
func (s *Server) holdRefusal(ctx context.Context, fault *v2.Status) {
	if fault.GetCode() == v2.Code_CLIENT_ID_REQUIRED {
		return
	}
	timer := time.NewTimer(refusalHold)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.running.Done():
	}
}
