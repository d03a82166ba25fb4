package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/keystrand/keystrand/internal/task"
)

// DefaultAddr is where the HTTP API listens unless told otherwise.
const DefaultAddr = "127.0.0.1:8088"

// Bounds of a connection. A receive is held up to maxWait, so an answer may take that and a little more.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = maxWait + 30*time.Second
	idleTimeout       = 60 * time.Second
	drainTimeout      = 5 * time.Second
	maxConnections    = 512
)

// Options of a Server.
type Options struct {
	// Backend is the broker. Required.
	Backend Backend
	// Addr is the loopback address to listen on; port 0 takes a free one. Default DefaultAddr.
	Addr string
	// Logger takes what a person should know; default: nothing.
	Logger *slog.Logger
	// Version is told in /metrics.
	Version string
}

func (o Options) complete() Options {
	if o.Addr == "" {
		o.Addr = DefaultAddr
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server is the HTTP listener of one broker.
//
// Invariant: its listener is bound to a loopback address.
type Server struct {
	listener net.Listener
	http     *http.Server
	stop     context.CancelFunc // ends the requests that wait
	once     sync.Once
}

// Open checks the address and listens; Run serves.
func Open(o Options) (*Server, error) {
	o = o.complete()
	if err := CheckLoopback(o.Addr); err != nil {
		return nil, fmt.Errorf("http-addr: %w", err)
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("http-addr: %w; choose a free port, or 0 for any", err)
	}
	if err := CheckLoopback(listener.Addr().String()); err != nil { // "localhost" may have been something else
		return nil, errors.Join(fmt.Errorf("http-addr: %w", err), listener.Close())
	}
	requests, stop := context.WithCancel(context.Background()) // the life of the server, ended by Close
	s := &Server{listener: newBounded(listener, maxConnections), stop: stop}
	s.http = &http.Server{
		Handler:           NewHandler(o, listener.Addr().String()),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return requests },
		ErrorLog:       slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends, then takes nothing new, ends the receives that wait, and drains the others.
func (s *Server) Run(ctx context.Context) error {
	group := task.NewGroup(ctx)
	group.Go("admin http", func(context.Context) error {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("http on %s: %w", s.Addr(), err)
		}
		return nil
	})
	group.Go("admin http drain", func(ctx context.Context) error {
		<-ctx.Done()
		s.stop()
		// The caller's context has ended; what is being answered gets its own time.
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err := s.http.Shutdown(drain); err != nil {
			return s.http.Close()
		}
		return nil
	})
	return group.Wait()
}

// Close ends everything at once. Safe twice, from any goroutine, and without Run.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.stop()
		err = errors.Join(ignoreClosed(s.http.Close()), ignoreClosed(s.listener.Close()))
	})
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// bounded lets at most so many connections be open; the next one waits in the kernel's queue.
type bounded struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBounded(l net.Listener, n int) *bounded {
	return &bounded{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: conn, slots: b.slots}, nil
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
