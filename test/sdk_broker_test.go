package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/test/internal/sdk"
)

// stopAll stops consumers and broker. It takes half a minute: the SDK forgets to count a receive as ended when it brought
// nothing, and then waits for it as long as a receive may last.
func stopAll(ctx context.Context, b *brokerProcess, consumers ...rmq.PushConsumer) error {
	stops := task.NewGroup(ctx)
	for _, c := range consumers {
		stops.Go("stop consumer", func(context.Context) error { return c.GracefulStop() })
	}
	stops.Go("stop broker", func(ctx context.Context) error {
		sdk.Pause(ctx, 100*time.Millisecond) // the consumers have begun to stop, so they ask no more
		return b.Stop()
	})
	return stops.Wait()
}

// explanation is what `keystrand explain --json` tells.
type explanation struct {
	Status          string `json:"status"`
	Why             string `json:"why"`
	MessageID       string `json:"message_id"`
	Queue           int32  `json:"queue"`
	Offset          int64  `json:"offset"`
	DeliveryAttempt int    `json:"delivery_attempt"`
	MaxAttempts     int    `json:"max_attempts"`
	Owner           string `json:"owner"`
	Behind          int64  `json:"behind"`
	LastError       string `json:"last_error"`
}

func explain(t testing.TB, b *brokerProcess, group, topic, key string) (e explanation) {
	t.Helper()
	text := b.keystrand(t, "explain", "--group", group, "--topic", topic, "--key", key, "--json")
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("explanation %q: %v", text, err)
	}
	return e
}

// lagOf is what `keystrand group lag --json` tells of one topic.
type lagOf struct {
	Topic        string `json:"topic"`
	Unfinished   int64  `json:"unfinished"`
	Parked       int64  `json:"parked"`
	DeadLettered int64  `json:"dead_lettered"`
}

func lags(t testing.TB, b *brokerProcess, group string) (all []lagOf) {
	t.Helper()
	for line := range strings.Lines(b.keystrand(t, "group", "lag", group, "--json")) {
		var l lagOf
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("lag line %q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

func unfinished(t testing.TB, b *brokerProcess, group string) (sum int64) {
	t.Helper()
	for _, l := range lags(t, b, group) {
		sum += l.Unfinished
	}
	return sum
}

// messagesOf is how many messages stand in the topic.
func messagesOf(t testing.TB, b *brokerProcess, topic string) int {
	t.Helper()
	var d struct {
		Messages int `json:"messages"`
	}
	text := b.keystrand(t, "topic", "describe", topic, "--json")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("topic %q: %v", text, err)
	}
	return d.Messages
}
