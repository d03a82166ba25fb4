package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/keystrand/keystrand"
)

// Checkpoint makes everything appended until now durable and returns the position of its last entry. It may be called from any
// goroutine; Append goes on meanwhile and waits for no sync. After an error of the disk the index stays usable and takes
// no further checkpoint: what the disk holds is known only after the next Open, and the log has everything.
func (x *Index) Checkpoint() (Position, error) { return x.CheckpointUpTo(0) }

// CheckpointUpTo is Checkpoint by an owner who knows that every record below upTo was appended: a replay may start there, also
// when the topic's last message is far below. An unchanged index is written again only when that moved by a segment.
func (x *Index) CheckpointUpTo(upTo Position) (Position, error) {
	x.upkeep.Lock()
	defer x.upkeep.Unlock()
	if x.unsynced != nil {
		return 0, fmt.Errorf("checkpoint of the index of topic %d: %w", x.topic, x.unsynced)
	}
	m, err := x.capture(upTo)
	if err != nil {
		return 0, err
	}
	if m == nil {
		return x.onDisk.whole, nil
	}
	if err := x.writeManifest(m); err != nil {
		x.unsynced = err
		return 0, fmt.Errorf("checkpoint of the index of topic %d: %w", x.topic, err)
	}
	return m.whole, nil
}

// idleStep is how far a replay's start may lag behind before an unchanged index is written again.
const idleStep = 1 << 32

// capture gives the pages to the file and returns what the manifest must say of this moment; nil when the disk says so
// already. Requires: upkeep held.
func (x *Index) capture(upTo Position) (*manifest, error) {
	x.mu.Lock()
	for x.table.mem.len() > x.limits.inlinePairs || x.table.frozen != nil {
		if err := x.usableLocked(); err != nil {
			x.mu.Unlock()
			return nil, err
		}
		if x.table.frozen == nil {
			x.startFreezeLocked()
		}
		x.mu.Unlock()
		if err := x.settle(); err != nil {
			return nil, err
		}
		x.mu.Lock()
	}
	defer x.mu.Unlock()
	if x.bad != nil {
		return nil, x.bad
	}
	if err := x.pages.flush(); err != nil {
		return nil, err
	}
	whole := max(upTo, x.last, x.onDisk.whole)
	if x.onDisk.key == x.key && x.onDisk.count == x.count && whole < x.onDisk.whole+idleStep {
		x.pages.shrink()
		return nil, nil
	}
	m := &manifest{
		topic: x.topic, key: x.key, count: x.count, last: x.last, whole: whole, nextID: x.table.nextID,
		queues: maps.Clone(x.queues), pairs: x.table.mem.sorted(),
	}
	for _, r := range x.table.runs {
		m.runs = append(m.runs, r.id)
	}
	return m, nil
}

// writeManifest syncs what m names and then puts m in place. Requires: upkeep held.
func (x *Index) writeManifest(m *manifest) error {
	if err := x.pages.file.Sync(); err != nil {
		return err
	}
	if err := x.disk.SyncDir(x.dir); err != nil {
		return err
	}
	if err := writeAside(x.disk, x.dir, manifestName, m.encode()); err != nil {
		return err
	}
	gone := x.onDisk.runs
	x.onDisk = *m
	for _, id := range gone {
		if !slices.Contains(m.runs, id) {
			if err := x.disk.Remove(x.dir + "/" + runName(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// settle writes the frozen pairs as a run and merges runs that are due. An error makes the index bad. Requires: upkeep held.
func (x *Index) settle() error {
	err := x.writeFrozen()
	for err == nil {
		var more bool
		if more, err = x.mergeOnce(); !more {
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && x.bad == nil {
		x.bad = fmt.Errorf("write the index of topic %d: %w: %w", x.topic, keystrand.ErrRetryLater, err)
	}
	x.flushed.Broadcast()
	return err
}

func (x *Index) writeFrozen() error {
	x.mu.Lock()
	frozen, id := x.table.frozen, x.table.nextID
	x.table.nextID++
	x.mu.Unlock()
	if frozen == nil {
		return nil
	}
	r, err := x.table.write(id, fromSlice(frozen.sorted()))
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.runs = append(x.table.runs, r)
	x.table.frozen, x.table.older = nil, frozen.tails
	return nil
}

// mergeOnce merges the newest runs when they are due and tells whether it did.
func (x *Index) mergeOnce() (bool, error) {
	x.mu.Lock()
	due := x.table.due()
	old := slices.Clone(x.table.runs[len(x.table.runs)-due:])
	id := x.table.nextID
	x.table.nextID++
	x.mu.Unlock()
	if due == 0 {
		return false, nil
	}
	r, err := x.table.write(id, merged(old))
	if err != nil {
		return false, err
	}
	x.mu.Lock()
	x.table.runs = append(x.table.runs[:len(x.table.runs)-due:len(x.table.runs)-due], r)
	x.mu.Unlock()
	for _, o := range old {
		err = errors.Join(err, o.file.Close())
		if !slices.Contains(x.onDisk.runs, o.id) {
			err = errors.Join(err, x.disk.Remove(x.dir+"/"+runName(o.id)))
		}
	}
	return true, err
}

// CheckpointPosition is where a replay must start at the latest: everything below was appended before the last checkpoint. 0: there
// was none.
func (x *Index) CheckpointPosition() Position {
	x.upkeep.Lock()
	defer x.upkeep.Unlock()
	return x.onDisk.whole
}

// DropFrom forgets the entries at or above pos, durably. The owner calls it after Open with Log.RecoveredEnd: an index whose
// checkpoint went further than the log's last durable record holds entries of messages that a power loss took.
func (x *Index) DropFrom(pos Position) error {
	x.mu.Lock()
	dropped, err := x.dropLocked(pos)
	if err != nil {
		err = x.distrustLocked(err)
	}
	x.mu.Unlock()
	if err != nil || !dropped {
		return err
	}
	x.upkeep.Lock()
	x.onDisk.whole = min(x.onDisk.whole, pos) // so that it may move back
	x.onDisk.count = -1
	x.upkeep.Unlock()
	_, err = x.Checkpoint()
	return err
}

func (x *Index) dropLocked(pos Position) (bool, error) {
	if err := x.usableLocked(); err != nil {
		return false, err
	}
	dropped := false
	for x.count > 0 && x.last >= pos {
		n := x.count - 1
		e, err := x.entryLocked(n)
		if err != nil {
			return dropped, err
		}
		tail := x.queues[e.Queue]
		tail.next, tail.last = e.QueueOffset, NoEntry
		if e.GroupHash != 0 {
			x.table.mem.put(newPair(tailKey(e.GroupHash), pairTail, e.Prev))
		} else {
			tail.alone = e.Prev
		}
		if e.QueueOffset > 0 {
			if tail.last, err = x.walkToLocked(e.Queue, e.QueueOffset-1); err != nil {
				return dropped, err
			}
		}
		x.queues[e.Queue] = tail
		x.count, x.last = n, 0
		if n > 0 {
			before, err := x.entryLocked(n - 1)
			if err != nil {
				return dropped, err
			}
			x.last = before.Position
		}
		dropped = true
	}
	x.held, x.putBelow = 0, min(x.putBelow, x.count)
	return dropped, nil
}
