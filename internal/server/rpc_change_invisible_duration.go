package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// ChangeInvisibleDuration makes a lease end that long from now: simple consumers extend or shorten what they hold.
//
// From a push consumer it is the report of a failure, with the delay that its Settings told it: nothing else makes one
// call it. There it must count as a failure and not as a lease that ends later, for until its end that lease would take up
// the client's window and the strand would show no error. A client of unknown kind (just after a restart of the broker) is taken
// for a simple one: the message comes again after the same delay either way.
//
// The answer always holds a handle, since clients overwrite theirs with it, even on errors.
func (s *Server) ChangeInvisibleDuration(ctx context.Context, in *v2.ChangeInvisibleDurationRequest) (*v2.ChangeInvisibleDurationResponse, error) {
	handle, status := s.changeInvisible(ctx, in)
	return &v2.ChangeInvisibleDurationResponse{Status: status, ReceiptHandle: handle}, nil
}

func (s *Server) changeInvisible(ctx context.Context, in *v2.ChangeInvisibleDurationRequest) (string, *v2.Status) {
	handle := in.GetReceiptHandle()
	c, fault := s.member(ctx, in.GetGroup(), in.GetTopic())
	if fault != nil {
		return handle, fault
	}
	if fault := wire.CheckHandle(handle); fault != nil {
		return handle, fault
	}
	d := in.GetInvisibleDuration().AsDuration()
	if d < 0 || d > wire.MaxInvisible {
		return handle, wire.NewStatus(v2.Code_ILLEGAL_INVISIBLE_TIME, "invisible duration is not between 0 and "+wire.MaxInvisible.String())
	}
	group, topic := in.GetGroup().GetName(), in.GetTopic().GetName()
	if c.push.Load() && !in.GetSuspend() {
		err := s.core.FailAfter(ctx, group, topic, handle, "reported as failed by its push consumer", d)
		return handle, wire.HandleStatusOf(err)
	}
	fresh, err := s.core.ChangeInvisible(ctx, group, topic, handle, d)
	if fresh == "" {
		fresh = handle
	}
	return fresh, wire.HandleStatusOf(err)
}
