package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/keystrand/keystrand/internal/vfs"
)

// Question: what does the index cost per message, with few and with many groups? On paper: 64 bytes of entry, 16 bytes of
// id that are written about log2(n/65536) times, two map puts: about a microsecond. With more groups than the page cache
// spans, each message also reads and writes a page of the one before it: two to three more.
func BenchmarkIndexAppend(b *testing.B) {
	for _, groups := range []int{1, 1000, 10_000, 1_000_000} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			x, err := OpenIndex(vfs.OS{}, filepath.Join(benchDir(b), "index"), 1)
			must(b, err)
			r := rand.New(rand.NewPCG(1, 1))
			ids := make([]string, 1<<16)
			for i := range ids {
				ids[i] = fmt.Sprintf("01AABBCCDDEEFF%018d", i)
			}
			var next [8]int64
			worst := time.Duration(0)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				q := i % 8
				n, err := x.Append(Entry{Position: Position(1<<32 + 4096 + 1024*i), Queue: int32(q), QueueOffset: next[q], GroupHash: mix(uint64(r.IntN(groups) + 1))})
				if err == nil {
					err = x.PutID(ids[i%len(ids)], n)
				}
				if err != nil {
					b.Fatal(err)
				}
				next[q]++
				worst = max(worst, time.Since(start))
			}
			b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
			b.StopTimer()
			must(b, x.Close())
		})
	}
}

// Question: what does a read along a backlog cost, as delivery makes it: entry after entry, each with its links verified?
func BenchmarkIndexEntry(b *testing.B) {
	const n = 1 << 20
	for _, groups := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			x := bigIndex(b, filepath.Join(benchDir(b), "index"), n, groups)
			b.ResetTimer()
			for i := range b.N {
				if _, err := x.Entry(int64(i % n)); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			must(b, x.Close())
		})
	}
}

// Question: how long does a start take with five million messages (goal G16), and what is in memory then?
func BenchmarkIndexOpenFiveMillion(b *testing.B) {
	const n = 5_000_000
	dir := filepath.Join(benchDir(b), "index")
	must(b, bigIndex(b, dir, n, 10_000).Close())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for range b.N {
		x, err := OpenIndex(vfs.OS{}, dir, 1)
		must(b, err)
		if x.Count() != n {
			b.Fatalf("got %d entries, rebuilt %q", x.Count(), x.Rebuilt())
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB")
		must(b, x.Close())
		b.StartTimer()
	}
}

func bigIndex(b *testing.B, dir string, n, groups int) *Index {
	x, err := OpenIndex(vfs.OS{}, dir, 1)
	must(b, err)
	r := rand.New(rand.NewPCG(1, 1))
	var next [8]int64
	for i := range n {
		q := i % 8
		at, err := x.Append(Entry{Position: Position(1<<32 + 4096 + 1024*i), Queue: int32(q), QueueOffset: next[q], GroupHash: mix(uint64(r.IntN(groups) + 1))})
		must(b, err)
		must(b, x.PutID(fmt.Sprint(i), at))
		next[q]++
	}
	_, err = x.Checkpoint()
	must(b, err)
	return x
}
