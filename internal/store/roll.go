package store

import (
	"context"
	"fmt"
)

// spaceCheckBytes is how much is appended between two looks at the free space, while there is enough.
const spaceCheckBytes = 1 << 20

// makeRoomLocked sees to it that bytes and a seal fit at the tail, rolling to the next segment when they do not.
// Requires: mu held.
func (l *Log) makeRoomLocked(bytes int64, reserved bool) error {
	low := l.lowSpaceLocked(bytes)
	if low && !reserved {
		return fmt.Errorf("%w: less than %d bytes are free in %s; free some, or lower the floor", ErrNoSpace, l.o.FreeFloorBytes, l.dir)
	}
	for l.off+bytes+sealBytes > l.tail.size {
		next, err := l.nextLocked(max(l.nextSize(), segmentStart+bytes+sealBytes))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
		// A spare that is too small for this batch is passed through: sealed empty.
		if err := l.rollLocked(next); err != nil {
			return err
		}
	}
	if low || l.tail.id > 1 || l.off+bytes > l.tail.size/4 {
		l.prepareLocked()
	}
	return nil
}

// lowSpaceLocked tells whether the disk is at its floor. It asks every spaceCheckBytes, and each time while it is low.
// When the disk does not answer, the last answer stands. Requires: mu held.
func (l *Log) lowSpaceLocked(bytes int64) bool {
	l.unchecked += bytes
	if l.low || l.unchecked >= spaceCheckBytes {
		l.unchecked = 0
		if free, err := l.disk.Free(l.dir); err == nil {
			l.low = free < l.o.FreeFloorBytes
		}
	}
	return l.low
}

// nextSize is the size of the segment after the tail: double, up to SegmentBytes, so that a small log stays small and
// the next one is made in less time than the tail takes to fill.
func (l *Log) nextSize() int64 {
	if l.tail.size >= l.o.SegmentBytes {
		return l.o.SegmentBytes
	}
	return min(l.tail.size*2, l.o.SegmentBytes)
}

// preparation makes one segment in the background. When done is closed the segment is there, or it failed; then whoever
// needs the segment tries again and gets the error.
type preparation struct{ done chan struct{} }

// prepareLocked starts making the segment after the tail, unless it is there or being made. It begins when a quarter of
// the first segment is used, so that a log that stays small costs no second one, and later at once. At the floor that segment is the reserve. Requires: mu held.
func (l *Log) prepareLocked() {
	if l.closed || l.segs.has(l.tail.id+1) {
		return
	}
	if p := l.coming; p != nil {
		select {
		case <-p.done:
		default:
			return
		}
		// It failed. Another try costs the disk a whole segment, so it waits until a sixteenth more is used; who needs the
		// segment before that makes it himself.
		if l.off < l.retryAt {
			return
		}
	}
	l.retryAt = l.off + l.tail.size/16
	id, size := l.tail.id+1, l.nextSize()
	p := &preparation{done: make(chan struct{})}
	l.coming = p
	l.tasks.Go("log segment preparation", func(ctx context.Context) error {
		defer close(p.done)
		if made, err := l.segs.prepare(ctx, id, size); err == nil {
			l.segs.add(made)
		}
		return nil
	})
}

// nextLocked returns the segment after the tail, acquired: the spare, the one being made, or one made now with size
// bytes. Requires: mu held.
func (l *Log) nextLocked(size int64) (*segment, error) {
	if l.coming != nil {
		<-l.coming.done // ends with the log's tasks at the latest
		l.coming = nil
	}
	id := l.tail.id + 1
	if !l.segs.has(id) {
		// The group's context would have ended when Close makes room for its last record.
		made, err := l.segs.prepare(context.WithoutCancel(l.tasks.Context()), id, size)
		if err != nil {
			return nil, err
		}
		l.segs.add(made)
	}
	return l.segs.acquire(id)
}

// rollLocked seals the tail and goes on in next, whose name is durable. Requires: mu held.
func (l *Log) rollLocked(next *segment) error {
	if err := l.appendOwnLocked(kindSeal, nil); err != nil {
		l.segs.release(next)
		return err
	}
	l.segs.release(l.tail)
	l.tail, l.off, l.retryAt = next, segmentStart, 0
	return nil
}
