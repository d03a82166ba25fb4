// Package statetest has the index that tests of state and delivery run on: entries in memory, linked as the store links
// them, with failures on demand.
package statetest

import (
	"fmt"

	"github.com/keystrand/keystrand/internal/store"
)

// Index is a topic's index in memory.
//
// Invariant: as store.Entry's.
type Index struct {
	Entries []store.Entry
	// Fail, if set, is asked before each read.
	Fail func(n int64) error
	// Reads counts.
	Reads int

	tails      map[chain]int64
	queueTails map[int32]int64
}

// chain names what Prev and Next link: a message group, or a queue's messages without one.
type chain struct {
	group uint64
	queue int32
}

// New returns an empty index.
func New() *Index { return &Index{tails: map[chain]int64{}, queueTails: map[int32]int64{}} }

// Append adds an entry and links it; it returns its number.
func (x *Index) Append(queue int32, groupHash uint64, tagHash uint32) int64 {
	n := int64(len(x.Entries))
	e := store.Entry{
		Position: store.Position(n + 1), Queue: queue, GroupHash: groupHash, TagHash: tagHash,
		Prev: store.NoEntry, Next: store.NoEntry, QueueNext: store.NoEntry,
	}
	c := chain{group: groupHash}
	if groupHash == 0 {
		c.queue = queue
	}
	if tail, ok := x.tails[c]; ok {
		e.Prev = tail
		x.Entries[tail].Next = n
	}
	if tail, ok := x.queueTails[queue]; ok {
		x.Entries[tail].QueueNext = n
		e.QueueOffset = x.Entries[tail].QueueOffset + 1
	}
	x.tails[c], x.queueTails[queue] = n, n
	x.Entries = append(x.Entries, e)
	return n
}

// Entry implements state.Index.
func (x *Index) Entry(n int64) (store.Entry, error) {
	x.Reads++
	if x.Fail != nil {
		if err := x.Fail(n); err != nil {
			return store.Entry{}, err
		}
	}
	if n < 0 || n >= int64(len(x.Entries)) {
		return store.Entry{}, fmt.Errorf("entry %d of %d", n, len(x.Entries))
	}
	return x.Entries[n], nil
}

// Cut returns a new index with the first n entries, as a start after a crash builds it.
func (x *Index) Cut(n int64) *Index {
	cut := New()
	for _, e := range x.Entries[:n] {
		cut.Append(e.Queue, e.GroupHash, e.TagHash)
	}
	return cut
}
