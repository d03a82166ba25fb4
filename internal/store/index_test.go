package store

import (
	"testing"

	"github.com/keystrand/keystrand/internal/vfs"
)

func TestEntriesAreChainedByGroupAndByQueue(t *testing.T) {
	t.Parallel()
	x, err := OpenIndex(vfs.OS{}, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	next := map[int32]int64{}
	for i := range int64(100) {
		q := int32(i % 3)
		n, err := x.Append(Entry{Position: Position(1<<32 + 4096 + 64*i), Queue: q, QueueOffset: next[q], GroupHash: uint64(i % 7)})
		if err != nil || n != i {
			t.Fatalf("got entry %d, %v, want %d", n, err, i)
		}
		next[q]++
	}
	for i := range int64(93) {
		e, err := x.Entry(i)
		if err != nil {
			t.Fatal(err)
		}
		if e.GroupHash != 0 && e.Next != i+7 || e.QueueNext != i+3 {
			t.Errorf("entry %d: got next %d and queue next %d, want %d and %d", i, e.Next, e.QueueNext, i+7, i+3)
		}
		if n, err := x.ByQueueOffset(e.Queue, e.QueueOffset); n != i || err != nil {
			t.Errorf("queue %d offset %d: got %d, %v, want %d", e.Queue, e.QueueOffset, n, err, i)
		}
	}
}
