package sequencer

import (
	"context"
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
	"time"
)

// maxBrowse bounds the messages of one Browse.
const maxBrowse = 256

// Browse reads up to n durable messages of a topic in its order, from entry number from, for tools: it leases nothing and
// changes nothing. Entry numbers count the topic's messages across queues, from 0. Deliveries carry no handle or token.
func (s *Sequencer) Browse(ctx context.Context, topic string, from int64, n int) ([]keystrand.Delivery, error) {
	t, ok := s.view.Load().topics[topic]
	if !ok {
		return nil, fmt.Errorf("browse topic %q: %w", topic, keystrand.ErrTopicNotFound)
	}
	var visible int64
	err := s.admin(ctx, func(s *Sequencer) error {
		visible = s.loop.topics[t.ID].visible
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("browse topic %q: %w", topic, err)
	}
	var out []keystrand.Delivery
	for e := max(from, 0); e < visible && len(out) < min(n, maxBrowse); e++ {
		m, err := s.readEntry(t.index, e)
		if err != nil {
			return out, fmt.Errorf("browse topic %q: entry %d: %w", topic, e, err)
		}
		out = append(out, stored(topic, &m))
	}
	return out, nil
}

// stored is a message as a delivery without lease.
func stored(topic string, m *state.Message) keystrand.Delivery {
	return keystrand.Delivery{
		Message: keystrand.Message{
			ID: m.ID, Topic: topic, MessageGroup: m.Group, Tag: m.Tag, Keys: m.Keys, Properties: m.Props, Body: m.Body,
			BornAt: time.UnixMilli(m.BornMs),
		},
		Queue: m.Queue, Offset: keystrand.Offset(m.Offset), StoredAt: time.UnixMilli(m.StoredMs),
	}
}
