package server_test

import (
	"context"
	"net"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/server"
)

// A stop wakes held polls with an empty answer and ends telemetry, so that it takes no longer than the calls in hand,
// which are answered.
func TestStopIsQuickAndAnswersWhatIsInHand(t *testing.T) {
	t.Parallel()
	d := newDouble()
	sending, finish := make(chan struct{}), make(chan struct{})
	d.send = func(context.Context, string, []keystrand.Message) ([]keystrand.Receipt, error) {
		close(sending)
		<-finish
		return []keystrand.Receipt{{MessageID: "1"}}, nil
	}
	e := serve(t, d, nil)
	c := e.dial(t, "c")
	session := c.session(t)
	settle(t, session, producerSettings())
	polled, sent := make(chan v2.Code, 1), make(chan v2.Code, 1)
	go func() {
		got, _, err := c.tryReceive(c.pollContext(t, poll{deadline: time.Minute}), poll{group: "g", topic: "orders", push: true, wait: 20 * time.Second})
		if err != nil {
			t.Error(err)
		}
		polled <- got.GetCode()
	}()
	go func() { sent <- c.sendCode(t, newMessage("orders", "A", "x")) }()
	<-sending
	began := time.Now()
	stopped := make(chan struct{})
	go func() { e.server.Stop(within(t, callTime)); close(stopped) }()
	if _, err := session.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("telemetry ended with %v, want Canceled", err)
	}
	if got := <-polled; got != v2.Code_MESSAGE_NOT_FOUND {
		t.Errorf("the held poll got %v, want 40401", got)
	}
	select {
	case <-stopped:
		t.Error("stopped with a send in hand")
	default:
	}
	close(finish)
	if got := <-sent; got != v2.Code_OK {
		t.Errorf("the send in hand got %v, want OK", got)
	}
	<-stopped
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopped after %v", took)
	}
	e.server.Stop(within(t, time.Second)) // safe twice
}

// What does not end in time is cut.
func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	d := newDouble()
	sending := make(chan struct{})
	d.send = func(ctx context.Context, _ string, _ []keystrand.Message) ([]keystrand.Receipt, error) {
		close(sending)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e := serve(t, d, nil)
	c := e.dial(t, "c")
	failed := make(chan error, 1)
	go func() {
		_, err := c.SendMessage(c.ctx(t, time.Minute), &v2.SendMessageRequest{Messages: []*v2.Message{newMessage("orders", "A", "x")}})
		failed <- err
	}()
	<-sending
	began := time.Now()
	e.server.Stop(within(t, 300*time.Millisecond))
	if err := <-failed; status.Code(err) != codes.Unavailable || time.Since(began) > 3*time.Second {
		t.Errorf("got %v after %v, want Unavailable at once", err, time.Since(began))
	}
}

// The end of Serve's context stops it like Stop does.
func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Sequencer: newDouble()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	e := &edge{server: s, addr: l.Addr().String()}
	settle(t, e.dial(t, "c").session(t), producerSettings())
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-within(t, callTime).Done():
		t.Fatal("Serve goes on")
	}
}

func TestStopBeforeServe(t *testing.T) {
	t.Parallel()
	s := server.New(server.Options{Sequencer: newDouble()})
	s.Stop(within(t, time.Second))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(within(t, callTime), l); err != nil {
		t.Errorf("got %v", err)
	}
}
