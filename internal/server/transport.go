package server

import (
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Bounds of the transport.
const (
	// maxRequestBytes takes a body of 4 MiB with everything around it.
	maxRequestBytes = 8 << 20
	// maxHeaderBytes bounds the headers of one call.
	maxHeaderBytes = 64 << 10
	// streamWindowBytes and connectionWindowBytes are HTTP/2's flow-control windows: large enough that a body of 4 MiB
	// takes few round trips, small enough that a sender cannot park much.
	streamWindowBytes     = 256 << 10
	connectionWindowBytes = 1 << 20
	// streamWorkers run calls on stacks that have grown already: about a twentieth of the CPU time of a send. Calls above
	// that number, held receives among them, get a goroutine of their own.
	streamWorkers = 128
	// Official clients send pings without a call open, some every 30 s; grpc's own default (5 min, and none without a call)
	// would cut them off.
	minPingEvery = 10 * time.Second
	// A connection whose peer is gone without a word ends after pingAfter + pingTimeout.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
)

func (s *Server) newTransport() (*grpc.Server, error) {
	credentials, err := newHandshake(s)
	if err != nil {
		return nil, err
	}
	o := s.options
	t := grpc.NewServer(
		grpc.Creds(credentials),
		grpc.ConnectionTimeout(o.HandshakeTimeout),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.InitialWindowSize(streamWindowBytes),
		grpc.InitialConnWindowSize(connectionWindowBytes),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingEvery, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: o.IdleTimeout, Time: pingAfter, Timeout: pingTimeout}),
		grpc.InTapHandle(s.admit),
		grpc.UnaryInterceptor(s.guardUnary),
		grpc.StreamInterceptor(s.guardStream),
		grpc.WaitForHandlers(true),
	)
	v2.RegisterMessagingServiceServer(t, s)
	return t, nil
}
