package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/keystrand/keystrand/internal/task"
)

const (
	maxLineBytes = 64 << 10
	batchEvents  = 512 // events decoded at once per file
	batchesAhead = 2   // batches that wait per file: the bound of what is decoded and not judged
)

// Read calls f with every event of the files, merged by (T, P) and numbered from 1. A last line without newline is the
// mark of a killed process: it is passed over and counted. The event is valid during the call only.
func Read(files []string, f func(*Event) error) (torn int, err error) {
	group := task.NewGroup(context.Background()) // ends before Read returns
	sources := make([]*source, 0, len(files))
	for _, path := range files {
		s := &source{path: path, batches: make(chan []Event, batchesAhead), free: make(chan []Event, batchesAhead+1)}
		sources = append(sources, s)
		group.Go("history "+path, s.run)
	}
	err = merge(sources, f)
	stopErr := group.Stop()
	for _, s := range sources {
		torn += s.torn
	}
	return torn, errors.Join(err, stopErr)
}

// source decodes one file ahead of the merge.
type source struct {
	path    string
	batches chan []Event // closed at the end of the file
	free    chan []Event // batches to use again
	torn    int          // written by run, read after it ended
	err     error        // likewise, visible once batches is closed

	batch []Event // owned by merge, as is at
	at    int
}

func (s *source) run(ctx context.Context) error {
	defer close(s.batches)
	s.err = s.decode(ctx)
	return nil // reported by merge, which knows the order
}

func (s *source) decode(ctx context.Context) error {
	file, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, maxLineBytes)
	decoder := newDecoder()
	batch := make([]Event, 0, batchEvents)
	last, number := int64(-1<<63), 0
	for {
		line, err := reader.ReadSlice('\n')
		number++
		if errors.Is(err, io.EOF) {
			if len(bytes.TrimSpace(line)) > 0 {
				s.torn++
			}
			return s.flush(ctx, batch)
		}
		if err != nil {
			return fmt.Errorf("read history %s line %d: %w", s.path, number, err)
		}
		line = line[:len(line)-1]
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		batch = append(batch, Event{})
		e := &batch[len(batch)-1]
		if err := decoder.decode(line, e); err != nil {
			return fmt.Errorf("history %s line %d: %w", s.path, number, err)
		}
		if e.T < last {
			return fmt.Errorf("history %s line %d: stamp %d stands after %d: one file is one machine's monotonic clock", s.path, number, e.T, last)
		}
		last = e.T
		if len(batch) == batchEvents {
			if err := s.flush(ctx, batch); err != nil {
				return err
			}
			select {
			case batch = <-s.free:
				batch = batch[:0]
			default:
				batch = make([]Event, 0, batchEvents)
			}
		}
	}
}

func (s *source) flush(ctx context.Context, batch []Event) error {
	if len(batch) == 0 {
		return nil
	}
	select {
	case s.batches <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next makes s.batch[s.at] the head; false at the end of the file.
func (s *source) next() (bool, error) {
	if s.at++; s.at < len(s.batch) {
		return true, nil
	}
	if s.batch != nil {
		select {
		case s.free <- s.batch:
		default:
		}
	}
	batch, ok := <-s.batches
	if !ok {
		return false, s.err
	}
	s.batch, s.at = batch, 0
	return true, nil
}

func (s *source) head() *Event { return &s.batch[s.at] }

// before orders heads by (T, P).
func (s *source) before(o *source) bool {
	a, b := s.head(), o.head()
	return a.T < b.T || a.T == b.T && a.P < b.P
}

// merge hands out heads in order from a binary heap of the files.
func merge(sources []*source, f func(*Event) error) error {
	heap := make([]*source, 0, len(sources))
	for _, s := range sources {
		ok, err := s.next()
		if err != nil {
			return err
		}
		if ok {
			heap = append(heap, s)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		down(heap, i)
	}
	for n := uint64(1); len(heap) > 0; n++ {
		s := heap[0]
		e := s.head()
		e.N = n
		if err := f(e); err != nil {
			return err
		}
		ok, err := s.next()
		if err != nil {
			return err
		}
		if !ok {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		if len(heap) > 0 {
			down(heap, 0)
		}
	}
	return nil
}

func down(heap []*source, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].before(heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// Merge writes the files as one history, with line numbers; it is judged as the files are.
func Merge(w io.Writer, files []string) error {
	out := bufio.NewWriterSize(w, maxLineBytes)
	var line []byte
	_, err := Read(files, func(e *Event) error {
		line = Append(line[:0], e)
		_, err := out.Write(line)
		return err
	})
	return errors.Join(err, out.Flush())
}
