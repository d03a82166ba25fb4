package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/dchest/siphash"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Index finds one topic's messages: an entry per message with the chains of its group and its queue, and a table of group
// tails, message ids and queue offsets. It is derived from the log: what a crash takes is appended again by replay, and
// an index that is damaged is emptied at the next open.
//
// Append, PutID and DropFrom have one caller at a time; everything else is safe from any goroutine.
//
// Invariant: entries below the manifest's count, and what they need of the table, are on the disk.
type Index struct {
	disk   vfs.FS
	dir    string
	topic  uint32
	key    [2]uint64
	limits indexLimits
	tasks  *task.Group

	// upkeep is held by whoever writes runs or the manifest, across its I/O: they follow one another. Locked before mu.
	upkeep sync.Mutex
	// unsynced: a sync failed, so nobody knows what the disk holds; only a new Open tells. Guarded by upkeep.
	unsynced error
	onDisk   manifest // guarded by upkeep

	// mu guards the fields below. It is held across reads and writes of the page cache's file, which cost a copy, and
	// never across a sync.
	mu       sync.Mutex
	pages    *pages
	table    table
	count    int64
	last     Position // of entry count-1
	queues   map[int32]queueTail
	held     int64 // the entry that a replay will probably ask for next
	putBelow int64 // ids of entries below it are on the disk since before this Open
	bad      error // damage was seen: nothing is appended any more
	closed   bool
	flushed  *sync.Cond // the frozen pairs became a run
	rebuilt  string
}

// indexLimits bound what one index holds in memory; it fills up only while the index is used.
type indexLimits struct {
	pages       int // of 64 entries each
	memPairs    int // so many pairs become a run; twice as many can be in memory
	inlinePairs int // up to so many are written into the manifest instead, so that a small index has no runs
}

// 2 MiB of entries, so that ten thousand groups in turn stay in memory, and two lots of pairs of about 3 MiB.
var defaultIndexLimits = indexLimits{pages: 512, memPairs: 1 << 16, inlinePairs: 1 << 12}

// queueBlock is how many offsets of a queue share one pair of the table; a look-up walks at most so many links.
const queueBlock = 64

// Append adds an entry, sets its Prev and patches the links of the entries before it. An entry whose Position is held
// already, as when the log is replayed, returns its number and changes nothing.
//
// Errors: keystrand.ErrRejected when the position or the queue offset is not the next one; keystrand.ErrCorrupt when
// the index is damaged: the next Open empties it.
func (x *Index) Append(e Entry) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.usableLocked(); err != nil {
		return 0, err
	}
	if x.count > 0 && e.Position <= x.last {
		return x.heldLocked(e.Position)
	}
	tail := x.queueLocked(e.Queue)
	if e.QueueOffset != tail.next {
		return 0, fmt.Errorf("index of topic %d: queue %d offset %d, the next is %d: %w", x.topic, e.Queue, e.QueueOffset, tail.next, keystrand.ErrRejected)
	}
	n := x.count
	var err error
	if e.Prev, err = x.chainTailLocked(&e, tail); err != nil {
		return 0, x.distrustLocked(err)
	}
	// The links come first: one to an entry that is not there counts as none, so failing between is harmless.
	if err := x.patchLocked(e.Prev, entryNext, n); err != nil {
		return 0, x.distrustLocked(err)
	}
	if err := x.patchLocked(tail.last, entryQueueNext, n); err != nil {
		return 0, x.distrustLocked(err)
	}
	p, err := x.pages.get(n / pageEntries)
	if err != nil {
		return 0, x.distrustLocked(err)
	}
	putEntry(p.b[n%pageEntries*entryBytes:], x.topic, n, &e)
	p.dirty = true

	if e.QueueOffset%queueBlock == 0 {
		x.table.mem.put(newPair(queueKey(e.Queue, e.QueueOffset), pairQueue, n))
	}
	if e.GroupHash != 0 {
		x.table.mem.put(newPair(tailKey(e.GroupHash), pairTail, n))
	} else {
		tail.alone = n
	}
	x.queues[e.Queue] = queueTail{next: tail.next + 1, last: n, alone: tail.alone}
	x.count, x.last = n+1, e.Position
	x.freezeLocked()
	return n, nil
}

func tailKey(group uint64) uint64 { return mix(group) }

func queueKey(q int32, off int64) uint64 { return mix(uint64(q)<<32 ^ uint64(off/queueBlock)) }

func (x *Index) usableLocked() error {
	if x.bad != nil {
		return fmt.Errorf("index of topic %d: %w", x.topic, x.bad)
	}
	if x.closed {
		return fmt.Errorf("index of topic %d: %w", x.topic, keystrand.ErrClosed)
	}
	return nil
}

func (x *Index) queueLocked(q int32) queueTail {
	if t, ok := x.queues[q]; ok {
		return t
	}
	return queueTail{last: NoEntry, alone: NoEntry}
}

// chainTailLocked is the entry that e follows in its chain.
func (x *Index) chainTailLocked(e *Entry, tail queueTail) (int64, error) {
	if e.GroupHash == 0 {
		return tail.alone, nil
	}
	n, err := x.table.tail(tailKey(e.GroupHash))
	if err != nil || n == NoEntry {
		return NoEntry, err
	}
	before, err := x.entryLocked(n)
	if err != nil {
		return NoEntry, err
	}
	if before.GroupHash != e.GroupHash {
		return NoEntry, fmt.Errorf("entry %d is of group %016x, the table has it as the last of %016x: %w", n, before.GroupHash, e.GroupHash, keystrand.ErrCorrupt)
	}
	return n, nil
}

func (x *Index) patchLocked(n int64, field int, to int64) error {
	if n == NoEntry {
		return nil
	}
	p, err := x.pages.get(n / pageEntries)
	if err != nil {
		return err
	}
	putLink(p.b[n%pageEntries*entryBytes:], n, field, to)
	p.dirty = true // also when it was the same: a sync that failed in an earlier life may have left it clean and lost
	return nil
}

// heldLocked finds the entry of a position. A replay asks for them in order.
func (x *Index) heldLocked(pos Position) (int64, error) {
	if x.held < x.count {
		if e, err := x.entryLocked(x.held); err == nil && e.Position == pos {
			x.held++
			return x.held - 1, nil
		}
	}
	lo, hi := int64(0), x.count
	for lo < hi {
		m := (lo + hi) / 2
		e, err := x.entryLocked(m)
		if err != nil {
			return 0, x.distrustLocked(err)
		}
		if e.Position < pos {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < x.count {
		if e, err := x.entryLocked(lo); err == nil && e.Position == pos {
			x.held = lo + 1
			return lo, nil
		}
	}
	return 0, fmt.Errorf("index of topic %d: position %v is below the last one and not held: %w", x.topic, pos, keystrand.ErrRejected)
}

// entryLocked returns entry n without its links.
func (x *Index) entryLocked(n int64) (Entry, error) {
	b, err := x.rawLocked(n)
	if err != nil {
		return Entry{}, err
	}
	e, err := getEntry(b, x.topic, n)
	if err != nil {
		return Entry{}, fmt.Errorf("entry %d: %w: %w", n, err, keystrand.ErrCorrupt)
	}
	return e, nil
}

func (x *Index) rawLocked(n int64) ([]byte, error) {
	if n < 0 || n >= x.count {
		return nil, fmt.Errorf("entry %d: there are %d: %w", n, x.count, keystrand.ErrRejected)
	}
	if x.pages == nil {
		return nil, keystrand.ErrClosed
	}
	p, err := x.pages.get(n / pageEntries)
	if err != nil {
		return nil, err
	}
	return p.b[n%pageEntries*entryBytes:][:entryBytes], nil
}

// Count is how many entries there are.
func (x *Index) Count() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count
}

// QueueCount is the next offset of the queue.
func (x *Index) QueueCount(q int32) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.queueLocked(q).next
}

// PutID makes entry n findable by its message id.
func (x *Index) PutID(messageID string, n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.usableLocked(); err != nil {
		return err
	}
	if n < x.putBelow {
		return nil // a replay puts again what the manifest has
	}
	x.table.mem.put(newPair(x.idKey(messageID), pairID, n))
	x.freezeLocked()
	return nil
}

// idKey is keyed, so that nobody who chooses ids can choose where they go.
func (x *Index) idKey(id string) uint64 { return siphash.Hash(x.key[0], x.key[1], []byte(id)) }

// ByID returns the entries that may carry the id, oldest first, at most 64; the caller compares the text.
func (x *Index) ByID(messageID string) ([]int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	numbers, err := x.table.all(x.idKey(messageID), pairID)
	if err != nil {
		return nil, x.distrustLocked(err)
	}
	for i, n := range numbers {
		if n >= x.count { // of an entry that a crash took
			numbers = numbers[:i]
			break
		}
	}
	return numbers[:min(len(numbers), maxCandidates)], nil
}

// freezeLocked turns the pairs in memory into a run, in the background, when there are enough. It waits for the run
// before it, so that at most two lots are in memory.
func (x *Index) freezeLocked() {
	if x.table.mem.len() < x.limits.memPairs {
		return
	}
	for x.table.frozen != nil && x.bad == nil {
		x.flushed.Wait()
	}
	x.startFreezeLocked()
	x.tasks.Go("index run", func(context.Context) error {
		x.upkeep.Lock()
		defer x.upkeep.Unlock()
		x.settle() // its error makes the index bad, and the next caller is told
		return nil
	})
}

func (x *Index) startFreezeLocked() {
	x.table.frozen, x.table.mem = x.table.mem, newMemTable()
}
