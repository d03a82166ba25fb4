package sequencer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// Properties of a dead letter that say where it came from.
// Source: org.apache.rocketmq.common.message.MessageConst (DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID).
const (
	propertyOriginTopic     = "DLQ_ORIGIN_TOPIC"
	propertyOriginMessageID = "DLQ_ORIGIN_MESSAGE_ID"
	propertyDeadReason      = "KS_DEAD_REASON"
	propertyDeadAttempts    = "KS_DEAD_ATTEMPTS"
)

// deadLetterMoves are the moves the loop asked for. The message is read by another goroutine, so that a cold disk does
// not hold the loop; the strand stays closed meanwhile. Bounded by the number of strands in memory.
type deadLetterMoves struct {
	mu   sync.Mutex // guards asks
	asks []deadLetterAsk
	wake chan struct{} // capacity 1
}

type deadLetterAsk struct {
	m *machine
	deliver.DeadLetter
}

func (q *deadLetterMoves) ask(m *machine, d deliver.DeadLetter) {
	q.mu.Lock()
	q.asks = append(q.asks, deadLetterAsk{m, d})
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *deadLetterMoves) take() []deadLetterAsk {
	q.mu.Lock()
	defer q.mu.Unlock()
	asks := q.asks
	q.asks = nil
	return asks
}

// readDeadLetters reads the messages of asked moves and hands them back to the loop.
func (s *Sequencer) readDeadLetters(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.loop.moves.wake:
		}
		for _, ask := range s.loop.moves.take() {
			m, err := s.readEntry(ask.m.topic.index, ask.Entry)
			if err := s.submitPatiently(ctx, &deadLetterCommand{ask: ask, message: m, err: err}); err != nil {
				return nil // closing or read-only: the move is asked for again after the restart
			}
		}
	}
}

// submitPatiently waits while the command queue is full.
func (s *Sequencer) submitPatiently(ctx context.Context, c command) error {
	for {
		err := s.submit(c)
		if err == nil || errors.Is(err, keystrand.ErrClosed) || s.Err() != nil {
			return err
		}
		timer := time.NewTimer(10 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

type deadLetterCommand struct {
	ask     deadLetterAsk
	message state.Message
	err     error
}

// deadLetterCopy is a copy in this turn's records that the index must learn of once its position is known.
type deadLetterCopy struct {
	topic  *topicState
	record int // index in the turn's records
	copy   state.Message
}

func (c *deadLetterCommand) run(s *Sequencer) {
	ask := c.ask
	group := s.loop.catalog.GroupByID(ask.m.group)
	if c.err != nil {
		s.logger.Error("a message could not be read for its dead letter; its strand is parked", "consumer_group", group.Spec.Name,
			"topic", ask.m.topic.Name, "entry", ask.Entry, "error", c.err)
		s.parkUnreadable(ask, c.err)
		return
	}
	t, err := s.deadLetterTopic(group.Spec.Name)
	if err != nil {
		s.logger.Error("no dead-letter topic; the strand is parked", "consumer_group", group.Spec.Name, "error", err)
		s.parkUnreadable(ask, err)
		return
	}
	r := &state.DeadLetter{
		Group: ask.m.group, Topic: ask.m.topic.ID, Strand: ask.Strand, Entry: ask.Entry, Token: ask.Token,
		Attempt: ask.Attempt, Reason: ask.Reason, Copy: s.deadCopy(t, ask, c.message),
	}
	turn := &s.loop.turn
	turn.copies = append(turn.copies, &deadLetterCopy{t, len(turn.records), r.Copy})
	s.record(r)
	s.touch(ask.m)
	s.perform(ask.m, ask.m.Applied(s.loop.now, r))
	s.loop.stats.DeadLettered++
}

func (s *Sequencer) parkUnreadable(ask deadLetterAsk, err error) {
	if _, actions := ask.m.Park(s.loop.now, ask.Strand, fmt.Sprintf("dead letter not possible: %v", err)); true {
		s.perform(ask.m, actions)
	}
}

// touch makes the machine hear of the turn's end mark even if perform saw no record of it.
func (s *Sequencer) touch(m *machine) {
	if !m.inTurn {
		m.inTurn = true
		s.loop.turn.touched = append(s.loop.turn.touched, m)
	}
}

// deadCopy is the message as it stands in the dead-letter topic: same id, group, keys, tag, body; the origin in properties.
func (s *Sequencer) deadCopy(t *topicState, ask deadLetterAsk, m state.Message) state.Message {
	props := make(map[string]string, len(m.Props)+4)
	for k, v := range m.Props {
		props[k] = v
	}
	props[propertyOriginTopic] = ask.m.topic.Name
	props[propertyOriginMessageID] = m.ID
	props[propertyDeadReason] = ask.Reason
	props[propertyDeadAttempts] = strconv.Itoa(int(ask.Attempt))
	dead := m
	dead.Topic, dead.Props = t.ID, props
	dead.Queue = t.pickQueue(m.GroupHash)
	dead.Offset, dead.Entry = t.queueNext[dead.Queue], t.next
	dead.StoredMs = s.clock.Wall().UnixMilli()
	t.queueNext[dead.Queue]++
	t.next++
	return dead
}

// indexCopies enters the dead letters of this turn, whose positions are known now.
func (s *Sequencer) indexCopies(first []store.Position, waits *syncing) {
	for _, c := range s.loop.turn.copies {
		r := s.loop.turn.records[c.record]
		s.index(c.topic, first[c.record], len(r.Body), c.copy.Queue, c.copy.Offset, sendMessage{c.copy.ID, c.copy.GroupHash, c.copy.TagHash})
		waits.see(c.topic)
	}
}
