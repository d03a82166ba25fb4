// Package tape records the history of a measured run in memory and writes it out afterwards. The recorder of package
// history makes a system call for each event, so that a killed process loses none; nothing is killed in a benchmark, and at
// 25,000 messages a second five calls a message would be a quarter of a core of the two that are measured.
package tape

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/keystrand/keystrand/internal/history"
)

// Tape holds events as encoded lines. Safe from any goroutine.
//
// Invariant: the stamps on the tape never fall.
type Tape struct {
	process uint32
	base    int64     // history.Now() at start
	start   time.Time // read at the same time

	mu     sync.Mutex // guards all below
	full   [][]byte   // chunks of whole lines
	chunk  []byte
	last   int64
	ops    uint64
	events int
}

const chunkBytes = 1 << 20

// New makes the tape of the process with this number in the history.
func New(process uint32) *Tape {
	return &Tape{process: process, base: history.Now(), start: time.Now(), chunk: make([]byte, 0, chunkBytes)}
}

// now is history.Now without its system call: package time reads the same monotonic clock from memory.
func (t *Tape) now() int64 { return t.base + int64(time.Since(t.start)) }

// Put stamps an event of worker and takes it. Returns the stamp.
func (t *Tape) Put(worker int, e *history.Event) int64 {
	e.P = t.process*history.WorkersPerProcess + uint32(worker)%history.WorkersPerProcess
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.putLocked(e)
}

func (t *Tape) putLocked(e *history.Event) int64 {
	e.T = max(t.now(), t.last)
	t.last = e.T
	const longestLine = 4096 // a line of a benchmark has 200 to 400 bytes
	if cap(t.chunk)-len(t.chunk) < longestLine {
		t.full = append(t.full, t.chunk)
		t.chunk = make([]byte, 0, chunkBytes)
	}
	t.chunk = history.Append(t.chunk, e)
	t.events++
	return e.T
}

// Invoke takes the beginning of an operation and gives it its number.
func (t *Tape) Invoke(worker int, e *history.Event) {
	e.P = t.process*history.WorkersPerProcess + uint32(worker)%history.WorkersPerProcess
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ops++
	e.Op = uint64(t.process)<<32 | t.ops&0xffffffff
	t.putLocked(e)
}

// End takes the end of an operation that Invoke began: e is the invoke's event.
func (t *Tape) End(worker int, e *history.Event, err error) {
	e.Since, e.Dur, e.Sum = 0, 0, 0
	e.E++ // the kinds of an operation stand in the order invoke, ok, fail, info
	if err != nil {
		e.E += 2
		e.Err = err.Error()
	}
	t.Put(worker, e)
}

// Events is how many events there are.
func (t *Tape) Events() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events
}

// Judge notes that everything was consumed, writes the tape to path and judges it. The error says that the verdict is not
// pass, and why. Requires: nothing moves any more.
func (t *Tape) Judge(path string) (*history.Report, error) {
	for _, kind := range []history.Kind{history.DrainBegin, history.DrainEnd} {
		e := Event(kind)
		t.Put(0, &e)
	}
	if err := t.write(path); err != nil {
		return nil, fmt.Errorf("write history: %w", err)
	}
	report, err := history.Check([]string{path}, history.Options{})
	if err != nil {
		return nil, err
	}
	if report.Verdict != history.Pass {
		return report, fmt.Errorf("history %s: verdict %s, violations %v, unknown %v; see keystrand check", path, report.Verdict, report.Violations, report.Unknown)
	}
	return report, nil
}

func (t *Tape) write(path string) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for _, chunk := range append(t.full, t.chunk) {
		if _, err := file.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// Event is an event that says nothing yet but its kind.
func Event(kind history.Kind) history.Event {
	return history.Event{E: kind, Queue: -1, Offset: -1, Seq: -1}
}

// SendEvent begins the record of a send.
func SendEvent(m history.Message) history.Event {
	e := Event(history.SendInv)
	e.Topic, e.Key, e.ID, e.Version, e.Sum = m.Topic, m.Key, m.ID, m.Version, m.Sum
	return e
}
