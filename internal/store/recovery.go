package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Default sizes.
const (
	defaultFirstSegmentBytes = 1 << 20
	defaultSegmentBytes      = 64 << 20
	defaultFreeFloorBytes    = 64 << 20
)

func (o Options) complete() Options {
	if o.FirstSegmentBytes == 0 {
		o.FirstSegmentBytes = defaultFirstSegmentBytes
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.FreeFloorBytes == 0 {
		o.FreeFloorBytes = defaultFreeFloorBytes
	}
	smallest := int64(segmentStart) + 4096
	o.FirstSegmentBytes = min(max(o.FirstSegmentBytes, smallest), maxSegmentBytes) &^ 7
	o.SegmentBytes = min(max(o.SegmentBytes, smallest), maxSegmentBytes) &^ 7
	return o
}

// Open locks dir, recovers the log in it or makes a new one, and begins a new life of it. It can be stopped at any
// point and repeated.
//
// Errors: vfs.ErrLocked when another process has it; keystrand.ErrCorrupt when durable bytes are damaged or missing, with the
// place and what to do, and nothing changed.
func Open(disk vfs.FS, dir string, o Options) (*Log, error) {
	start := time.Now()
	if err := disk.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	lock, err := disk.Lock(dir + "/lock")
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", dir, err)
	}
	// The log's goroutines live from Open to Close, not as long as any call.
	l := &Log{disk: disk, dir: dir, o: o.complete(), lock: lock, flushWake: make(chan struct{}, 1), tasks: task.NewGroup(context.Background()), unchecked: spaceCheckBytes}
	if err := l.recover(); err != nil {
		err = fmt.Errorf("open the log in %s: %w", dir, err)
		if l.marks.file != nil {
			err = errors.Join(err, l.marks.close())
		}
		return nil, errors.Join(err, l.tasks.Stop(), l.segs.close(), lock.Unlock())
	}
	l.report.Took = time.Since(start)
	l.tasks.Go("log flusher", l.flush)
	return l, nil
}

// recover reads and judges, and only then changes anything.
func (l *Log) recover() error {
	ids, halves, err := l.listSegments()
	if err != nil {
		return err
	}
	if l.meta, err = openMeta(l.disk, l.dir, len(ids) > 0); err != nil {
		return err
	}
	l.seed = l.meta.seed()
	l.segs.disk, l.segs.dir, l.segs.broker = l.disk, l.dir, l.meta.broker
	mark, number, err := readMark(l.disk, l.dir, l.seed)
	if err != nil {
		return err
	}
	j, err := l.scan(ids, mark)
	if err != nil {
		return err
	}
	for _, name := range halves {
		if err := l.disk.Remove(l.dir + "/" + name); err != nil {
			return err
		}
		l.report.Problems = append(l.report.Problems, name+" was half made when the log stopped: removed")
	}
	if number == 0 && !l.meta.isFresh {
		l.report.Problems = append(l.report.Problems, "the file "+markName+" held no mark: only the records told what was durable")
	}
	if l.marks, err = openMarks(l.disk, l.dir, l.seed, number); err != nil {
		return err
	}
	// A name that is seen need not be durable: the life before may have ended between a rename and its sync.
	if err := l.disk.SyncDir(l.dir); err != nil {
		return err
	}
	if len(ids) == 0 {
		first, err := l.segs.prepare(l.tasks.Context(), 1, l.o.FirstSegmentBytes)
		if err != nil {
			return err
		}
		l.segs.add(first)
	}
	if err := l.repair(max(len(ids), 1), j); err != nil {
		return fmt.Errorf("repair the log's tail: %w", err)
	}
	return l.begin(j)
}

// listSegments returns the ids of the segments, which must have no hole, and the names of half-made ones.
func (l *Log) listSegments() (ids []uint32, halves []string, err error) {
	names, err := l.disk.List(l.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, segmentExt+".tmp") {
			halves = append(halves, name)
		}
		if id, ok := parseSegmentName(name); ok {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, k int) bool { return ids[i] < ids[k] })
	for i, id := range ids {
		if want := uint32(i + 1); id != want {
			return nil, nil, fmt.Errorf("log segment %d is missing, segment %d is there: %w; restore the file %s from a backup", want, id, keystrand.ErrCorrupt, segmentName(want))
		}
	}
	l.report.Segments = len(ids)
	return ids, halves, nil
}

func (l *Log) openSegments(ids []uint32) error {
	for _, id := range ids {
		s, err := openSegment(l.disk, l.dir, id, l.meta.broker)
		if err != nil {
			return fmt.Errorf("%w; restore the file from a backup", err)
		}
		l.segs.add(s)
	}
	return nil
}

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

// repair makes the disk say what the judge decided: what is kept above the known mark is written again, because after
// a failed sync the system may hold pages as clean that never reached the disk; everything from the end on is zeroed. Then all of
// it is synced, and only then it counts.
func (l *Log) repair(segments int, j *judge) error {
	first := max(min(j.known.segment(), j.end.segment()), 1)
	for id := first; int(id) <= segments; id++ {
		if err := l.repairSegment(id, j); err != nil {
			return err
		}
	}
	if l.report.CutBytes > 0 && j.why != nil {
		l.report.CutWhy = fmt.Sprintf("%v at %v", j.why, j.broken)
	}
	return nil
}

func (l *Log) repairSegment(id uint32, j *judge) error {
	s, err := l.segs.acquire(id)
	if err != nil {
		return err
	}
	defer l.segs.release(s)
	keepFrom, keepTo := int64(segmentStart), int64(segmentStart)
	switch {
	case id < j.end.segment():
		keepTo = s.size
	case id == j.end.segment():
		keepTo = j.end.offset()
	}
	if id == j.known.segment() {
		keepFrom = max(j.known.offset(), keepFrom)
	}
	if err := rewrite(s, keepFrom, keepTo); err != nil {
		return err
	}
	cut, err := zero(s, keepTo)
	if err != nil {
		return err
	}
	l.report.CutBytes += cut
	return s.file.Sync()
}

func rewrite(s *segment, from, to int64) error {
	w := newWindow(s, from)
	for from < to {
		b, err := w.bytes(from, 1)
		if err != nil {
			return err
		}
		b = b[:min(int64(len(b)), to-from)]
		if _, err := writeFull(s.file, b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}

// zero clears a segment from an offset on, touching only what is not zero, and returns how many bytes that was.
func zero(s *segment, from int64) (int64, error) {
	w := newWindow(s, from)
	var cut int64
	for from < s.size {
		b, err := w.bytes(from, 1)
		if err != nil {
			return cut, err
		}
		last := len(b)
		for last > 0 && b[last-1] == 0 {
			last--
		}
		if last > 0 {
			if err := writeZeros(s.file, from, int64(last)); err != nil {
				return cut, err
			}
			cut += int64(last)
		}
		from += int64(len(b))
	}
	return cut, nil
}

// begin opens a new life at the end of the log.
func (l *Log) begin(j *judge) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs.pin(j.end.segment())
	tail, err := l.segs.acquire(j.end.segment())
	if err != nil {
		return err
	}
	l.tail, l.off = tail, j.end.offset()
	l.epoch, l.clean = j.epoch+1, j.clean || l.meta.isFresh
	l.appended.Store(uint64(j.end))
	l.durable.Store(uint64(j.end))
	if err := l.makeRoomLocked(frameBytes(0), true); err != nil {
		return err
	}
	if err := l.appendOwnLocked(kindLife, nil); err != nil {
		return err
	}
	return l.syncTo(l.Appended())
}
