package store

import "sync"

// waits wakes those who wait for the durable mark and holds the log's failure.
type waits struct {
	mu      sync.Mutex // guards the fields below
	next    chan struct{}
	failure error
}

// changed returns a channel that is closed at the next change of the mark or at the failure.
func (w *waits) changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = make(chan struct{})
	}
	return w.next
}

// wake ends the present waits.
func (w *waits) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked()
}

func (w *waits) wakeLocked() {
	if w.next != nil {
		close(w.next)
		w.next = nil
	}
}

// fail keeps the first error and tells whether this was the first.
func (w *waits) fail(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return false
	}
	w.failure = err
	w.wakeLocked()
	return true
}

func (w *waits) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}
