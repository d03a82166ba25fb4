package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
)

// producer sends to a broker in this process.
type producer struct {
	broker *broker.Broker
	open   opening
}

// Send stores messages of one topic, all or none, in the given order.
func (p *producer) Send(ctx context.Context, messages ...keystrand.Message) ([]keystrand.Receipt, error) {
	if p.open.closed.Err() != nil {
		return nil, keystrand.ErrClosed
	}
	topic, err := oneTopic(messages)
	if err != nil {
		return nil, err
	}
	return p.broker.Send(ctx, topic, messages, "")
}

// oneTopic checks that all messages are of one topic.
func oneTopic(messages []keystrand.Message) (string, error) {
	if len(messages) == 0 {
		return "", fmt.Errorf("send: no messages: %w", keystrand.ErrRejected)
	}
	for _, m := range messages[1:] {
		if m.Topic != messages[0].Topic {
			return "", fmt.Errorf("send: messages of topics %q and %q in one call: %w", messages[0].Topic, m.Topic, keystrand.ErrRejected)
		}
	}
	return messages[0].Topic, nil
}

// Close ends the producer. Safe twice.
func (p *producer) Close() error {
	p.open.close()
	return nil
}

// consumer receives from a broker in this process.
type consumer struct {
	broker  *broker.Broker
	options keystrand.ConsumerOptions
	open    opening
}

// Receive waits for 1 to most deliveries of as many strands.
func (c *consumer) Receive(ctx context.Context, most int) ([]keystrand.Delivery, error) {
	within, end, err := c.open.within(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	o := c.options
	deliveries, err := c.broker.Receive(within, broker.Receive{
		Group: o.Group, Topic: o.Topic, Expression: o.Filter, Max: most, Lease: o.Lease, Wait: o.Wait, ClientID: o.ClientID,
	})
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		err = keystrand.ErrClosed
	}
	return deliveries, err
}

// Ack finishes deliveries, durably.
func (c *consumer) Ack(ctx context.Context, deliveries ...keystrand.Delivery) error {
	handles := make([]string, len(deliveries))
	for i := range deliveries {
		handles[i] = deliveries[i].ReceiptHandle
	}
	var failed []error
	for i, err := range c.broker.Ack(ctx, c.options.Group, c.options.Topic, handles...) {
		if err != nil {
			failed = append(failed, &keystrand.DeliveryError{Delivery: deliveries[i], Err: err})
		}
	}
	return errors.Join(failed...)
}

// Fail reports a failed attempt.
func (c *consumer) Fail(ctx context.Context, d keystrand.Delivery, cause error) error {
	return c.broker.Fail(ctx, c.options.Group, c.options.Topic, d.ReceiptHandle, reasonOf(cause))
}

// Extend makes the lease end that long from now.
func (c *consumer) Extend(ctx context.Context, d keystrand.Delivery, by time.Duration) (keystrand.Delivery, error) {
	handle, err := c.broker.ChangeInvisible(ctx, c.options.Group, c.options.Topic, d.ReceiptHandle, by)
	if err == nil {
		d.ReceiptHandle, d.Lease = handle, by
	}
	return d, err
}

// Close ends the consumer and its waiting receives. Safe twice.
func (c *consumer) Close() error {
	c.open.close()
	return nil
}

// maxReasonBytes bounds the reason of a failure that the engine keeps.
const maxReasonBytes = 1024

func reasonOf(cause error) string {
	if cause == nil {
		return "no reason given"
	}
	text := cause.Error()
	if len(text) > maxReasonBytes {
		text = strings.ToValidUTF8(text[:maxReasonBytes], "") + "..."
	}
	return text
}
