package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

// source is an engine in memory: strands of messages, one unfinished message of each out at a time, leases that end,
// tokens that grow, attempts that count.
type source struct {
	mu      sync.Mutex
	strands map[string]*strand
	token   uint64
	lease   time.Duration
	changed chan struct{} // closed and replaced at every change
	acked   map[string]int
	calls   struct{ receive, ack, fail, extend int }
	// fault may fail a call before it takes effect.
	fault func(call string, d keystrand.Delivery) error
}

type strand struct {
	messages []keystrand.Message
	token    uint64 // of the lease; 0: none
	until    time.Time
	attempt  int
}

func newSource(lease time.Duration) *source {
	return &source{strands: map[string]*strand{}, lease: lease, changed: make(chan struct{}), acked: map[string]int{}}
}

func (s *source) add(group string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.strands[group]
	if g == nil {
		g = &strand{}
		s.strands[group] = g
	}
	for range n {
		id := fmt.Sprintf("%s/%d", group, len(g.messages)+s.acked[group]+1)
		g.messages = append(g.messages, keystrand.Message{ID: id, Topic: "t", MessageGroup: group, Body: []byte(id)})
	}
	s.wake()
}

func (s *source) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) failing(call string, d keystrand.Delivery) error {
	if s.fault == nil {
		return nil
	}
	return s.fault(call, d)
}

func (s *source) Receive(ctx context.Context, most int) ([]keystrand.Delivery, error) {
	hold := time.NewTimer(20 * time.Second)
	defer hold.Stop()
	for {
		s.mu.Lock()
		s.calls.receive++
		if err := s.failing("receive", keystrand.Delivery{}); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		out, next := s.grant(most)
		changed := s.changed
		s.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		lease := time.NewTimer(next)
		select {
		case <-changed:
		case <-lease.C:
		case <-hold.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		lease.Stop()
	}
}

func (s *source) grant(most int) (out []keystrand.Delivery, next time.Duration) {
	next = time.Hour
	for _, g := range s.strands {
		if len(g.messages) == 0 {
			continue
		}
		if left := time.Until(g.until); g.token != 0 && left > 0 {
			next = min(next, left)
			continue
		}
		if len(out) == most {
			break
		}
		s.token++
		g.token, g.until = s.token, time.Now().Add(s.lease)
		g.attempt++
		out = append(out, keystrand.Delivery{Message: g.messages[0], Attempt: g.attempt, Token: keystrand.Token{Broker: "b", Value: s.token}, ReceiptHandle: fmt.Sprint(s.token), Lease: s.lease})
	}
	return out, next
}

// open finds the strand if the delivery's lease holds.
func (s *source) open(d keystrand.Delivery) (*strand, error) {
	g := s.strands[d.MessageGroup]
	if g == nil || g.token != d.Token.Value || time.Now().After(g.until) || len(g.messages) == 0 || g.messages[0].ID != d.ID {
		return nil, keystrand.ErrLeaseExpired
	}
	return g, nil
}

func (s *source) Ack(_ context.Context, deliveries ...keystrand.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	s.calls.ack++
	var errs []error
	for _, d := range deliveries {
		if err := s.failing("ack", d); err != nil {
			errs = append(errs, &keystrand.DeliveryError{Delivery: d, Err: err})
			continue
		}
		g, err := s.open(d)
		if err != nil {
			errs = append(errs, &keystrand.DeliveryError{Delivery: d, Err: err})
			continue
		}
		g.messages, g.token, g.attempt = g.messages[1:], 0, 0
		s.acked[d.MessageGroup]++
	}
	return errors.Join(errs...)
}

func (s *source) Fail(_ context.Context, d keystrand.Delivery, _ error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	s.calls.fail++
	if err := s.failing("fail", d); err != nil {
		return err
	}
	g, err := s.open(d)
	if err == nil {
		g.until = time.Now().Add(time.Millisecond) // back-off
	}
	return err
}

func (s *source) Extend(_ context.Context, d keystrand.Delivery, by time.Duration) (keystrand.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	s.calls.extend++
	if err := s.failing("extend", d); err != nil {
		return d, err
	}
	g, err := s.open(d)
	if err != nil {
		return d, err
	}
	if g.until = time.Now().Add(by); by == 0 {
		g.token, g.attempt = 0, g.attempt-1
	}
	return d, nil
}

func (s *source) Close() error { return nil }

// waitAcked waits until n messages are finished.
func (s *source) waitAcked(t testing.TB, n int) {
	t.Helper()
	limit := time.After(10 * time.Minute)
	for {
		s.mu.Lock()
		sum, changed := 0, s.changed
		for _, k := range s.acked {
			sum += k
		}
		s.mu.Unlock()
		if sum >= n {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%d of %d messages were finished", sum, n)
		}
	}
}
