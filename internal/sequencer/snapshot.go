package sequencer

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// snapshotLoop writes a snapshot every so often while the log grows. A failed one is reported and tried again: the log
// still has everything.
func (s *Sequencer) snapshotLoop(ctx context.Context) error {
	timer := time.NewTicker(s.o.SnapshotEvery)
	defer timer.Stop()
	var last store.Position
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		end := s.log.Appended()
		if end == last {
			continue
		}
		if err := s.Snapshot(ctx); err != nil {
			if ctx.Err() != nil || s.Err() != nil {
				return nil
			}
			s.logger.Warn("snapshot not written; the next start replays more of the log", "error", err)
			continue
		}
		last = end
	}
}

// Snapshot writes one now: the catalog and each progress as a piece of its own with its own log position, so that the
// loop is held only while one piece is encoded; then the indexes' checkpoints.
func (s *Sequencer) Snapshot(ctx context.Context) error {
	var pairs []pair
	var catalog state.Piece
	err := s.afterAppend(ctx, func(at uint64) {
		catalog = s.catalogPiece(at)
		for p := range s.loop.machines {
			pairs = append(pairs, p)
		}
	})
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	pieces := []state.Piece{catalog}
	for _, p := range pairs {
		err := s.afterAppend(ctx, func(at uint64) { pieces = append(pieces, s.progressPiece(p, at)) })
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	return s.writeSnapshot(ctx, pieces)
}

func (s *Sequencer) catalogPiece(at uint64) state.Piece {
	return state.Piece{Kind: state.PieceCatalog, Position: at, Body: s.loop.catalog.Encode(nil)}
}

func (s *Sequencer) progressPiece(p pair, at uint64) state.Piece {
	return state.Piece{Kind: state.PieceProgress, Group: p.group, Topic: p.topic, Position: at, Body: s.loop.machines[p].progress.Encode(nil)}
}

// afterAppend runs f in the loop after the turn's records are in the log, with the position behind them, and waits.
func (s *Sequencer) afterAppend(ctx context.Context, f func(at uint64)) error {
	return s.admin(ctx, func(s *Sequencer) error {
		s.loop.turn.after = append(s.loop.turn.after, func() { f(uint64(s.log.Appended())) })
		return nil
	})
}

// writeSnapshot waits until all that the pieces hold is durable (a snapshot must never be ahead of the log), makes the
// indexes durable, and puts the snapshot in place.
func (s *Sequencer) writeSnapshot(ctx context.Context, pieces []state.Piece) error {
	var newest store.Position
	for _, p := range pieces {
		newest = max(newest, store.Position(p.Position))
	}
	if err := s.log.WaitDurable(ctx, newest); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	for _, t := range s.view.Load().topics {
		// Every record below the first piece's position was in the indexes when it was taken.
		if _, err := t.index.CheckpointUpTo(store.Position(pieces[0].Position)); err != nil {
			return fmt.Errorf("snapshot: index of topic %q: %w", t.Name, err)
		}
	}
	if err := state.WriteSnapshot(s.o.FS, path.Join(s.o.Dir, snapshotDir), pieces); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// lastSnapshot is written when nothing runs any more, so that the next start has nothing to replay.
func (s *Sequencer) lastSnapshot() error {
	at := uint64(s.log.Appended())
	pieces := []state.Piece{s.catalogPiece(at)}
	for p := range s.loop.machines {
		pieces = append(pieces, s.progressPiece(p, at))
	}
	// No caller's context reaches here: the close must not leave the work half done.
	return s.writeSnapshot(context.Background(), pieces)
}
