package sdk

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keystrand/keystrand/internal/task"
)

// JavaLike is a raw push client that behaves as the Java SDK does with a FIFO group: it polls each assignment, runs the
// messages of one answer as one chain, each only after the one before it is done with, retries a failed one where it
// stands until the attempts are used up, and then forwards it to the dead-letter queue.
//
// Source: ProcessQueueImpl (eraseFifoMessage), FifoConsumeService (consumeIteratively) of the Java client 5.x.
type JavaLike struct {
	Group, Topic string
	// Attempts overrides what the broker's Settings allow, as a client that keeps Settings of its own does; 0: it obeys.
	Attempts int
	// RetryAfter is the wait between two local attempts.
	RetryAfter time.Duration
	// Handle says whether the message was consumed.
	Handle func(ctx context.Context, m *v2.Message) bool

	client   v2.MessagingServiceClient
	attempts int
}

const javaThreads = 20

// Start runs the client until the test ends.
func (j *JavaLike) Start(t testing.TB, tap *Tap) {
	t.Helper()
	//nolint:gosec // official clients verify nothing unless told to
	opts := append(tap.DialOptions(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	conn, err := grpc.NewClient(tap.addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	j.client = v2.NewMessagingServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(context.WithoutCancel(t.Context()), "x-mq-client-id", "java-like@"+uuid.NewString(),
		"x-mq-language", "JAVA", "x-mq-client-version", "5.2.1", "x-mq-protocol", "v2")
	tasks := task.NewGroup(ctx)
	t.Cleanup(func() {
		if err := tasks.Stop(); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	assignments, err := j.open(tasks)
	if err != nil {
		t.Fatal(err)
	}
	threads := make(chan struct{}, javaThreads)
	for _, a := range assignments {
		tasks.Go("poll", func(ctx context.Context) error { return j.poll(ctx, a.GetMessageQueue(), tasks, threads) })
	}
	tasks.Go("heartbeat", j.heartbeat)
}

// open sends the Settings, reads the broker's, and asks for the assignments.
func (j *JavaLike) open(tasks *task.Group) ([]*v2.Assignment, error) {
	ctx := tasks.Context()
	telemetry, err := j.client.Telemetry(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	kind := v2.ClientType_PUSH_CONSUMER
	group, topic := &v2.Resource{Name: j.Group}, &v2.Resource{Name: j.Topic}
	err = telemetry.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: &v2.Settings{
		ClientType: &kind, RequestTimeout: durationpb.New(3 * time.Second),
		PubSub: &v2.Settings_Subscription{Subscription: &v2.Subscription{Group: group, Subscriptions: []*v2.SubscriptionEntry{
			{Topic: topic, Expression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}},
		}}},
	}}})
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	answer, err := telemetry.Recv()
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if j.attempts = int(answer.GetSettings().GetBackoffPolicy().GetMaxAttempts()); j.Attempts > 0 {
		j.attempts = j.Attempts
	}
	if !answer.GetSettings().GetSubscription().GetFifo() {
		return nil, fmt.Errorf("the broker's Settings do not call group %s ordered", j.Group)
	}
	got, err := j.client.QueryAssignment(ctx, &v2.QueryAssignmentRequest{Group: group, Topic: topic})
	if err != nil {
		return nil, fmt.Errorf("assignments: %w", err)
	}
	if got.GetStatus().GetCode() != v2.Code_OK {
		return nil, fmt.Errorf("assignments: %v", got.GetStatus())
	}
	return got.GetAssignments(), nil
}

func (j *JavaLike) heartbeat(ctx context.Context) error {
	for ctx.Err() == nil {
		if _, err := j.client.Heartbeat(ctx, &v2.HeartbeatRequest{Group: &v2.Resource{Name: j.Group}, ClientType: v2.ClientType_PUSH_CONSUMER}); err != nil && ctx.Err() == nil {
			return err
		}
		Pause(ctx, 10*time.Second)
	}
	return nil
}

// poll asks again as soon as an answer is there; its chain runs beside.
func (j *JavaLike) poll(ctx context.Context, queue *v2.MessageQueue, tasks *task.Group, threads chan struct{}) error {
	for ctx.Err() == nil {
		attempt := uuid.NewString()
		messages, err := receiveRaw(ctx, j.client, &v2.ReceiveMessageRequest{
			Group: &v2.Resource{Name: j.Group}, MessageQueue: queue, BatchSize: 32, AutoRenew: true, AttemptId: &attempt,
			FilterExpression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}, LongPollingTimeout: durationpb.New(20 * time.Second),
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		tasks.Go("chain", func(ctx context.Context) error { return j.chain(ctx, messages, threads) })
	}
	return nil
}

// chain runs the messages of one answer, one after the other.
func (j *JavaLike) chain(ctx context.Context, messages []*v2.Message, threads chan struct{}) error {
	for _, m := range messages {
		done := false
		for attempt := int(m.GetSystemProperties().GetDeliveryAttempt()); ; attempt++ {
			threads <- struct{}{}
			done = j.Handle(ctx, m)
			<-threads
			if done || attempt >= j.attempts || ctx.Err() != nil {
				break
			}
			Pause(ctx, j.RetryAfter) // the thread is free meanwhile, the chain is not
		}
		if err := j.erase(ctx, m, done); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// erase acks a message that was consumed and forwards one that was not.
func (j *JavaLike) erase(ctx context.Context, m *v2.Message, consumed bool) error {
	system := m.GetSystemProperties()
	group := &v2.Resource{Name: j.Group}
	if !consumed {
		_, err := j.client.ForwardMessageToDeadLetterQueue(ctx, &v2.ForwardMessageToDeadLetterQueueRequest{
			Group: group, Topic: m.GetTopic(), ReceiptHandle: system.GetReceiptHandle(), MessageId: system.GetMessageId(),
			DeliveryAttempt: system.GetDeliveryAttempt(), MaxDeliveryAttempts: int32(j.attempts),
		})
		return err
	}
	_, err := j.client.AckMessage(ctx, &v2.AckMessageRequest{Group: group, Topic: m.GetTopic(), Entries: []*v2.AckMessageEntry{
		{MessageId: system.GetMessageId(), ReceiptHandle: system.GetReceiptHandle()},
	}})
	return err
}
