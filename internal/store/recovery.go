package store

import (
	"context"
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
// Errors: *DirectoryError when the directory is another broker's (keystrand.ErrLocked) or cannot be one; keystrand.ErrCorrupt when durable bytes are damaged or missing, with the
// place and what to do, and nothing changed.
func Open(disk vfs.FS, dir string, o Options) (*Log, error) {
	start := time.Now()
	if err := disk.MkdirAll(dir); err != nil {
		return nil, directoryError(dir, err)
	}
	if err := refuseForeign(disk, dir); err != nil {
		return nil, err
	}
	lock, err := disk.Lock(dir + "/lock")
	if err != nil {
		return nil, directoryError(dir, err)
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

// refuseForeign keeps the log out of a directory that holds someone's files. A first start that was cut off leaves the lock
// and a half-made meta, nothing else; segments without a meta are a log's, and recover says what is wrong with it.
func refuseForeign(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if err != nil {
		return directoryError(dir, err)
	}
	other := ""
	for _, name := range names {
		if _, isSegment := parseSegmentName(name); isSegment || name == "meta" {
			return nil
		}
		switch name {
		case "lock", "meta.tmp", "lost+found": // the last stands at the root of a fresh file system
		default:
			other = name
		}
	}
	if other == "" {
		return nil
	}
	return &DirectoryError{
		Dir: dir, class: keystrand.ErrRejected, cause: errForeign,
		text: fmt.Sprintf("data directory %q holds other files (%s) and no broker's data; give an empty or a new directory with --data (DataDir)", dir, other),
	}
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
