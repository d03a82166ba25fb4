package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/keystrand/keystrand/internal/vfs"
)

// pairOf is a log with the index of its only topic, as the sequencer keeps them: a record is appended, then indexed, and answered when
// it is durable.
type pairOf struct {
	log   *Log
	index *Index
	next  [3]int64
	n     int
}

// openPair recovers both: the index is cut to the log, then fed the log's tail.
func openPair(disk vfs.FS) (*pairOf, error) {
	l, err := Open(disk, "d", Options{FirstSegmentBytes: 8192, SegmentBytes: 16384})
	if err != nil {
		return nil, err
	}
	p := &pairOf{log: l}
	if p.index, err = openIndex(disk, "x", 7, tight); err != nil {
		return nil, errors.Join(err, l.Abandon())
	}
	err = p.index.DropFrom(l.RecoveredEnd())
	if err == nil {
		err = l.Replay(p.index.CheckpointPosition(), func(pos Position, r Record) error {
			e, id := messageOf(pos, r)
			n, err := p.index.Append(e)
			if err != nil {
				return err
			}
			return p.index.PutID(id, n)
		})
	}
	if err != nil {
		return nil, errors.Join(err, p.abandon())
	}
	for q := range p.next {
		p.next[q] = p.index.QueueCount(int32(q))
	}
	p.n = int(p.index.Count())
	return p, nil
}

func (p *pairOf) abandon() error { return errors.Join(p.index.Abandon(), p.log.Abandon()) }

func (p *pairOf) close() error { return errors.Join(p.index.Close(), p.log.Close()) }

// messageOf reads what pairOf.send wrote.
func messageOf(pos Position, r Record) (Entry, string) {
	e := Entry{Position: pos, SizeBytes: uint32(len(r.Body))}
	var group uint64
	var id string
	if _, err := fmt.Sscanf(string(r.Body), "%d %d %d %s", &e.Queue, &e.QueueOffset, &group, &id); err != nil {
		panic(err)
	}
	if group > 0 {
		e.GroupHash = mix(group)
	}
	return e, id
}

func (p *pairOf) send(r *rand.Rand, wait bool) error {
	q := r.IntN(3)
	body := fmt.Appendf(nil, "%d %d %d id-%d ", q, p.next[q], r.IntN(6), p.n)
	body = append(body, make([]byte, r.IntN(120))...)
	at, end, err := p.log.Append([]Record{{Kind: 1, Body: body}}, false)
	if err != nil {
		return err
	}
	e, id := messageOf(at[0], Record{Body: body})
	n, err := p.index.Append(e)
	if err == nil {
		err = p.index.PutID(id, n)
	}
	p.next[q]++
	p.n++
	if err == nil && wait {
		err = p.log.WaitDurable(context.Background(), end)
	}
	return err
}

// check builds the model from the whole log and compares.
func (p *pairOf) check(durable int) error {
	m := &plain{}
	err := p.log.Replay(0, func(pos Position, r Record) error {
		m.append(messageOf(pos, r))
		return nil
	})
	if err != nil {
		return err
	}
	if len(m.entries) < durable {
		return fmt.Errorf("got %d messages, %d were durable", len(m.entries), durable)
	}
	m.reused = true
	return m.check(p.index)
}

// D16, D17, D18, C03, C08 for the index: a crash at every file operation of log and index together, with 0, 50 and 100 percent
// unsynced; then, for some of them, a crash at every operation of that recovery.
func TestACrashAnywhereLeavesAnIndexThatTheLogMakesWhole(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	var durable atomic.Int64
	var images []image
	p, err := openPair(disk)
	must(t, err)
	var inHook atomic.Bool
	hook := func(op vfs.Op) error {
		if op.Changes && inHook.CompareAndSwap(false, true) {
			for _, part := range []float64{0, 0.5, 1} {
				n := int(durable.Load())
				images = append(images, image{op: op, p: part, disk: disk.Crash(part, uint64(op.N)), durable: n})
			}
			inHook.Store(false)
		}
		return nil
	}
	disk.SetHook(hook)
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 260 {
		wait := i%20 != 13
		must(t, p.send(r, wait))
		if wait {
			durable.Store(int64(i + 1))
		}
		if i%23 == 13 { // right after a message that is perhaps not durable
			_, err := p.index.Checkpoint()
			must(t, err)
		}
		if i == 150 {
			must(t, p.close())
			p, err = openPair(disk)
			must(t, err)
		}
	}
	disk.SetHook(nil)
	must(t, p.close())
	rebuilt, stops := 0, 0
	every, nested := sampling()
	for n, i := range images {
		if n%nested == 0 {
			stops += crashTheRecovery(t, i)
		}
		if n%every != 0 {
			continue
		}
		p, err := openPair(i.disk)
		if err != nil {
			t.Fatalf("%v p=%v: %v", i.op, i.p, err)
		}
		if p.index.Rebuilt() != "" {
			rebuilt++
		}
		for range 5 {
			err = errors.Join(err, p.send(r, true))
		}
		if err = errors.Join(err, p.check(i.durable+5), p.close()); err != nil {
			t.Fatalf("%v p=%v: %v", i.op, i.p, err)
		}
	}
	t.Logf("%d file operations, %d images, %d recoveries stopped, %d indexes rebuilt", disk.Changes(), len(images), stops, rebuilt)
	if len(images) < 3*600 || stops == 0 {
		t.Errorf("got %d images and %d stopped recoveries, want more", len(images), stops)
	}
	if rebuilt > 0 {
		t.Errorf("%d indexes were taken for damaged after a mere crash", rebuilt)
	}
}

// sampling says which images are recovered, and in which of them recovery is stopped too: with KEYSTRAND_CRASH_ALL set all
// and many. The steps have no factor in common with the three images per operation.
func sampling() (every, nested int) {
	switch {
	case os.Getenv("KEYSTRAND_CRASH_ALL") != "":
		return 1, 7
	case brief():
		return 25, 311
	}
	return 4, 61
}

// crashTheRecovery stops the recovery of an image at each of its operations and checks what is recovered from the rest.
func crashTheRecovery(t *testing.T, i image) int {
	for at := int64(1); ; at++ {
		disk := i.disk.Crash(1, 1)
		disk.StopAt(disk.Changes() + at)
		p, err := openPair(disk)
		if err == nil {
			must(t, ignoreCrash(p.abandon()))
			return int(at) - 1
		}
		if !errors.Is(err, vfs.ErrCrashed) {
			t.Fatalf("%v p=%v, recovery stopped at %d: %v", i.op, i.p, at, err)
		}
		for _, part := range []float64{0, 0.5, 1} {
			p, err := openPair(disk.Crash(part, uint64(at)))
			if err == nil {
				err = errors.Join(p.check(i.durable), p.close())
			}
			if err != nil {
				t.Fatalf("%v p=%v, recovery stopped at %d, then p=%v: %v", i.op, i.p, at, part, err)
			}
		}
	}
}
