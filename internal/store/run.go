package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// pair is one line of an index's table: a 64-bit hash and an entry number under two bits that say what it is.
type pair struct{ key, value uint64 }

// What a pair tells, and its number. noTail as number: the group has no entry any more.
const (
	pairKindShift        = 62
	pairID        uint64 = 0 // hash of a message id: an entry that carries it
	pairTail      uint64 = 1 // hash of a message group: its last entry
	pairQueue     uint64 = 2 // hash of a queue and a block of its offsets: the block's first entry
	noTail        uint64 = 1<<pairKindShift - 1
)

func newPair(key, kind uint64, n int64) pair {
	number := uint64(n)
	if n == NoEntry {
		number = noTail
	}
	return pair{key, kind<<pairKindShift | number}
}

func (p pair) kind() uint64 { return p.value >> pairKindShift }
func (p pair) number() int64 {
	if n := p.value & noTail; n != noTail {
		return int64(n)
	}
	return NoEntry
}

func (p pair) compare(o pair) int {
	if p.key != o.key {
		if p.key < o.key {
			return -1
		}
		return 1
	}
	if p.value < o.value {
		return -1
	}
	if p.value > o.value {
		return 1
	}
	return 0
}

// A run is a file of pairs in order of key and value, never changed once it is written. Little endian:
//
//	pages of 4096 bytes: up to 255 pairs of 16 bytes, at 4080 u32 count, u32 page number, u32 0, u32 CRC32C of bytes 0 to 4091
//	fences: u64 first key of each page
//	footer of 48 bytes: "KSTRRUN1", u32 topic, u32 0, u64 run id, u64 pairs, u64 pages, u32 CRC32C of the fences, u32 CRC32C of footer bytes 0 to 43
//
// All sums are seeded with topic and run id, so that no page of another run is taken for one of this.
const (
	runMagic       = "KSTRRUN1"
	pairBytes      = 16
	runPagePairs   = 255
	runFooterBytes = 48
	runExt         = ".run"
)

// run is an open run. Its fences are in memory: 8 bytes per 255 pairs.
type run struct {
	id     uint64
	pairs  int64
	seed   uint32
	fences []uint64
	file   vfs.File
}

func runName(id uint64) string { return fmt.Sprintf("%016x%s", id, runExt) }

func runSeed(topic uint32, id uint64) uint32 { return uint32(mix(uint64(topic)<<40 ^ id ^ 1<<63)) }

// runWriter writes a run from pairs given in order.
type runWriter struct {
	file   vfs.File
	topic  uint32
	id     uint64
	seed   uint32
	page   [pageBytes]byte
	inPage int
	pages  int64
	pairs  int64
	fences []uint64
	out    []byte // pages not written yet
}

func newRunWriter(file vfs.File, topic uint32, id uint64) *runWriter {
	return &runWriter{file: file, topic: topic, id: id, seed: runSeed(topic, id)}
}

func (w *runWriter) add(p pair) error {
	if w.inPage == 0 {
		w.fences = append(w.fences, p.key)
	}
	binary.LittleEndian.PutUint64(w.page[w.inPage*pairBytes:], p.key)
	binary.LittleEndian.PutUint64(w.page[w.inPage*pairBytes+8:], p.value)
	w.inPage++
	w.pairs++
	if w.inPage == runPagePairs {
		return w.endPage()
	}
	return nil
}

func (w *runWriter) endPage() error {
	if w.inPage == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(w.page[4080:], uint32(w.inPage))
	binary.LittleEndian.PutUint32(w.page[4084:], uint32(len(w.fences)-1))
	binary.LittleEndian.PutUint32(w.page[4092:], crc32.Update(w.seed, castagnoli, w.page[:4092]))
	w.out = append(w.out, w.page[:]...)
	clear(w.page[:])
	w.inPage = 0
	if len(w.out) >= windowBytes {
		return w.writeOut()
	}
	return nil
}

func (w *runWriter) writeOut() error {
	if _, err := writeFull(w.file, w.out, w.pages*pageBytes); err != nil {
		return err
	}
	w.pages += int64(len(w.out) / pageBytes)
	w.out = w.out[:0]
	return nil
}

// finish writes the rest and syncs. The run owns the file then.
func (w *runWriter) finish() (*run, error) {
	if err := w.endPage(); err != nil {
		return nil, err
	}
	if err := w.writeOut(); err != nil {
		return nil, err
	}
	end := make([]byte, 0, 8*len(w.fences)+runFooterBytes)
	for _, f := range w.fences {
		end = binary.LittleEndian.AppendUint64(end, f)
	}
	sum := crc32.Update(w.seed, castagnoli, end)
	footer := len(end)
	end = append(end, runMagic...)
	end = binary.LittleEndian.AppendUint32(end, w.topic)
	end = binary.LittleEndian.AppendUint32(end, 0)
	end = binary.LittleEndian.AppendUint64(end, w.id)
	end = binary.LittleEndian.AppendUint64(end, uint64(w.pairs))
	end = binary.LittleEndian.AppendUint64(end, uint64(w.pages))
	end = binary.LittleEndian.AppendUint32(end, sum)
	end = binary.LittleEndian.AppendUint32(end, crc32.Update(w.seed, castagnoli, end[footer:]))
	if _, err := writeFull(w.file, end, w.pages*pageBytes); err != nil {
		return nil, err
	}
	if err := w.file.Sync(); err != nil {
		return nil, err
	}
	return &run{id: w.id, pairs: w.pairs, seed: w.seed, fences: w.fences, file: w.file}, nil
}

// errRun: the bytes of a run are not those that were written.
var errRun = errors.New("the run's check sum does not match")

// openRun opens a run and checks its footer and fences; pages are checked when they are read.
func openRun(file vfs.File, topic uint32, id uint64) (*run, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	var b [runFooterBytes]byte
	if size < runFooterBytes {
		return nil, errRun
	}
	if err := readFull(file, b[:], size-runFooterBytes); err != nil {
		return nil, err
	}
	r := &run{id: id, seed: runSeed(topic, id), file: file, pairs: int64(leUint64(b[24:]))}
	pages := leUint64(b[32:])
	if string(b[:8]) != runMagic || binary.LittleEndian.Uint32(b[8:]) != topic || leUint64(b[16:]) != id ||
		crc32.Update(r.seed, castagnoli, b[:44]) != binary.LittleEndian.Uint32(b[44:]) || uint64(size) != pages*(pageBytes+8)+runFooterBytes {
		return nil, errRun
	}
	fences := make([]byte, 8*pages)
	if err := readFull(file, fences, int64(pages)*pageBytes); err != nil {
		return nil, err
	}
	if crc32.Update(r.seed, castagnoli, fences) != binary.LittleEndian.Uint32(b[40:]) {
		return nil, errRun
	}
	r.fences = make([]uint64, pages)
	for i := range r.fences {
		r.fences[i] = leUint64(fences[8*i:])
	}
	return r, nil
}

// page reads and checks one page into b and returns how many pairs it has.
func (r *run) page(no int, b *[pageBytes]byte) (int, error) {
	if err := readFull(r.file, b[:], int64(no)*pageBytes); err != nil {
		return 0, fmt.Errorf("%s page %d: %w", runName(r.id), no, err)
	}
	n := int(binary.LittleEndian.Uint32(b[4080:]))
	if crc32.Update(r.seed, castagnoli, b[:4092]) != binary.LittleEndian.Uint32(b[4092:]) || int(binary.LittleEndian.Uint32(b[4084:])) != no || n > runPagePairs {
		return 0, fmt.Errorf("%s page %d: %w: %w", runName(r.id), no, errRun, keystrand.ErrCorrupt)
	}
	return n, nil
}

func pairAt(b *[pageBytes]byte, i int) pair {
	return pair{leUint64(b[i*pairBytes:]), leUint64(b[i*pairBytes+8:])}
}

// find calls f for the pairs of a key, in order of value, until it returns false.
func (r *run) find(key uint64, b *[pageBytes]byte, f func(pair) bool) error {
	first := max(sort.Search(len(r.fences), func(i int) bool { return r.fences[i] >= key })-1, 0)
	for no := first; no < len(r.fences) && r.fences[no] <= key; no++ {
		n, err := r.page(no, b)
		if err != nil {
			return err
		}
		at := sort.Search(n, func(i int) bool { return leUint64(b[i*pairBytes:]) >= key })
		for ; at < n; at++ {
			p := pairAt(b, at)
			if p.key != key {
				return nil
			}
			if !f(p) {
				return nil
			}
		}
	}
	return nil
}

// runReader goes through a run in order.
type runReader struct {
	r    *run
	b    [pageBytes]byte
	page int
	at   int
	n    int
}

// next returns the next pair; ok is false at the end.
func (r *runReader) next() (p pair, ok bool, err error) {
	if r.at == r.n {
		if r.page == len(r.r.fences) {
			return pair{}, false, nil
		}
		if r.n, err = r.r.page(r.page, &r.b); err != nil {
			return pair{}, false, err
		}
		r.page, r.at = r.page+1, 0
	}
	p = pairAt(&r.b, r.at)
	r.at++
	return p, true, nil
}
