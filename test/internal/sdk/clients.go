package sdk

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"github.com/keystrand/keystrand/internal/history"
)

// awaitDuration is how long a SimpleConsumer's receive is held; the SDK adds its request timeout of 3 s.
const awaitDuration = 5 * time.Second

// retryAfter is the pause after a call that a dead broker did not answer.
const retryAfter = 50 * time.Millisecond

func config(addr, group string) *rmq.Config {
	return &rmq.Config{Endpoint: addr, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

// NewProducer starts the official producer until the test ends.
func NewProducer(t testing.TB, addr string, topics ...string) rmq.Producer {
	t.Helper()
	p, err := rmq.NewProducer(config(addr, ""), rmq.WithTopics(topics...))
	started(t, p, err)
	return p
}

// NewSimpleConsumer starts the official SimpleConsumer until the test ends.
func NewSimpleConsumer(t testing.TB, addr, group, topic string) rmq.SimpleConsumer {
	t.Helper()
	c, err := rmq.NewSimpleConsumer(config(addr, group), rmq.WithSimpleAwaitDuration(awaitDuration),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	started(t, c, err)
	return c
}

// PushOptions of StartPushConsumer.
type PushOptions struct {
	Threads     int32
	Accelerator bool
	Handle      func(*rmq.MessageView) rmq.ConsumerResult
}

// StartPushConsumer starts the official PushConsumer; the caller stops it, since its stop waits for its receives.
func StartPushConsumer(addr, group, topic string, o PushOptions) (rmq.PushConsumer, error) {
	c, err := rmq.NewPushConsumer(config(addr, group),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushConsumptionThreadCount(o.Threads), rmq.WithPushEnableFifoConsumeAccelerator(o.Accelerator),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: o.Handle}))
	if err != nil {
		return nil, err
	}
	return c, c.Start()
}

func started(t testing.TB, c interface {
	Start() error
	GracefulStop() error
}, err error) {
	t.Helper()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.GracefulStop(); err != nil {
			t.Error(err)
		}
	})
}

// NewMessage makes message number n of the key, from 1, sent by producer number 1.
func NewMessage(topic, key string, n int) *rmq.Message {
	id := history.ID{Producer: 1, Counter: uint32(n)}
	m := &rmq.Message{Topic: topic, Body: fmt.Appendf(nil, "%s/%d", key, n)}
	m.SetMessageGroup(key)
	m.AddProperty(history.PropertyID, id.String())
	return m
}

// Send sends message number n of the key until a send of it is answered ok: only then may the next one of the key follow.
func Send(ctx context.Context, p rmq.Producer, topic, key string, n int) error {
	for {
		_, err := p.Send(ctx, NewMessage(topic, key, n))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("send %s/%d: %w", key, n, err)
		}
		Pause(ctx, retryAfter)
	}
}

// Ack acks until the broker answered, whatever it said.
func Ack(ctx context.Context, c rmq.SimpleConsumer, m *rmq.MessageView) error {
	for {
		err := c.Ack(ctx, m)
		if err == nil || ctx.Err() != nil {
			return err
		}
		Pause(ctx, retryAfter)
	}
}

// Receive receives up to n messages; none in time, or no broker, is none.
func Receive(ctx context.Context, c rmq.SimpleConsumer, n int32, lease time.Duration) []*rmq.MessageView {
	got, err := c.Receive(ctx, n, lease)
	var status *rmq.ErrRpcStatus
	if err != nil && !errors.As(err, &status) {
		Pause(ctx, retryAfter)
	}
	return got
}

// NumberOf is the number of the message in its key, as NewMessage gave it.
func NumberOf(m *rmq.MessageView) int {
	id, err := history.ParseID(m.GetProperties()[history.PropertyID])
	if err != nil {
		return 0
	}
	return int(id.Counter)
}

// KeyOf is the message group, empty for none.
func KeyOf(m *rmq.MessageView) string {
	if key := m.GetMessageGroup(); key != nil {
		return *key
	}
	return ""
}
