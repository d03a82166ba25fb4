package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// QueryAssignment tells a push consumer what to poll: the same few entries for every member of the group. Who gets which
// message is decided strand by strand when it polls.
func (s *Server) QueryAssignment(ctx context.Context, in *v2.QueryAssignmentRequest) (*v2.QueryAssignmentResponse, error) {
	refuse := func(fault *v2.Status) (*v2.QueryAssignmentResponse, error) {
		return &v2.QueryAssignmentResponse{Status: fault}, nil
	}
	c, fault := s.member(ctx, in.GetGroup(), in.GetTopic())
	if fault != nil {
		return refuse(fault)
	}
	c.learn(v2.ClientType_PUSH_CONSUMER) // no other kind asks
	broker, fault := wire.Broker(s.options.BrokerName, in.GetEndpoints(), s.endpoints)
	if fault != nil {
		return refuse(fault)
	}
	name := in.GetTopic().GetName()
	topic, ok := s.core.Topic(name)
	if !ok {
		return refuse(wire.TopicNotFound(name))
	}
	if _, err := s.core.EnsureGroup(ctx, in.GetGroup().GetName(), name); err != nil {
		return refuse(wire.StatusOf(err))
	}
	return &v2.QueryAssignmentResponse{
		Status: wire.OK(), Assignments: wire.Assignments(in.GetTopic(), topic.Queues, broker),
	}, nil
}
