package store

import (
	"context"
	"fmt"
	"time"
)

// flush is the one flusher: the next sync begins the moment the last one returned, and covers everything appended
// meanwhile. With SyncInterval it begins at most that long after the first append it covers. There is no delay knob
// beside it: a sync under way is the only timer that helps.
func (l *Log) flush(ctx context.Context) error {
	for {
		select {
		case <-l.flushWake:
		case <-ctx.Done():
			return l.flushAll()
		}
		if l.o.SyncInterval > 0 {
			timer := time.NewTimer(l.o.SyncInterval)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if err := l.flushAll(); err != nil {
			return nil // the log is read-only; whoever waits has been told by fail
		}
	}
}

func (l *Log) flushAll() error {
	for l.Durable() < l.Appended() {
		if err := l.waits.err(); err != nil {
			return err
		}
		if err := l.syncTo(l.Appended()); err != nil {
			return err
		}
	}
	return nil
}

// syncTo makes everything below end durable. After an error nothing is: the pages may count as clean now, so a second
// try would succeed without having written them.
func (l *Log) syncTo(end Position) error {
	for id := l.Durable().segment(); id <= end.segment() && !l.o.SkipSync; id++ {
		if err := l.syncSegment(id); err != nil {
			err = fmt.Errorf("sync log segment %d: %w", id, err)
			l.fail(err)
			return err
		}
	}
	l.durable.Store(uint64(end))
	l.segs.pin(end.segment())
	if err := l.marks.put(end, l.epoch); err != nil {
		l.fail(err)
		return err
	}
	l.waits.wake()
	if l.o.OnDurable != nil {
		l.o.OnDurable(end)
	}
	return nil
}

func (l *Log) syncSegment(id uint32) error {
	s, err := l.segs.acquire(id)
	if err != nil {
		return err
	}
	defer l.segs.release(s)
	return s.file.Sync()
}

func (l *Log) wakeFlusher() {
	select {
	case l.flushWake <- struct{}{}:
	default: // one wake-up is waiting already, and it will see this append
	}
}
