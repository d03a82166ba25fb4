package store

import (
	"errors"
	"fmt"

	"github.com/keystrand/keystrand"
)

// Entry returns entry n with its links. A link is believed when the entry it names points back; one that a crash left
// wrong is found again from the chain's other end, and mended.
func (x *Index) Entry(n int64) (Entry, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, err := x.linkedLocked(n)
	if err != nil {
		return Entry{}, x.distrustLocked(err)
	}
	return e, nil
}

func (x *Index) linkedLocked(n int64) (Entry, error) {
	b, err := x.rawLocked(n)
	if err != nil {
		return Entry{}, err
	}
	e, err := getEntry(b, x.topic, n)
	if err != nil {
		return Entry{}, fmt.Errorf("entry %d: %w: %w", n, err, keystrand.ErrCorrupt)
	}
	next, nextWhole := getLink(b, n, entryNext)
	queueNext, queueWhole := getLink(b, n, entryQueueNext)
	if e.Next, err = x.nextLocked(n, &e, next, nextWhole); err != nil {
		return Entry{}, err
	}
	if e.QueueNext, err = x.queueNextLocked(n, &e, queueNext, queueWhole); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// nextLocked is the entry after n in its chain.
func (x *Index) nextLocked(n int64, e *Entry, link int64, whole bool) (int64, error) {
	if whole && link >= x.count {
		link = NoEntry // of an entry that a crash took
	}
	if whole && link == NoEntry {
		return NoEntry, nil
	}
	if whole && link > n {
		after, err := x.entryLocked(link)
		if err != nil {
			return NoEntry, err
		}
		if after.Prev == n {
			return link, nil
		}
	}
	// Walk back from the chain's end.
	at, err := x.chainTailLocked(e, x.queueLocked(e.Queue))
	if err != nil {
		return NoEntry, err
	}
	found := NoEntry
	for at > n {
		before, err := x.entryLocked(at)
		if err != nil {
			return NoEntry, err
		}
		if before.Prev == n {
			found = at
		}
		at = before.Prev
	}
	if at != n {
		return NoEntry, fmt.Errorf("entry %d is not in its own chain: %w", n, keystrand.ErrCorrupt)
	}
	return found, x.patchLocked(n, entryNext, found)
}

// queueNextLocked is the entry after n in its queue.
func (x *Index) queueNextLocked(n int64, e *Entry, link int64, whole bool) (int64, error) {
	tail := x.queueLocked(e.Queue)
	if e.QueueOffset+1 >= tail.next {
		return NoEntry, nil
	}
	follows := func(at int64) (bool, error) {
		after, err := x.entryLocked(at)
		return err == nil && after.Queue == e.Queue && after.QueueOffset == e.QueueOffset+1, err
	}
	if whole && link > n && link < x.count {
		if ok, err := follows(link); err != nil || ok {
			return link, err
		}
	}
	for at := n + 1; at <= tail.last; at++ {
		ok, err := follows(at)
		if err != nil {
			return NoEntry, err
		}
		if ok {
			return at, x.patchLocked(n, entryQueueNext, at)
		}
	}
	return NoEntry, fmt.Errorf("queue %d offset %d: no entry, the queue has %d: %w", e.Queue, e.QueueOffset+1, tail.next, keystrand.ErrCorrupt)
}

// ByQueueOffset returns the number of the entry at an offset of a queue. Error: keystrand.ErrRejected when the queue has
// no such offset.
func (x *Index) ByQueueOffset(q int32, off int64) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	tail := x.queueLocked(q)
	if off < 0 || off >= tail.next {
		return 0, fmt.Errorf("index of topic %d: queue %d has the offsets below %d, asked for %d: %w", x.topic, q, tail.next, off, keystrand.ErrRejected)
	}
	if off == tail.next-1 {
		return tail.last, nil
	}
	n, err := x.walkToLocked(q, off)
	if err != nil {
		return 0, x.distrustLocked(err)
	}
	return n, nil
}

func (x *Index) walkToLocked(q int32, off int64) (int64, error) {
	starts, err := x.table.all(queueKey(q, off), pairQueue)
	if err != nil {
		return 0, err
	}
	for _, n := range starts {
		if n >= x.count {
			continue
		}
		e, err := x.linkedLocked(n)
		if err != nil {
			return 0, err
		}
		if e.Queue != q || e.QueueOffset != off/queueBlock*queueBlock {
			continue // put for an entry that a crash took; another one has its number now
		}
		for e.QueueOffset < off {
			n = e.QueueNext
			if e, err = x.linkedLocked(n); err != nil {
				return 0, err
			}
		}
		return n, nil
	}
	return 0, fmt.Errorf("queue %d offset %d: the table has no entry near it: %w", q, off, keystrand.ErrCorrupt)
}

// distrustLocked remembers damage, and sees to it that the next Open rebuilds the index. Errors of the caller and of the
// disk pass through: a disk that answers the next time does no harm.
func (x *Index) distrustLocked(err error) error {
	err = fmt.Errorf("index of topic %d: %w", x.topic, err)
	if errors.Is(err, keystrand.ErrCorrupt) && x.bad == nil {
		x.bad = fmt.Errorf("%w; it is rebuilt from the log at the next start", err)
		err = x.bad
		x.flushed.Broadcast()
		if e := x.disk.Remove(x.dir + "/" + manifestName); e == nil {
			_ = x.disk.SyncDir(x.dir) // if this is lost the next reader finds the damage again
		}
	}
	return err
}
