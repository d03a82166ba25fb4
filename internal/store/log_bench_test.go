package store

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keystrand/keystrand/internal/vfs"
)

// Question: how much of the raw rate of fdatasync does one sender get, who waits for each message (goals G6, G7: 0.70)?
// On paper: one write call, one sync, two goroutine switches, so about 10 microseconds beside the sync.
// The floor is measured in turns with the log, in the same directory, in slices of 200 syncs.
func BenchmarkOneSyncSenderAgainstRawSync(b *testing.B) {
	dir := benchDir(b)
	raw := rawFile(b, filepath.Join(dir, "raw"))
	l := openLog(b, vfs.OS{}, filepath.Join(dir, "log"), Options{FirstSegmentBytes: 64 << 20})
	defer closeLog(b, l)
	batch := []Record{{Kind: 1, Body: make([]byte, 1024)}}
	block := make([]byte, 1056)
	var ours, floor time.Duration
	var off int64
	b.ResetTimer()
	for done := 0; done < b.N; done += 200 {
		start := time.Now()
		for range 200 {
			if _, err := raw.WriteAt(block, off%(60<<20)); err != nil {
				b.Fatal(err)
			}
			off += int64(len(block))
			if err := raw.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		floor += time.Since(start)
		start = time.Now()
		for range 200 {
			_, end, err := l.Append(batch, false)
			if err != nil {
				b.Fatal(err)
			}
			if err := l.WaitDurable(context.Background(), end); err != nil {
				b.Fatal(err)
			}
		}
		ours += time.Since(start)
	}
	b.StopTimer()
	n := float64((b.N + 199) / 200 * 200)
	b.ReportMetric(floor.Seconds()/ours.Seconds(), "of-raw")
	b.ReportMetric(n/ours.Seconds(), "msg/s")
	b.ReportMetric(n/floor.Seconds(), "raw-sync/s")
}

// Question: what does group commit give to many senders? On paper N/(F + N c), c being a few microseconds.
func BenchmarkManySyncSenders(b *testing.B) {
	for _, senders := range []int{1, 16, 256} {
		b.Run(map[int]string{1: "1", 16: "16", 256: "256"}[senders], func(b *testing.B) {
			l := openLog(b, vfs.OS{}, filepath.Join(benchDir(b), "log"), Options{FirstSegmentBytes: 64 << 20})
			defer closeLog(b, l)
			var appending sync.Mutex // Append has one caller at a time
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range senders {
				group.Go(func() {
					batch := []Record{{Kind: 1, Body: make([]byte, 1024)}}
					for left.Add(-1) >= 0 {
						appending.Lock()
						_, end, err := l.Append(batch, false)
						appending.Unlock()
						if err == nil {
							err = l.WaitDurable(context.Background(), end)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// Question: what does the sequencer pay for one append of 32 records, without waiting for the disk?
func BenchmarkAppendBatch(b *testing.B) {
	l := openLog(b, vfs.OS{}, filepath.Join(benchDir(b), "log"), Options{FirstSegmentBytes: 1 << 30, SkipSync: true})
	defer closeLog(b, l)
	batch := make([]Record, 32)
	for i := range batch {
		batch[i] = Record{Kind: 1, Body: make([]byte, 1024)}
	}
	b.SetBytes(32 * 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := l.Append(batch, false); err != nil {
			b.Fatal(err)
		}
	}
}

// benchDir is KEYSTRAND_BENCH_DIR or a temporary directory; it must be on a real disk for the figures to mean anything.
func benchDir(b *testing.B) string {
	base := os.Getenv("KEYSTRAND_BENCH_DIR")
	dir, err := os.MkdirTemp(base, "keystrand-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return dir
}

func rawFile(b *testing.B, path string) vfs.File {
	f, err := vfs.OS{}.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := writeZeros(f, 0, 64<<20); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return f
}
