package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Log is the one log. Append has one caller at a time; everything else is safe from any goroutine.
//
// Invariant: durable <= appended; visible is durable, or appended when SyncInterval is set.
// Invariant: bytes below durable were covered by a successful sync; epochs never fall along the log.
type Log struct {
	disk   vfs.FS
	dir    string
	o      Options
	meta   meta
	seed   uint32
	epoch  uint32
	clean  bool
	report RecoveryReport
	lock   vfs.Unlocker
	tasks  *task.Group
	segs   segments
	marks  markFile // the flusher's, after Open

	appended, durable atomic.Uint64

	mu        sync.Mutex // guards the tail: what Append, the roll and Close change
	tail      *segment   // acquired
	off       int64
	buf       []byte
	closed    bool
	coming    *preparation
	retryAt   int64 // offset from which a failed preparation is tried again
	unchecked int64 // bytes since the last look at the free space
	low       bool

	flushWake chan struct{} // holds one wake-up for the flusher
	waits     waits

	endOnce sync.Once
	endErr  error
}

// RecoveryReport says what Open found.
type RecoveryReport struct {
	Segments int           `json:"segments"`
	Records  int64         `json:"records"` // checked by this Open; older segments are checked when read
	End      Position      `json:"end"`     // of the log that was found
	Known    Position      `json:"known"`   // everything below was known to be durable
	CutBytes int64         `json:"cut_bytes"`
	CutWhy   string        `json:"cut_why,omitempty"`
	Problems []string      `json:"problems,omitempty"` // noticed and harmless
	Took     time.Duration `json:"took"`
}

// Append adds a batch as one atomic step and wakes the flusher. The bodies are copied.
//
// Errors: ErrNoSpace and keystrand.ErrTooLarge, keystrand.ErrClosed, keystrand.ErrReadOnly when nothing was appended;
// keystrand.ErrUnknown when this very write failed.
func (l *Log) Append(batch []Record, reserved bool) ([]Position, Position, error) {
	bytes, err := batchBytes(batch)
	if err != nil {
		return nil, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.waits.err(); err != nil {
		return nil, 0, fmt.Errorf("append %d records: %w", len(batch), readOnly(err))
	}
	if l.closed {
		return nil, 0, fmt.Errorf("append %d records to the log: %w", len(batch), keystrand.ErrClosed)
	}
	if err := l.makeRoomLocked(bytes, reserved); err != nil {
		return nil, 0, fmt.Errorf("append %d records: %w", len(batch), err)
	}
	places := l.encodeLocked(batch)
	if err := l.writeLocked(); err != nil {
		return nil, 0, err
	}
	l.wakeFlusher()
	return places, Position(l.appended.Load()), nil
}

// MaxBatchBytes is how large a batch may be on disk.
const MaxBatchBytes = 1 << 29

func batchBytes(batch []Record) (int64, error) {
	if len(batch) == 0 {
		return 0, fmt.Errorf("append an empty batch: %w", keystrand.ErrRejected)
	}
	var bytes int64
	for i := range batch {
		if k := batch[i].Kind; k == 0 || k >= firstOwnKind {
			return 0, fmt.Errorf("record %d of the batch has kind %d, allowed are 1 to %d: %w", i, k, firstOwnKind-1, keystrand.ErrRejected)
		}
		bytes += frameBytes(len(batch[i].Body))
	}
	if bytes > MaxBatchBytes {
		return 0, fmt.Errorf("a batch of %d bytes, the limit is %d: %w", bytes, MaxBatchBytes, keystrand.ErrTooLarge)
	}
	return bytes, nil
}

// encodeLocked puts the batch's bytes for the tail into buf. Requires: mu held and room made.
func (l *Log) encodeLocked(batch []Record) []Position {
	places := make([]Position, len(batch))
	l.buf = l.buf[:0]
	durable := Position(l.durable.Load())
	for i := range batch {
		places[i] = at(l.tail.id, l.off+int64(len(l.buf)))
		l.buf = appendFrame(l.buf, l.seed, &frame{
			kind: batch[i].Kind, more: i < len(batch)-1, epoch: l.epoch,
			place: places[i], durable: durable, body: batch[i].Body,
		})
	}
	return places
}

// keptBufferBytes: a larger batch's buffer is given back to the collector.
const keptBufferBytes = 1 << 20

// writeLocked writes buf at the tail and moves the appended mark. A failure makes the log read-only, because nobody
// knows how much of it will be found again. Requires: mu held.
func (l *Log) writeLocked() error {
	if _, err := writeFull(l.tail.file, l.buf, l.off); err != nil {
		err = fmt.Errorf("write %d bytes at %v of the log: %w", len(l.buf), at(l.tail.id, l.off), err)
		l.fail(err)
		return fmt.Errorf("%w: %w", keystrand.ErrUnknown, err)
	}
	l.off += int64(len(l.buf))
	if cap(l.buf) > keptBufferBytes {
		l.buf = nil
	}
	l.appended.Store(uint64(at(l.tail.id, l.off)))
	return nil
}

// appendOwnLocked appends one record of the log's own. Requires: mu held, room.
func (l *Log) appendOwnLocked(kind Kind, body []byte) error {
	l.buf = appendFrame(l.buf[:0], l.seed, &frame{
		kind: kind, epoch: l.epoch, place: at(l.tail.id, l.off), durable: Position(l.durable.Load()), body: body,
	})
	return l.writeLocked()
}

// Appended is the end of the log. Durable is the end of what a successful sync covered. Visible is what may be delivered.
func (l *Log) Appended() Position { return Position(l.appended.Load()) }

// Durable is described at Appended.
func (l *Log) Durable() Position { return Position(l.durable.Load()) }

// Visible is described at Appended.
func (l *Log) Visible() Position {
	if l.o.SyncInterval > 0 {
		return l.Appended()
	}
	return l.Durable()
}

// Epoch is the life of this log, one more than any before; durable when Open returned.
func (l *Log) Epoch() uint32 { return l.epoch }

// Clean tells whether the life before this one ended with Close.
func (l *Log) Clean() bool { return l.clean }

// BrokerID is made with the directory and never changes: 16 hex digits.
func (l *Log) BrokerID() string { return l.meta.brokerID() }

// HashKey is the secret SipHash key made with the directory.
func (l *Log) HashKey() (k0, k1 uint64) { return l.meta.key0, l.meta.key1 }

// Report says what Open found.
func (l *Log) Report() RecoveryReport { return l.report }

// RecoveredEnd is the end of the log that Open found, after the cut and before anything of this life: what an index has
// at or above it is of records that are gone.
func (l *Log) RecoveredEnd() Position { return l.report.End }

// Err is why the log is read-only, or nil.
func (l *Log) Err() error { return l.waits.err() }

// fail makes the log read-only, once.
func (l *Log) fail(err error) {
	if l.waits.fail(err) && l.o.OnFailed != nil {
		l.o.OnFailed(err)
	}
}

func readOnly(why error) error { return fmt.Errorf("%w: %w", keystrand.ErrReadOnly, why) }

// WaitDurable returns when everything below end is durable. Error: keystrand.ErrUnknown when the log failed before that;
// the context's error when it ended first.
func (l *Log) WaitDurable(ctx context.Context, end Position) error {
	for {
		changed := l.waits.changed()
		if l.Durable() >= end {
			return nil
		}
		if err := l.waits.err(); err != nil {
			return fmt.Errorf("wait for position %v of the log: %w: %w", end, keystrand.ErrUnknown, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close syncs, marks the stop as clean unless the log failed, ends its goroutines and gives the lock back. It is safe
// twice and returns the first call's error.
func (l *Log) Close() error { return l.end(true) }

// Abandon is Close without the mark: the owner's open failed after the log's, and the next start must recover as after a
// crash. Of Close and Abandon the first counts.
func (l *Log) Abandon() error { return l.end(false) }

func (l *Log) end(clean bool) error {
	l.endOnce.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		err := l.tasks.Stop() // the flusher syncs once more before it ends
		if clean && l.waits.err() == nil {
			err = errors.Join(err, l.markClean())
		}
		l.waits.fail(keystrand.ErrClosed)
		l.endErr = errors.Join(err, l.marks.close(), l.segs.close(), l.lock.Unlock())
	})
	return l.endErr
}

// markClean appends the clean record, whose durable mark covers all records before it.
func (l *Log) markClean() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Durable() < l.Appended() {
		return fmt.Errorf("close the log: records up to %v are not durable: %w", l.Appended(), keystrand.ErrUnknown)
	}
	if err := l.makeRoomLocked(frameBytes(0), true); err != nil {
		return err
	}
	if err := l.appendOwnLocked(kindClean, nil); err != nil {
		return err
	}
	if err := l.syncTo(l.Appended()); err != nil {
		return err
	}
	return l.marks.sync()
}
