package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// articleTypes are the events of order-1001 as the article sends them, versions 1 to 5.
var articleTypes = []string{"OrderCreated", "PaymentSucceeded", "StockDeducted", "OrderShipped", "OrderSigned"}

// Goal: the FIFO producer that article 003 prints in section 9.14 works unchanged, and what it sends is read in order by our
// own command and by the official SimpleConsumer.
// Method: the program is written out by the articles' own script, built against the pinned SDK, and run against a broker
// process; two consumer groups read the same five messages.
func TestTheArticlesProducerSendsFiveVersionsThatAreReadInOrder(t *testing.T) {
	t.Parallel()
	source := filepath.Join(articlePrograms(t), "fifo_producer", "main.go")
	producer := filepath.Join(t.TempDir(), "fifo_producer")
	runCommand(t, "", nil, "go", "build", "-o", producer, source) // a file outside the module, with this module's versions
	broker := startBroker(t, "--data", t.TempDir(), "--topic", "order-events:fifo:8")
	for _, group := range []string{"by-command", "by-sdk"} {
		broker.keystrand(t, "group", "create", group, "--ordered")
	}
	sent := runCommand(t, t.TempDir(), []string{"ROCKETMQ_ENDPOINT=" + broker.GRPCAddr, "ROCKETMQ_FIFO_TOPIC=order-events"}, producer).stderr
	ids := receiptIDs(t, sent)
	t.Run("keystrand receive", func(t *testing.T) {
		t.Parallel()
		text := broker.keystrand(t, "receive", "--group", "by-command", "--topic", "order-events", "--max", "5", "--timeout", "30s", "--ack", "--json")
		var got []received
		for line := range strings.Lines(text) {
			var r received
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			got = append(got, r)
		}
		checkArticleEvents(t, got, ids)
	})
	t.Run("SimpleConsumer", func(t *testing.T) {
		t.Parallel()
		checkArticleEvents(t, receiveBySDK(t, broker, "by-sdk", "order-events", len(articleTypes)), ids)
	})
}

// received is a message as both ways of reading show it.
type received struct {
	MessageID    string            `json:"message_id"`
	MessageGroup string            `json:"message_group"`
	Tag          string            `json:"tag"`
	Keys         []string          `json:"keys"`
	Properties   map[string]string `json:"properties"`
	Attempt      int               `json:"delivery_attempt"`
	Body         string            `json:"body"`
}

// receiptIDs reads the message ids that the producer logged, one for each version.
func receiptIDs(t *testing.T, log string) []string {
	t.Helper()
	var ids []string
	for line := range strings.Lines(log) {
		if _, id, ok := strings.Cut(strings.TrimSpace(line), "messageID="); ok && id != "" && strings.Contains(line, fmt.Sprintf("version=%d ", len(ids)+1)) {
			ids = append(ids, id)
		}
	}
	if len(ids) != len(articleTypes) {
		t.Fatalf("%d receipts, want %d:\n%s", len(ids), len(articleTypes), log)
	}
	return ids
}

func checkArticleEvents(t *testing.T, got []received, ids []string) {
	t.Helper()
	if len(got) != len(articleTypes) {
		t.Fatalf("%d messages, want %d: %+v", len(got), len(articleTypes), got)
	}
	for i, r := range got {
		var event struct {
			EventID   string `json:"event_id"`
			OrderID   string `json:"order_id"`
			Version   int    `json:"version"`
			EventType string `json:"event_type"`
		}
		if err := json.Unmarshal([]byte(r.Body), &event); err != nil {
			t.Fatalf("message %d: body %q: %v", i, r.Body, err)
		}
		version := i + 1
		key := fmt.Sprintf("evt-1001-%d", version)
		switch {
		case event.Version != version, event.EventType != articleTypes[i], event.EventID != key, event.OrderID != "order-1001":
			t.Errorf("message %d holds %+v", i, event)
		case r.MessageID != ids[i], r.MessageGroup != "order-1001", r.Tag != articleTypes[i], r.Attempt != 1:
			t.Errorf("message %d came as %+v, receipt %s", i, r, ids[i])
		case len(r.Keys) != 1 || r.Keys[0] != key, r.Properties["aggregate_version"] != fmt.Sprint(version):
			t.Errorf("message %d: keys %v, properties %v", i, r.Keys, r.Properties)
		}
	}
}

// receiveBySDK reads and acks n messages with the official SimpleConsumer.
func receiveBySDK(t *testing.T, broker *brokerProcess, group, topic string, n int) []received {
	t.Helper()
	consumer, err := rmq.NewSimpleConsumer(
		&rmq.Config{Endpoint: broker.GRPCAddr, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}},
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := consumer.GracefulStop(); err != nil {
			t.Error(err)
		}
	}()
	var all []received
	for len(all) < n && t.Context().Err() == nil {
		views, err := consumer.Receive(t.Context(), 16, 30*time.Second)
		var status *rmq.ErrRpcStatus
		if err != nil && !errors.As(err, &status) { // "no message in time" is a status
			t.Fatal(err)
		}
		for _, v := range views {
			all = append(all, receivedOf(v))
			if err := consumer.Ack(t.Context(), v); err != nil {
				t.Fatalf("ack %s: %v", v.GetMessageId(), err)
			}
		}
	}
	return all
}

func receivedOf(v *rmq.MessageView) received {
	r := received{MessageID: v.GetMessageId(), Keys: v.GetKeys(), Properties: v.GetProperties(), Attempt: int(v.GetDeliveryAttempt()), Body: string(v.GetBody())}
	if group := v.GetMessageGroup(); group != nil {
		r.MessageGroup = *group
	}
	if tag := v.GetTag(); tag != nil {
		r.Tag = *tag
	}
	return r
}
