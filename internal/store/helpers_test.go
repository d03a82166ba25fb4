package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/keystrand/keystrand/internal/vfs"
)

// small makes segments of a few records each, so that rolls are frequent.
var small = Options{FirstSegmentBytes: 8192, SegmentBytes: 8192 + 4096}

func openLog(t testing.TB, disk vfs.FS, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(disk, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// brief tells that an enumeration should take a sample.
func brief() bool { return testing.Short() || underRace }

// failer is what helpers need of a testing.TB or a rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replayAll returns kind and body of every record as text.
func replayAll(t testing.TB, l *Log, from Position) []string {
	t.Helper()
	var got []string
	must(t, l.Replay(from, func(_ Position, r Record) error {
		got = append(got, text(r))
		return nil
	}))
	return got
}

func text(r Record) string { return fmt.Sprintf("%d:%s", r.Kind, r.Body) }

// script appends batches to a log and remembers what was promised about them. Its fields may be read while it runs.
type script struct {
	mu      sync.Mutex
	batches [][]string // as replayed, one per batch, in the order of the log
	places  []Position // of the first record of each
	durable int        // so many batches were reported as durable
}

// batch makes the n-th batch: one to three records of different sizes, told apart by their text.
func (s *script) batch(n int) []Record {
	var batch []Record
	for i := range 1 + n%3 {
		body := fmt.Appendf(nil, "batch %d record %d ", n, i)
		for len(body) < (n*37+i*101)%700 {
			body = append(body, byte('a'+len(body)%26))
		}
		batch = append(batch, Record{Kind: Kind(1 + n%9), Body: body})
	}
	return batch
}

// append appends the next batch and, when wait is set, waits until it is durable.
func (s *script) append(l *Log, wait bool) error {
	s.mu.Lock()
	n := len(s.batches)
	batch := s.batch(n)
	var texts []string
	for _, r := range batch {
		texts = append(texts, text(r))
	}
	s.batches, s.places = append(s.batches, texts), append(s.places, 0)
	s.mu.Unlock()
	places, end, err := l.Append(batch, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.places[n] = places[0]
	s.mu.Unlock()
	if wait {
		if err := l.WaitDurable(context.Background(), end); err != nil {
			return err
		}
		s.mu.Lock()
		s.durable = n + 1
		s.mu.Unlock()
	}
	return nil
}

func (s *script) run(t testing.TB, l *Log, batches int, wait bool) {
	t.Helper()
	for range batches {
		must(t, s.append(l, wait))
	}
}

// promised returns what must be there and what may be there.
func (s *script) promised() (durable int, batches [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable, slices.Clone(s.batches)
}

// checkPrefix says how many whole batches got is, or what is wrong with it.
func checkPrefix(got []string, durable int, batches [][]string) (int, error) {
	n := 0
	for _, b := range batches {
		if len(got) == 0 {
			break
		}
		if len(got) < len(b) || !slices.Equal(got[:len(b)], b) {
			return n, fmt.Errorf("batch %d: got %q, want %q", n, got[:min(len(got), len(b))], b)
		}
		got, n = got[len(b):], n+1
	}
	if len(got) > 0 {
		return n, fmt.Errorf("%d records that were never appended: %q", len(got), got[0])
	}
	if n < durable {
		return n, fmt.Errorf("%d batches are there, %d were durable", n, durable)
	}
	return n, nil
}

// damage changes bytes of a file and makes the change durable.
func damage(t testing.TB, disk vfs.FS, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := readFile(disk, path, 1<<30)
	must(t, err)
	b = change(b)
	f, err := disk.Open(path)
	must(t, err)
	must(t, f.Truncate(int64(len(b))))
	_, err = writeFull(f, b, 0)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func segmentPath(id uint32) string { return "d/" + segmentName(id) }
