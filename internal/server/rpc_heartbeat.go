package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// Heartbeat notes that a client lives. It needs no Settings from before: clients come back without them after a restart.
func (s *Server) Heartbeat(ctx context.Context, in *v2.HeartbeatRequest) (*v2.HeartbeatResponse, error) {
	return &v2.HeartbeatResponse{Status: s.heartbeat(ctx, in)}, nil
}

func (s *Server) heartbeat(ctx context.Context, in *v2.HeartbeatRequest) *v2.Status {
	c, fault := s.caller(ctx)
	if fault != nil {
		return fault
	}
	group := ""
	switch in.GetClientType() {
	case v2.ClientType_PRODUCER:
	case v2.ClientType_PUSH_CONSUMER, v2.ClientType_SIMPLE_CONSUMER, v2.ClientType_PULL_CONSUMER:
		if fault := wire.CheckGroup(in.GetGroup()); fault != nil {
			return fault
		}
		group = in.GetGroup().GetName()
	default:
		return wire.NewStatus(v2.Code_UNRECOGNIZED_CLIENT_TYPE, "this kind of client is not supported yet by this broker")
	}
	c.learn(in.GetClientType())
	s.clients.seenIn(c, group)
	return wire.OK()
}
