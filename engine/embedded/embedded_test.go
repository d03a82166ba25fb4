package embedded_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
	"github.com/keystrand/keystrand/engine/embedded"
	"github.com/keystrand/keystrand/engine/enginetest"
	"github.com/keystrand/keystrand/internal/task"
)

func TestEngineInThisProcessPassesTheSuite(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	dirs := map[keystrand.Engine]string{}
	open := func(t testing.TB, dir string) keystrand.Engine {
		e, err := embedded.Open(t.Context(), embedded.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		mu.Lock()
		dirs[e] = dir
		mu.Unlock()
		return e
	}
	enginetest.Run(t, enginetest.Subject{
		ShortestLease: time.Second,
		Open:          func(t testing.TB) keystrand.Engine { return open(t, t.TempDir()) },
		Restart: func(t testing.TB, e keystrand.Engine) keystrand.Engine {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			dir := dirs[e]
			mu.Unlock()
			return open(t, dir)
		},
	})
}

// served is a broker with its gRPC and HTTP addresses, as another process would have it.
type served struct {
	broker     *broker.Broker
	dir        string
	grpc, http string
	stop       func() error
}

func serve(t testing.TB, s *served) {
	t.Helper()
	b, err := broker.Open(broker.Options{DataDir: s.dir, GRPCAddr: s.grpc, HTTPAddr: s.http})
	if err != nil {
		t.Fatal(err)
	}
	a := b.Addresses()
	s.broker = b
	s.grpc, s.http = a.GRPC, a.HTTP
	g := task.NewGroup(context.Background())
	ready := make(chan struct{})
	g.Go("broker", func(ctx context.Context) error { return b.Run(ctx, func() { close(ready) }) })
	<-ready
	var once sync.Once
	s.stop = func() (err error) {
		once.Do(func() { err = errors.Join(g.Stop(), b.Close()) })
		return err
	}
	stop := s.stop
	t.Cleanup(func() { _ = stop() })
}

func TestEngineOverGRPCPassesTheSuite(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	brokers := map[keystrand.Engine]*served{}
	enginetest.Run(t, enginetest.Subject{
		ShortestLease: time.Second,
		Open: func(t testing.TB) keystrand.Engine {
			s := &served{dir: t.TempDir(), grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
			serve(t, s)
			e, err := embedded.Dial(t.Context(), s.grpc, embedded.DialOptions{AdminURL: "http://" + s.http})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close() })
			mu.Lock()
			brokers[e] = s
			mu.Unlock()
			return e
		},
		Restart: func(t testing.TB, e keystrand.Engine) keystrand.Engine {
			mu.Lock()
			s := brokers[e]
			mu.Unlock()
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			serve(t, s)
			return e // it connects again by itself
		},
	})
}

func TestConsumerOfWhatDoesNotExistIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic string
		auto  bool
		want  error
	}{
		"topic":                     {"nowhere", false, keystrand.ErrTopicNotFound},
		"topic, groups by use":      {"nowhere", true, keystrand.ErrTopicNotFound},
		"group":                     {"orders", false, keystrand.ErrGroupNotFound},
		"group that is made by use": {"orders", true, nil},
	} {
		e, err := embedded.Open(t.Context(), embedded.Options{
			DataDir: t.TempDir(), AutoCreate: c.auto, Topics: []keystrand.TopicSpec{{Name: "orders", Type: keystrand.TopicFIFO}},
		})
		if err != nil {
			t.Fatal(err)
		}
		source, err := e.Consumer(t.Context(), keystrand.ConsumerOptions{Group: "billing", Topic: c.topic, Wait: time.Millisecond})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err == nil {
			if _, err := source.Receive(t.Context(), 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDialFailsWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := embedded.Dial(ctx, address); !errors.Is(err, keystrand.ErrRetryLater) {
		t.Errorf("got %v", err)
	}
}

func TestAdminWithoutItsAddressSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := &served{dir: t.TempDir(), grpc: "127.0.0.1:0"}
	serve(t, s)
	e, err := embedded.Dial(t.Context(), s.grpc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if err := e.Admin().CreateTopic(t.Context(), keystrand.TopicSpec{Name: "orders"}); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("got %v", err)
	}
}

func TestReasonOfAFailureReachesTheBroker(t *testing.T) {
	t.Parallel()
	s := &served{dir: t.TempDir(), grpc: "127.0.0.1:0"}
	serve(t, s)
	ctx := t.Context()
	err := errors.Join(s.broker.CreateTopic(ctx, keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO}),
		s.broker.CreateGroup(ctx, keystrand.GroupSpec{Name: "stock", Ordered: true, BackOffMin: time.Minute, BackOffMax: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := embedded.Dial(ctx, s.grpc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	p, err := e.Producer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(ctx, keystrand.Message{Topic: "orders", MessageGroup: "order-1", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	c, err := e.Consumer(ctx, keystrand.ConsumerOptions{Group: "stock", Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Receive(ctx, 1)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	reason := "order-1: stock is negative: 数量 -1\nsecond line"
	if err := c.Fail(ctx, got[0], errors.New(reason)); err != nil {
		t.Fatal(err)
	}
	if x, err := s.broker.Explain(ctx, "stock", "orders", "order-1"); err != nil || x.LastError != reason {
		t.Errorf("last error %q, %v", x.LastError, err)
	}
}
