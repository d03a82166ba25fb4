package store

import "fmt"

// makeRoomLocked sees to it that bytes and a seal fit at the tail, rolling to the next segment when they do not.
// Requires: mu held.
func (l *Log) makeRoomLocked(bytes int64, reserved bool) error {
	if l.off+bytes+sealBytes <= l.tail.size {
		return nil
	}
	next, err := prepareSegment(l.disk, l.dir, l.tail.id+1, max(l.o.SegmentBytes, segmentStart+bytes+sealBytes), l.meta.broker)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	l.segs.add(next)
	return l.rollLocked(next)
}

// rollLocked seals the tail and goes on in next, whose name is durable. Requires: mu held.
func (l *Log) rollLocked(next *segment) error {
	if err := l.appendOwnLocked(kindSeal, nil); err != nil {
		return err
	}
	l.tail, l.off = next, segmentStart
	return nil
}
