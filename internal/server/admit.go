package server

import (
	"context"
	"runtime/debug"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// admit decides about a call when its headers are there and nothing of its message: it may refuse it and bound its time.
func (s *Server) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	s.counters.calls.Add(1)
	if s.counters.heldBytes() > s.options.MaxHeldBytes {
		s.counters.exhausted.Add(1)
		return ctx, status.Error(codes.ResourceExhausted, "requests in flight hold all memory that is set aside for them; retry later")
	}
	if call.FullMethodName == v2.MessagingService_Telemetry_FullMethodName {
		return s.untilStop(ctx), nil
	}
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > s.options.CallTimeout {
		bounded, cancel := context.WithTimeout(ctx, s.options.CallTimeout)
		context.AfterFunc(ctx, cancel) // the transport ends ctx with the stream
		return bounded, nil
	}
	return ctx, nil
}

// untilStop ends a telemetry stream when the server begins to stop: nothing else would.
func (s *Server) untilStop(ctx context.Context) context.Context {
	session, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(s.running, cancel)
	context.AfterFunc(ctx, func() { forget() })
	return session
}

func (s *Server) guardUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer s.recovered(&err)
	return handler(ctx, request)
}

func (s *Server) guardStream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer s.recovered(&err)
	return handler(service, stream)
}

// recovered turns a panic of one call into its answer; the others go on. The peer learns nothing of the stack.
func (s *Server) recovered(err *error) {
	p := recover()
	if p == nil {
		return
	}
	s.counters.panics.Add(1)
	s.options.Logger.Error("a gRPC call panicked; report this with its stack", "panic", p, "stack", string(debug.Stack()))
	*err = status.Error(codes.Internal, "internal error; the broker's log says more")
}

// caller finds out which client calls, from the call's metadata and connection. A status means: refuse with it.
func (s *Server) caller(ctx context.Context) (*client, *v2.Status) {
	id := ""
	if values := metadata.ValueFromIncomingContext(ctx, "x-mq-client-id"); len(values) > 0 {
		id = values[0]
	}
	if fault := wire.CheckClientID(id); fault != nil {
		return nil, fault
	}
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return &client{id: id}, nil
	}
	info, ok := p.AuthInfo.(connectionInfo)
	if !ok {
		return &client{id: id}, nil
	}
	c, ok := info.connection.client(id)
	if !ok {
		return nil, wire.NewStatus(v2.Code_TOO_MANY_REQUESTS, "too many client ids on one connection; open another")
	}
	return c, nil
}

// member is caller for calls of a consumer group, with topic and group checked; it notes the sign of life.
func (s *Server) member(ctx context.Context, group, topic *v2.Resource) (*client, *v2.Status) {
	c, fault := s.caller(ctx)
	if fault != nil {
		return nil, fault
	}
	if fault := wire.CheckTopic(topic); fault != nil {
		return nil, fault
	}
	if fault := wire.CheckGroup(group); fault != nil {
		return nil, fault
	}
	s.clients.seenIn(c, group.GetName())
	return c, nil
}
