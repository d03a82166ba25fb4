package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// QueryRoute tells the queues of a topic, at the endpoints that the client dialled.
func (s *Server) QueryRoute(ctx context.Context, in *v2.QueryRouteRequest) (*v2.QueryRouteResponse, error) {
	refuse := func(fault *v2.Status) (*v2.QueryRouteResponse, error) {
		return &v2.QueryRouteResponse{Status: fault}, nil
	}
	c, fault := s.caller(ctx)
	if fault != nil {
		return refuse(fault)
	}
	s.clients.seenIn(c, "")
	if fault := wire.CheckTopic(in.GetTopic()); fault != nil {
		return refuse(fault)
	}
	broker, fault := wire.Broker(s.options.BrokerName, in.GetEndpoints(), s.endpoints)
	if fault != nil {
		return refuse(fault)
	}
	topic, ok := s.core.Topic(in.GetTopic().GetName())
	if !ok {
		return refuse(wire.TopicNotFound(in.GetTopic().GetName()))
	}
	return &v2.QueryRouteResponse{
		Status: wire.OK(), MessageQueues: wire.Route(in.GetTopic(), topic.Type, topic.Queues, broker),
	}, nil
}
