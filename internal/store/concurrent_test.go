package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// One appends, others read, look up and make checkpoints meanwhile; runs are written and merged in the background. What is
// read is right at any moment, and the end is whole.
func TestReadersAndCheckpointsRunBesideAppends(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	x := openX(t, disk)
	m := &plain{}
	r := rand.New(rand.NewPCG(21, 21))
	for range 1500 {
		e, id := m.make(r, 40, 3)
		m.append(e, id)
	}
	others := task.NewGroup(t.Context())
	for n := range uint64(3) {
		others.Go("reader", func(ctx context.Context) error {
			r := rand.New(rand.NewPCG(n, 22))
			for ctx.Err() == nil {
				count := x.Count()
				if count == 0 {
					continue
				}
				i := r.Int64N(count)
				e, err := x.Entry(i)
				want := m.entries[i]
				if err != nil || e.Position != want.Position || e.Prev != want.Prev || e.Next != NoEntry && e.Next != want.Next {
					return errors.Join(err, errors.New("a reader got a wrong entry"))
				}
				if got, err := x.ByQueueOffset(e.Queue, e.QueueOffset); err != nil || got != i {
					return errors.Join(err, errors.New("a reader got a wrong number"))
				}
				if _, err := x.ByID(m.ids[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	others.Go("checkpoints", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if _, err := x.Checkpoint(); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, m.feed(x, 0))
	must(t, others.Stop())
	must(t, m.check(x))
	must(t, x.Close())
	x = openX(t, disk.Crash(0, 1))
	must(t, m.check(x))
	must(t, x.Close())
}

// Append, waits, reads and several Close at once: everybody gets an answer, nothing of the log runs afterwards, and what
// was told as durable is there.
func TestCloseBesideEverythingElse(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		disk := vfs.NewCrashFS()
		l := openLog(t, disk, "d", small)
		var s script
		others := task.NewGroup(t.Context())
		others.Go("appender", func(context.Context) error {
			for {
				if err := s.append(l, len(s.batches)%3 == 0); err != nil {
					if errors.Is(err, keystrand.ErrClosed) || errors.Is(err, keystrand.ErrReadOnly) || errors.Is(err, keystrand.ErrUnknown) {
						return nil
					}
					return err
				}
			}
		})
		others.Go("reader", func(context.Context) error {
			for {
				if err := l.Replay(0, func(Position, Record) error { return nil }); err != nil {
					return nil // its file was closed
				}
				if l.Err() != nil {
					return nil
				}
			}
		})
		for l.Durable() < at(1, int64(segmentStart+500+round*100)) {
			must(t, l.WaitDurable(t.Context(), l.Durable()+8))
		}
		for range 3 {
			others.Go("closer", func(context.Context) error { return l.Close() })
		}
		must(t, others.Wait())
		durable, batches := s.promised()
		l = openLog(t, disk.Crash(0, 1), "d", small)
		if !l.Clean() {
			t.Error("got an unclean start")
		}
		if _, err := checkPrefix(replayAll(t, l, 0), durable, batches); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
	}
}
