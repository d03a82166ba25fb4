package history

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// Recorder appends the events of one process to a file of its own, one write call each, so that a SIGKILL loses no
// event that anything depended on. Safe from any goroutine.
//
// Invariant: the stamps in the file never fall.
type Recorder struct {
	process uint32

	mu      sync.Mutex // guards all below; held across the write, so that stamps and lines have one order
	file    *os.File
	buf     []byte
	last    int64
	counter uint64
	err     error
}

// NewRecorder makes the file path, which must not exist, for the process numbered process, 1 to 400,000. Each process
// of a run, also each restart of one, has its own number and file.
func NewRecorder(path string, process uint32) (*Recorder, error) {
	if process == 0 || process > 400_000 {
		return nil, fmt.Errorf("history of process %d: the number must be 1 to 400000", process)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open history of process %d: %w", process, err)
	}
	return &Recorder{process: process, file: file}, nil
}

// Process is the number given to NewRecorder.
func (r *Recorder) Process() uint32 { return r.process }

// Worker is the logical process n of this process, 0 to WorkersPerProcess-1: something that does one operation at a time.
func (r *Recorder) Worker(n int) *Worker {
	return &Worker{recorder: r, p: r.process*WorkersPerProcess + uint32(n)%WorkersPerProcess}
}

// write stamps e and appends it. Returns the stamp.
func (r *Recorder) write(e *Event) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.T = max(Now(), r.last)
	r.last = e.T
	if r.err != nil {
		return e.T
	}
	r.buf = Append(r.buf[:0], e)
	if _, err := r.file.Write(r.buf); err != nil {
		// A history with a hole must not be judged: the error is kept, and Close reports it.
		r.err = fmt.Errorf("append to history of process %d: %w", r.process, err)
	}
	return e.T
}

func (r *Recorder) nextOp() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter++
	return uint64(r.process)<<32 | r.counter&0xffffffff
}

// Err is the first error of a write; a history with one must not be judged.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close closes the file and returns the first error of any write. Safe twice.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.err = errors.Join(r.err, r.file.Close())
		r.file = nil
	}
	if r.err == nil {
		r.err = errClosed
		return nil
	}
	if r.err == errClosed {
		return nil
	}
	return r.err
}

var errClosed = errors.New("history is closed")
