package history

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
)

// Watch returns an engine that records sends, hand-outs, acks, failures and renewals of the engine it wraps. Each
// producer and consumer opened from it gets a worker of its own, counted from firstWorker.
func Watch(engine keystrand.Engine, recorder *Recorder, firstWorker int) keystrand.Engine {
	return &watched{Engine: engine, recorder: recorder, first: firstWorker}
}

type watched struct {
	keystrand.Engine
	recorder *Recorder
	first    int
	given    atomic.Int64 // workers given
}

func (w *watched) worker() *Worker {
	return w.recorder.Worker(w.first + int(w.given.Add(1)) - 1)
}

// Producer opens a sender whose sends are recorded.
func (w *watched) Producer(ctx context.Context) (keystrand.Producer, error) {
	p, err := w.Engine.Producer(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedProducer{p, w.worker()}, nil
}

// Consumer opens a receiver whose deliveries are recorded.
func (w *watched) Consumer(ctx context.Context, options keystrand.ConsumerOptions) (keystrand.Consumer, error) {
	c, err := w.Engine.Consumer(ctx, options)
	if err != nil {
		return nil, err
	}
	return &watchedConsumer{c, w.worker(), options.Group}, nil
}

type watchedProducer struct {
	keystrand.Producer
	worker *Worker
}

func (p *watchedProducer) Send(ctx context.Context, messages ...keystrand.Message) ([]keystrand.Receipt, error) {
	ops := make([]*Operation, len(messages))
	for i, m := range messages {
		ops[i] = p.worker.Send(FromMessage(m))
	}
	receipts, err := p.Producer.Send(ctx, messages...)
	for i, op := range ops {
		switch {
		case err == nil && i < len(receipts):
			op.Stored(receipts[i].Queue, int64(receipts[i].Offset))
		case err == nil:
			op.OK()
		default:
			op.Err(err)
		}
	}
	return receipts, err
}

// Err ends the operation with what err says of it: refused, superseded and "retry later" are Fail, all else is Info.
func (o *Operation) Err(err error) {
	switch {
	case err == nil:
		o.OK()
	case errors.Is(err, keystrand.ErrUnknown):
		o.Info(err.Error())
	case errors.Is(err, keystrand.ErrRejected), errors.Is(err, keystrand.ErrSuperseded), errors.Is(err, keystrand.ErrRetryLater):
		o.Fail(err.Error())
	default:
		o.Info(err.Error())
	}
}

type watchedConsumer struct {
	keystrand.Consumer
	worker *Worker
	group  string
}

func (c *watchedConsumer) Receive(ctx context.Context, limit int) ([]keystrand.Delivery, error) {
	since := Now()
	deliveries, err := c.Consumer.Receive(ctx, limit)
	for _, d := range deliveries {
		c.worker.Recv(FromDelivery(c.group, d, since))
	}
	return deliveries, err
}

// Ack records one operation per delivery, with its own outcome where the error tells of deliveries one by one.
func (c *watchedConsumer) Ack(ctx context.Context, deliveries ...keystrand.Delivery) error {
	ops := make([]*Operation, len(deliveries))
	for i, d := range deliveries {
		ops[i] = c.worker.Ack(FromDelivery(c.group, d, 0))
	}
	err := c.Consumer.Ack(ctx, deliveries...)
	each := map[string]error{}
	for _, one := range keystrand.DeliveryErrors(err) {
		each[one.Delivery.ReceiptHandle] = one.Err
	}
	for i, op := range ops {
		if len(each) > 0 {
			op.Err(each[deliveries[i].ReceiptHandle])
			continue
		}
		op.Err(err)
	}
	return err
}

func (c *watchedConsumer) Fail(ctx context.Context, d keystrand.Delivery, cause error) error {
	op := c.worker.Nack(FromDelivery(c.group, d, 0))
	err := c.Consumer.Fail(ctx, d, cause)
	op.Err(err)
	return err
}

func (c *watchedConsumer) Extend(ctx context.Context, d keystrand.Delivery, length time.Duration) (keystrand.Delivery, error) {
	op := c.worker.Renew(FromDelivery(c.group, d, 0), length)
	longer, err := c.Consumer.Extend(ctx, d, length)
	op.Err(err)
	return longer, err
}
