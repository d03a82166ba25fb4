package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/keystrand/keystrand/internal/task"
)

// proxy gives the broker a lasting address, whatever port it has at present, and can lose one request or one answer of
// a send on the way. It looks into HTTP/2 frames for that, so "lost" is exact: the request was read whole and nothing of it
// forwarded, or the broker's answer had begun and nothing of it was forwarded.
type proxy struct {
	listener net.Listener
	tasks    *task.Group

	mu     sync.Mutex // guards all below
	target string     // "": the broker is away, connections are refused
	armed  loss
	lost   chan loss // what was lost, buffered; one at a time
}

// loss is what the proxy shall lose next.
type loss uint8

const (
	loseNothing loss = iota
	loseRequest
	loseAnswer
)

// sendPath is the call that the losses are for.
const sendPath = "/apache.rocketmq.v2.MessagingService/SendMessage"

func newProxy(tasks *task.Group) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &proxy{listener: listener, tasks: tasks, lost: make(chan loss, 1)}
	tasks.Go("demo.proxy", p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) setTarget(address string) {
	p.mu.Lock()
	p.target = address
	p.mu.Unlock()
}

// arm makes the next send lose its request or answer; lost tells when that has happened.
func (p *proxy) arm(l loss) {
	p.mu.Lock()
	p.armed = l
	p.mu.Unlock()
}

// claim takes the armed loss, if it is one of the given.
func (p *proxy) claim(l loss) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed != l {
		return false
	}
	p.armed = loseNothing
	return true
}

func (p *proxy) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.listener.Close() }) // that ends Accept
	defer stop()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("proxy: %w", err)
		}
		p.tasks.Go("demo.proxy.connection", func(ctx context.Context) error { p.carry(ctx, client); return nil })
	}
}

// carry forwards one connection until either end closes it or a loss cuts it.
func (p *proxy) carry(ctx context.Context, client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target == "" {
		return
	}
	server, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", target)
	if err != nil {
		return // the client sees its connection end, as it would without a proxy
	}
	defer server.Close()
	// Whichever direction ends first takes the other with it: after a loss nothing may pass any more.
	cut := func() { _ = client.Close(); _ = server.Close() }
	stop := context.AfterFunc(ctx, cut)
	defer stop()
	watch := &frames{proxy: p}
	directions := task.NewGroup(ctx)
	directions.Go("demo.proxy.requests", func(context.Context) error { defer cut(); return ignoreEnd(watch.requests(server, client)) })
	directions.Go("demo.proxy.answers", func(context.Context) error { defer cut(); return ignoreEnd(watch.answers(client, server)) })
	_ = directions.Wait() // a broken connection is the ends' business
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
