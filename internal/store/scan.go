package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/keystrand/keystrand"
)

// scan reads from the segment that holds the mark to the end of the last one and returns what may be cut. Segments
// before it were durable as a whole; their records are checked when they are read.
func (l *Log) scan(ids []uint32, mark Position) (*judge, error) {
	if len(ids) == 0 {
		if mark > 0 {
			return nil, fmt.Errorf("there is no segment, but the log was durable up to %v: %w; restore the directory from a backup", mark, keystrand.ErrCorrupt)
		}
		l.report.End = at(1, segmentStart)
		return &judge{end: l.report.End}, nil
	}
	first := max(mark.segment(), 1)
	l.segs.pin(first)
	if err := l.openSegments(ids); err != nil {
		return nil, err
	}
	j := &judge{known: mark, end: at(first, segmentStart)}
	for id := first; int(id) <= len(ids); id++ {
		if err := l.scanSegment(id, j); err != nil {
			return nil, fmt.Errorf("read log segment %d: %w", id, err)
		}
	}
	if gone := max(j.end.segment(), first); int(gone) > len(ids) {
		return nil, fmt.Errorf("log segment %d is missing, but the log went on in it (durable up to %v): %w; restore the file %s from a backup",
			gone, j.known, keystrand.ErrCorrupt, segmentName(gone))
	}
	l.report.Records, l.report.End, l.report.Known = j.records, j.end, j.known
	return j, j.verdict()
}

func (l *Log) scanSegment(id uint32, j *judge) error {
	s, err := l.segs.acquire(id)
	if err != nil {
		return err
	}
	defer l.segs.release(s)
	return scanSegment(s, l.seed, j)
}

// scanSegment feeds one segment to the judge: its records while the chain holds, then whatever whole records stand anywhere.
func scanSegment(s *segment, seed uint32, j *judge) error {
	w := newWindow(s, segmentStart)
	off := int64(segmentStart)
	for j.why == nil && off < s.size {
		f, err := w.record(off, seed)
		if err == nil {
			err = j.record(&f)
		}
		switch {
		case err == nil && f.kind == kindSeal:
			return nil
		case err == nil:
			off += f.bytes()
		case isBadPlace(err):
			j.breaks(at(s.id, off), err)
		default:
			return err
		}
	}
	if j.why == nil {
		j.breaks(at(s.id, off), errNoRecord) // full to the last byte, without the seal that always fits
	}
	for ; off+frameHeaderBytes <= s.size; off += 8 {
		b, err := w.bytes(off, frameHeaderBytes)
		if err != nil {
			return err
		}
		if len(b) >= zeroStep && b[0] == 0 && bytes.Equal(b[:zeroStep], zeros[:zeroStep]) {
			off += zeroStep - 8 - frameHeaderBytes // a record may begin in the last bytes: its first ones can be zeros
			continue
		}
		if Position(binary.LittleEndian.Uint64(b[8:])) != at(s.id, off) {
			continue
		}
		f, err := w.record(off, seed)
		if err == nil {
			j.stray(&f)
		} else if !isBadPlace(err) {
			return err
		}
	}
	return nil
}

// zeroStep is how many zeros are passed over at once when looking for records beyond the end.
const zeroStep = 4096

// errBatchCut: a record of the log's own stands inside a batch.
var errBatchCut = errors.New("the batch before is not whole")

func isBadPlace(err error) bool {
	for _, bad := range []error{errNoRecord, errWrongPlace, errWrongSum, errWrongLength, errOldEpoch, errVersion, errBatchCut} {
		if errors.Is(err, bad) {
			return true
		}
	}
	return false
}
