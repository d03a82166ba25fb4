package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"

	"github.com/keystrand/keystrand/internal/task"
	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// drainTimeout bounds the stop that the end of Serve's context begins.
const drainTimeout = 5 * time.Second

// Server answers RocketMQ 5 clients. All methods are safe from any goroutine.
type Server struct {
	v2.UnimplementedMessagingServiceServer

	options   Options
	core      Sequencer
	clients   *registry
	transport *grpc.Server
	fault     error // why there is no transport
	counters  counters

	stopping chan struct{} // closed by the first Stop
	stopOnce sync.Once
	stopped  chan struct{} // closed when the transport has ended
	started  atomic.Bool

	// Set by Serve before the first call comes. running ends when the stop begins: it wakes held receives and telemetry streams.
	running   context.Context //nolint:containedctx // the server's own life, not a caller's
	endpoints *v2.Endpoints   // of the listener
	storeHost string
}

// New makes a server; Serve starts it.
func New(o Options) *Server {
	s := &Server{options: o.complete(), core: o.Sequencer, stopping: make(chan struct{}), stopped: make(chan struct{})}
	s.clients = newRegistry(o.Sequencer)
	s.transport, s.fault = s.newTransport()
	return s
}

// Serve answers calls on l until ctx ends or Stop is called, drains, and returns when nothing of it runs. l must be bound
// to a loopback address: there is no access control yet. Serve may be called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := errors.Join(s.fault, checkLoopback(l.Addr())); err != nil {
		return errors.Join(err, l.Close())
	}
	if s.started.Swap(true) {
		return errors.Join(errors.New("gRPC edge: Serve was called before"), l.Close())
	}
	defer close(s.stopped)
	running, end := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx: the end of ctx begins a drain
	defer end()
	s.running, s.endpoints, s.storeHost = running, wire.EndpointsOf(l.Addr()), l.Addr().String()
	accepting := task.NewGroup(running)
	accepting.Go("grpc accept", func(context.Context) error {
		defer s.beginStop() // a listener that failed ends the server
		return s.transport.Serve(&boundedListener{Listener: l, server: s})
	})
	accepting.Go("grpc drain", func(context.Context) error {
		select {
		case <-s.stopping:
		case <-ctx.Done():
		}
		end()
		s.drain(context.WithoutCancel(ctx))
		return nil
	})
	if err := accepting.Wait(); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("gRPC edge on %s: %w", s.storeHost, err)
	}
	return nil
}

// drain lets calls finish for drainTimeout at most. Held receives and telemetry streams have been woken.
func (s *Server) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, s.transport.Stop)()
	s.transport.GracefulStop()
}

func (s *Server) beginStop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Stop takes nothing new, wakes held receives and telemetry streams, lets calls finish and be answered until ctx ends (at
// most 5 s), then closes what is left. Safe twice. A Serve that comes later returns at once.
func (s *Server) Stop(ctx context.Context) {
	s.beginStop()
	if s.transport == nil {
		return
	}
	if !s.started.Load() {
		s.transport.Stop()
		return
	}
	select {
	case <-s.stopped:
	case <-ctx.Done():
		s.transport.Stop()
	}
}
