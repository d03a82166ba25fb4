package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keystrand/keystrand"
)

// remoteConsumer receives from a broker in another process, as a simple consumer of the protocol.
type remoteConsumer struct {
	remote       *Remote
	options      keystrand.ConsumerOptions
	header       metadata.MD
	group, topic *v2.Resource
	filter       *v2.FilterExpression
	open         opening

	mu   sync.Mutex // guards lost
	lost []string   // attempt ids of receives whose answer did not come: asked for again. As many as calls were out at once.
}

// answerTime is what a receive's deadline leaves beyond the hold.
const answerTime = 5 * time.Second

// Receive waits for 1 to most deliveries of as many strands; the broker hands out at most 32.
func (c *remoteConsumer) Receive(ctx context.Context, most int) ([]keystrand.Delivery, error) {
	within, end, err := c.open.within(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	limited, cancel := context.WithTimeout(metadata.NewOutgoingContext(within, c.header), c.options.Wait+answerTime)
	defer cancel()
	attempt := c.attemptID()
	deliveries, status, err := c.receive(limited, most, attempt)
	switch {
	case err != nil:
		c.keepAttempt(attempt)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c.open.closed.Err() != nil {
			return nil, keystrand.ErrClosed
		}
		return nil, fmt.Errorf("receive from topic %q in group %q: %w", c.options.Topic, c.options.Group, transportError(err, keystrand.ErrRetryLater))
	case status.GetCode() == v2.Code_MESSAGE_NOT_FOUND:
		return nil, nil
	}
	if err := errorOf(status, nil, keystrand.ErrRetryLater); err != nil {
		return nil, fmt.Errorf("receive from topic %q in group %q: %w", c.options.Topic, c.options.Group, err)
	}
	return deliveries, nil
}

// receive reads one answer to its end: what came before a break does not count, for the broker takes it back.
func (c *remoteConsumer) receive(ctx context.Context, most int, attempt string) (deliveries []keystrand.Delivery, status *v2.Status, err error) {
	stream, err := c.remote.stub.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{
		Group: c.group, MessageQueue: &v2.MessageQueue{Topic: c.topic}, FilterExpression: c.filter, BatchSize: int32(min(max(most, 1), 32)),
		InvisibleDuration: durationpb.New(c.options.Lease), LongPollingTimeout: durationpb.New(c.options.Wait), AttemptId: &attempt,
	})
	if err != nil {
		return nil, nil, err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return deliveries, status, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch content := part.GetContent().(type) {
		case *v2.ReceiveMessageResponse_Status:
			status = content.Status
		case *v2.ReceiveMessageResponse_Message:
			deliveries = append(deliveries, c.delivery(content.Message))
		}
	}
}

// attemptID names a receive: one whose answer was lost before, if there is one, else a new one.
func (c *remoteConsumer) attemptID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.lost); n > 0 {
		id := c.lost[n-1]
		c.lost = c.lost[:n-1]
		return id
	}
	return randomID("")
}

func (c *remoteConsumer) keepAttempt(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = append(c.lost, id)
}

func (c *remoteConsumer) delivery(m *v2.Message) keystrand.Delivery {
	s := m.GetSystemProperties()
	d := keystrand.Delivery{
		Message: keystrand.Message{
			ID: s.GetMessageId(), Topic: m.GetTopic().GetName(), MessageGroup: s.GetMessageGroup(), Tag: s.GetTag(), Keys: s.GetKeys(),
			Properties: m.GetUserProperties(), Body: m.GetBody(), BornAt: timeOf(s.GetBornTimestamp()),
		},
		Queue: s.GetQueueId(), Offset: keystrand.Offset(s.GetQueueOffset()), StoredAt: timeOf(s.GetStoreTimestamp()),
		Attempt: int(s.GetDeliveryAttempt()), ReceiptHandle: s.GetReceiptHandle(), Lease: c.options.Lease,
	}
	if lease := s.GetInvisibleDuration().AsDuration(); lease > 0 {
		d.Lease = lease
	}
	if value, err := strconv.ParseUint(d.Properties[keystrand.PropertyToken], 10, 64); err == nil {
		d.Token = keystrand.Token{Broker: d.Properties[keystrand.PropertyBroker], Value: value}
	}
	delete(d.Properties, keystrand.PropertyToken)
	delete(d.Properties, keystrand.PropertyBroker)
	return d
}

// call bounds one call that changes something.
func (c *remoteConsumer) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(metadata.NewOutgoingContext(ctx, c.header), c.remote.options.CallTimeout)
}

// Ack finishes deliveries, durably.
func (c *remoteConsumer) Ack(ctx context.Context, deliveries ...keystrand.Delivery) error {
	request := &v2.AckMessageRequest{Group: c.group, Topic: c.topic, Entries: make([]*v2.AckMessageEntry, len(deliveries))}
	for i := range deliveries {
		request.Entries[i] = &v2.AckMessageEntry{MessageId: deliveries[i].ID, ReceiptHandle: deliveries[i].ReceiptHandle}
	}
	limited, cancel := c.call(ctx)
	defer cancel()
	answer, err := c.remote.stub.AckMessage(limited, request)
	if err != nil || len(answer.GetEntries()) != len(deliveries) {
		err = errorOf(answer.GetStatus(), err, keystrand.ErrUnknown)
		if err == nil {
			err = fmt.Errorf("the broker answers for %d: %w", len(answer.GetEntries()), keystrand.ErrUnknown)
		}
		return fmt.Errorf("ack %d deliveries of group %q: %w", len(deliveries), c.options.Group, err)
	}
	var failed []error
	for i, entry := range answer.GetEntries() {
		if err := errorOf(entry.GetStatus(), nil, keystrand.ErrUnknown); err != nil {
			failed = append(failed, &keystrand.DeliveryError{Delivery: deliveries[i], Err: err})
		}
	}
	return errors.Join(failed...)
}

// reasonHeader carries why an attempt failed: the protocol's request has no place for it.
const reasonHeader = "x-ks-reason-bin"

// Fail reports a failed attempt: the request that moves a message to the dead-letter queue elsewhere means just that here.
func (c *remoteConsumer) Fail(ctx context.Context, d keystrand.Delivery, cause error) error {
	limited, cancel := c.call(ctx)
	defer cancel()
	limited = metadata.AppendToOutgoingContext(limited, reasonHeader, reasonOf(cause))
	answer, err := c.remote.stub.ForwardMessageToDeadLetterQueue(limited, &v2.ForwardMessageToDeadLetterQueueRequest{
		Group: c.group, Topic: c.topic, ReceiptHandle: d.ReceiptHandle, MessageId: d.ID, DeliveryAttempt: int32(d.Attempt), MaxDeliveryAttempts: 1,
	})
	if err := errorOf(answer.GetStatus(), err, keystrand.ErrUnknown); err != nil {
		return fmt.Errorf("report %v as failed: %w", d, err)
	}
	return nil
}

// Extend makes the lease end that long from now.
func (c *remoteConsumer) Extend(ctx context.Context, d keystrand.Delivery, by time.Duration) (keystrand.Delivery, error) {
	limited, cancel := c.call(ctx)
	defer cancel()
	answer, err := c.remote.stub.ChangeInvisibleDuration(limited, &v2.ChangeInvisibleDurationRequest{
		Group: c.group, Topic: c.topic, ReceiptHandle: d.ReceiptHandle, MessageId: d.ID, InvisibleDuration: durationpb.New(by),
	})
	if err := errorOf(answer.GetStatus(), err, keystrand.ErrUnknown); err != nil {
		return d, fmt.Errorf("extend the lease of %v: %w", d, err)
	}
	d.ReceiptHandle, d.Lease = answer.GetReceiptHandle(), by
	return d, nil
}

// goodbyeTimeout bounds the last call of a consumer.
const goodbyeTimeout = 2 * time.Second

// Close ends the consumer and its waiting receives, and tells the broker. Safe twice.
func (c *remoteConsumer) Close() error {
	if c.open.closed.Err() != nil {
		return nil
	}
	c.open.close()
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(context.WithoutCancel(c.open.closed), c.header), goodbyeTimeout)
	defer cancel()
	// A broker that does not hear it finds out by itself.
	_, _ = c.remote.stub.NotifyClientTermination(ctx, &v2.NotifyClientTerminationRequest{Group: c.group})
	return nil
}
