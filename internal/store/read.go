package store

import (
	"fmt"

	"github.com/keystrand/keystrand"
)

// Read returns the record at pos. sizeHint is the size of its body when known (0: unknown), so that one read is enough.
// The body is the caller's. Errors: keystrand.ErrCorrupt when the bytes there are not the record that was appended;
// keystrand.ErrRejected when pos is not below the end of the log.
func (l *Log) Read(pos Position, sizeHint int) (Record, error) {
	end := l.Appended()
	if pos >= end || pos.offset() < segmentStart {
		return Record{}, fmt.Errorf("read the log at %v: the log ends at %v: %w", pos, end, keystrand.ErrRejected)
	}
	s, err := l.segs.acquire(pos.segment())
	if err != nil {
		return Record{}, fmt.Errorf("read the log at %v: %w", pos, err)
	}
	defer l.segs.release(s)
	room := s.size - pos.offset()
	b := make([]byte, min(frameBytes(max(sizeHint, 0)), room))
	if len(b) < frameHeaderBytes {
		return Record{}, corrupt(pos, errWrongLength)
	}
	if err := readFull(s.file, b, pos.offset()); err != nil {
		return Record{}, fmt.Errorf("read the log at %v: %w", pos, err)
	}
	n, err := frameLength(b, pos, room)
	if err != nil {
		return Record{}, corrupt(pos, err)
	}
	if total := frameHeaderBytes + n; total > len(b) {
		whole := make([]byte, total)
		copied := copy(whole, b)
		if err := readFull(s.file, whole[copied:], pos.offset()+int64(copied)); err != nil {
			return Record{}, fmt.Errorf("read the log at %v: %w", pos, err)
		}
		b = whole
	}
	f, err := decodeFrame(b, l.seed, pos)
	if err != nil {
		return Record{}, corrupt(pos, err)
	}
	return Record{Kind: f.kind, Body: f.body[:n:n]}, nil
}

// Replay calls f for every record at or above from, in order, up to the end of the log. from is 0, the place of a record, or an
// end that Append returned. The body is valid during the call. An error of f ends the replay and is returned.
func (l *Log) Replay(from Position, f func(pos Position, r Record) error) error {
	end := l.Appended()
	if from > end {
		return fmt.Errorf("replay from %v: the log ends at %v, so durable records are missing: %w", from, end, keystrand.ErrCorrupt)
	}
	for pos := max(from, at(1, segmentStart)); pos < end; {
		next, err := l.replaySegment(pos, end, f)
		if err != nil {
			return err
		}
		pos = next
	}
	return nil
}

// replaySegment calls f for the records from pos to the end of its segment and returns where the log goes on.
func (l *Log) replaySegment(pos, end Position, f func(pos Position, r Record) error) (Position, error) {
	s, err := l.segs.acquire(pos.segment())
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	defer l.segs.release(s)
	w := newWindow(s, pos.offset())
	for pos < end {
		r, err := w.record(pos.offset(), l.seed)
		switch {
		case isBadPlace(err):
			return 0, fmt.Errorf("replay: %w", corrupt(pos, err))
		case err != nil:
			return 0, fmt.Errorf("replay at %v: %w", pos, err)
		case r.kind == kindSeal:
			return at(s.id+1, segmentStart), nil
		}
		if r.kind < firstOwnKind {
			if err := f(pos, Record{Kind: r.kind, Body: r.body}); err != nil {
				return 0, err
			}
		}
		pos += Position(r.bytes())
	}
	return pos, nil
}
