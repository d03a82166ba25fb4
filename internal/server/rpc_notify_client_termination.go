package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// NotifyClientTermination is a client's good-bye: its auto-renewed leases end at once.
func (s *Server) NotifyClientTermination(ctx context.Context, _ *v2.NotifyClientTerminationRequest) (*v2.NotifyClientTerminationResponse, error) {
	c, fault := s.caller(ctx)
	if fault != nil {
		return &v2.NotifyClientTerminationResponse{Status: fault}, nil
	}
	s.clients.terminated(c)
	return &v2.NotifyClientTerminationResponse{Status: wire.OK()}, nil
}
