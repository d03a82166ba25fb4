package history

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkCheckTenMillionEvents: can ten million events be judged in under a minute on two cores?
// Estimate: 1.3 GB read and decoded twice at 300 MB/s a core, files in parallel: about 10 s.
func BenchmarkCheckTenMillionEvents(b *testing.B) {
	files := bigHistory(b, 10_000_000, 1000)
	for b.Loop() {
		r, err := Check(files, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if r.Verdict != Pass {
			b.Fatalf("verdict %s\n%s", r.Verdict, text(b, r))
		}
		b.ReportMetric(float64(r.Summary.Events)/r.Took.Seconds(), "events/s")
	}
}

func TestAHundredThousandEventsOfACleanRunPass(t *testing.T) {
	t.Parallel()
	r, err := Check(bigHistory(t, 100_000, 100), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Pass {
		t.Fatalf("verdict %s\n%s", r.Verdict, text(t, r))
	}
}

// bigHistory writes a clean run of about n events on the given number of keys: send, receive, handle, ack, read-back.
func bigHistory(t testing.TB, n, keys int) []string {
	dir := t.TempDir()
	outs := map[uint32]*bufio.Writer{}
	var files []string
	var line []byte
	now := int64(1_000_000)
	put := func(p uint32, e Event) {
		now += 500
		e.T, e.P = now, p*WorkersPerProcess+1
		if e.E == Recv {
			e.Since = now - 200
		}
		line = Append(line[:0], &e)
		if _, err := outs[p].Write(line); err != nil {
			t.Fatal(err)
		}
	}
	for p := uint32(1); p <= 4; p++ {
		path := filepath.Join(dir, fmt.Sprintf("p%d.jsonl", p))
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, path)
		outs[p] = bufio.NewWriterSize(file, 1<<20)
	}
	rounds := n / keys / 8
	var op, token uint64
	offsets := make([]int64, 8)
	for round := range rounds {
		for k := range keys {
			q := int32(k % 8)
			e := newEvent(SendInv)
			op++
			e.Op, e.Topic, e.Key, e.ID, e.Sum = op, "orders", fmt.Sprintf("order-%d", k), ID{1, uint32(round + 1)}, op
			put(1, e)
			e.E, e.Queue, e.Offset, e.Sum = SendOK, q, offsets[q], 0
			put(1, e)
			token++
			c := uint32(2 + k%2)
			e.E, e.Op, e.Group, e.Token, e.Broker, e.Attempt, e.Sum, e.Dur = Recv, 0, "g", 1<<40|token, broker1, 1, op, 3e10
			put(c, e)
			e.E, e.Sum, e.Dur = Start, 0, 0
			put(c, e)
			e.E = End
			put(c, e)
			e.E, e.Op = AckInv, 1<<32|op
			put(c, e)
			e.E = AckOK
			put(c, e)
			offsets[q]++
		}
	}
	e := newEvent(DrainEnd)
	put(4, e)
	for k := range keys {
		for round := range rounds {
			q := int32(k % 8)
			e := newEvent(Log)
			e.Topic, e.Key, e.ID = "orders", fmt.Sprintf("order-%d", k), ID{1, uint32(round + 1)}
			e.Queue, e.Offset = q, int64(round*((keys+7-int(q))/8)+k/8)
			put(4, e)
		}
	}
	for _, out := range outs {
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
