package demo

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
)

// broker serves on ports that the system chooses; the proxy of the parent gives it a lasting address.
func (c *child) broker(ctx context.Context) error {
	b, err := broker.Open(broker.Options{
		DataDir: filepath.Join(c.Dir, "broker"), GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Logger: c.logger,
		// A lease that a client holds from before a crash must have ended before its strand goes out again.
		RestartHold: leaseLength,
		Topics:      []keystrand.TopicSpec{{Name: topicName, Type: keystrand.TopicFIFO, Queues: c.Queues}},
		Groups:      []keystrand.GroupSpec{groupSpec()},
	})
	if err != nil {
		return err
	}
	a := b.Addresses()
	err = b.Run(ctx, func() {
		if err := c.tell(note{Kind: "ready", GRPC: a.GRPC, HTTP: a.HTTP, BrokerID: b.BrokerID()}); err != nil {
			c.logger.Error("ready line not written", "error", err)
		}
	})
	return errors.Join(err, b.Close())
}
