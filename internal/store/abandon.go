package store

import "errors"

// Abandon closes files and unlocks without marking the shutdown as clean: the owner's open failed after the log's, and
// the next start must recover as after a crash. Safe beside Close: the first of the two counts.
func (l *Log) Abandon() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		err := l.tasks.Stop()
		l.closeErr = errors.Join(err, l.marks.close(), l.segs.close(), l.lock.Unlock())
	})
	return l.closeErr
}
