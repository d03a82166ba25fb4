package sequencer

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
	"github.com/keystrand/keystrand/internal/task"
)

// Folders in the data directory, beside the log's segments.
const (
	indexDir    = "index"
	snapshotDir = "snapshot"
)

// Open recovers the data directory: log, snapshot, indexes, then the log's tail. Nothing is served before Run.
func Open(o Options) (*Sequencer, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Sequencer{o: o, logger: o.Logger, clock: o.Clock, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	s.loop = loopState{
		catalog: state.NewCatalog(), topics: map[state.TopicID]*topicState{}, machines: map[pair]*machine{},
		waiting: map[deliver.RequestID]*receiveCommand{}, moves: deadLetterMoves{wake: make(chan struct{}, 1)},
	}
	storeOptions := o.Store
	storeOptions.OnDurable, storeOptions.OnFailed = s.onDurable, s.onFailed
	if s.log, err = store.Open(o.FS, o.Dir, storeOptions); err != nil {
		return nil, fmt.Errorf("open data directory %q: %w", o.Dir, err)
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("recover data directory %q: %w", o.Dir, err), s.closeAfterFailedOpen())
	}
	// The owner of these goroutines is Close, not a caller's context: they must outlive every call.
	s.tasks = task.NewGroup(context.Background())
	return s, nil
}

func (s *Sequencer) closeAfterFailedOpen() error {
	var errs []error
	for _, t := range s.loop.topics {
		errs = append(errs, t.index.Close())
	}
	return errors.Join(append(errs, s.log.Abandon())...)
}

func (s *Sequencer) onDurable(mark store.Position) {
	for {
		have := s.durable.Load()
		if uint64(mark) <= have || s.durable.CompareAndSwap(have, uint64(mark)) {
			break
		}
	}
	s.poke()
}

func (s *Sequencer) onFailed(err error) { s.fail(fmt.Errorf("broker: %w", err)) }

// recovery is what a start learns before the loop runs.
type recovery struct {
	catalogAt  store.Position // records below it are in the catalog already
	progress   map[pair]*state.Progress
	progressAt map[pair]store.Position
}

func (s *Sequencer) recover() error {
	k0, k1 := s.log.HashKey()
	s.codec = handleCodec{k0, k1}
	s.loop.tokens = newTokens(s.log.Epoch())
	r := recovery{progress: map[pair]*state.Progress{}, progressAt: map[pair]store.Position{}}
	if err := s.recoverSnapshot(&r); err != nil {
		return err
	}
	from := r.catalogAt
	for p := range r.progress {
		from = min(from, r.progressAt[p])
	}
	for _, t := range s.loop.topics {
		from = min(from, t.index.CheckpointPosition())
	}
	replayed := 0
	err := s.log.Replay(from, func(at store.Position, rec store.Record) error {
		replayed++
		return s.replay(&r, at, rec)
	})
	if err != nil {
		return err
	}
	if err := s.boot(); err != nil {
		return err
	}
	s.loop.now = s.clock.Mono()
	for _, t := range s.loop.topics {
		t.recount()
		t.recovered = t.visible
	}
	if !s.log.Clean() && s.o.RestartHold > 0 {
		s.holdUntil = s.loop.now + s.o.RestartHold
	}
	for p, progress := range r.progress {
		sub, ok := s.loop.catalog.Subscription(p.group, p.topic)
		if !ok {
			return fmt.Errorf("progress of group %d on topic %d has no subscription: %w", p.group, p.topic, keystrand.ErrCorrupt)
		}
		s.addMachine(p, progress, sub.Expression)
	}
	s.publishView()
	s.logger.Info("data directory recovered", "records_replayed", replayed, "clean", s.log.Clean(), "epoch", s.log.Epoch(), "topics", len(s.loop.topics))
	return nil
}

// recoverSnapshot takes the newest whole snapshot; without one everything comes from the log.
func (s *Sequencer) recoverSnapshot(r *recovery) error {
	pieces, err := state.ReadSnapshot(s.o.FS, path.Join(s.o.Dir, snapshotDir))
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if store.Position(p.Position) > s.log.Durable() {
			return fmt.Errorf("the snapshot reaches position %d, the log ends at %d: the log lost what was durable: %w", p.Position, s.log.Durable(), keystrand.ErrCorrupt)
		}
		switch p.Kind {
		case state.PieceCatalog:
			if s.loop.catalog, err = state.DecodeCatalog(p.Body); err != nil {
				return fmt.Errorf("snapshot: %w", err)
			}
			r.catalogAt = store.Position(p.Position)
		case state.PieceProgress:
			pr, err := state.DecodeProgress(p.Body)
			if err != nil {
				return fmt.Errorf("snapshot: %w", err)
			}
			key := pair{p.Group, p.Topic}
			r.progress[key], r.progressAt[key] = pr, store.Position(p.Position)
		}
	}
	for _, t := range s.loop.catalog.Topics() {
		if _, err := s.openTopic(t); err != nil {
			return err
		}
	}
	return nil
}

// replay folds one record of the log's tail into what does not hold it yet.
func (s *Sequencer) replay(r *recovery, at store.Position, raw store.Record) error {
	rec, err := state.Decode(state.Kind(raw.Kind), raw.Body)
	if err != nil {
		return fmt.Errorf("record at position %d: %w", at, err)
	}
	switch rec := rec.(type) {
	case *state.Boot:
		return nil
	case *state.Message:
		return s.replayMessage(at, len(raw.Body), rec)
	case *state.Topic:
		return s.replayCatalog(r, at, rec)
	case *state.Group:
		return s.replayCatalog(r, at, rec)
	case *state.Subscribe:
		if err := s.replayCatalog(r, at, rec); err != nil {
			return err
		}
	case *state.DeadLetter:
		if err := s.replayMessage(at, len(raw.Body), &rec.Copy); err != nil {
			return err
		}
	}
	return s.replayProgress(r, at, rec)
}

func (s *Sequencer) replayCatalog(r *recovery, at store.Position, rec state.Record) error {
	if at < r.catalogAt {
		return nil
	}
	if err := s.loop.catalog.Apply(rec); err != nil {
		return err
	}
	if t, ok := rec.(*state.Topic); ok && s.loop.topics[t.ID] == nil {
		_, err := s.openTopic(*t)
		return err
	}
	return nil
}

func (s *Sequencer) replayMessage(at store.Position, size int, m *state.Message) error {
	t := s.loop.topics[m.Topic]
	if t == nil {
		return fmt.Errorf("message %s at position %d: topic %d is unknown: %w", m.ID, at, m.Topic, keystrand.ErrCorrupt)
	}
	n, err := t.index.Append(store.Entry{
		Position: at, SizeBytes: uint32(size), Queue: m.Queue, QueueOffset: m.Offset, GroupHash: m.GroupHash, TagHash: m.TagHash,
	})
	switch {
	case err != nil:
		return fmt.Errorf("index of topic %q: %w", t.Name, err)
	case n != m.Entry:
		return fmt.Errorf("message %s at position %d: index entry %d, the record says %d: %w", m.ID, at, n, m.Entry, keystrand.ErrCorrupt)
	}
	return t.index.PutID(m.ID, n)
}

func (s *Sequencer) replayProgress(r *recovery, at store.Position, rec state.Record) error {
	group, topic, ok := state.PairOf(rec)
	if !ok {
		return nil
	}
	key := pair{group, topic}
	if at < r.progressAt[key] {
		return nil
	}
	p, t := r.progress[key], s.loop.topics[topic]
	if p == nil {
		g := s.loop.catalog.GroupByID(group)
		if g == nil || t == nil {
			return fmt.Errorf("record at position %d names group %d, topic %d: unknown: %w", at, group, topic, keystrand.ErrCorrupt)
		}
		p = state.NewProgress(group, topic, g.Spec)
		r.progress[key] = p
	}
	if err := p.Apply(rec, t.index); err != nil {
		return fmt.Errorf("record at position %d: %w", at, err)
	}
	return nil
}

// boot records the start and waits until it is durable: no token of this epoch leaves before the epoch is.
func (s *Sequencer) boot() error {
	body := state.Encode(nil, &state.Boot{Epoch: s.log.Epoch(), WallMs: s.clock.Wall().UnixMilli(), Clean: s.log.Clean()})
	_, end, err := s.log.Append([]store.Record{{Kind: store.Kind(state.KindBoot), Body: body}}, true)
	if err != nil {
		return fmt.Errorf("boot record: %w", err)
	}
	if err := s.log.WaitDurable(context.Background(), end); err != nil {
		return fmt.Errorf("boot record: %w", err)
	}
	return nil
}
