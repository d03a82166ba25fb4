package store

import (
	"fmt"
	"slices"

	"github.com/keystrand/keystrand/internal/vfs"
)

// table finds entries by 64-bit hashes: pairs in memory first, then sorted runs on disk, the newest first. A message id
// is put once and never again, so a table that changes pages in place would write a page per message; runs are written
// and merged front to back.
//
// Invariant: runs are ordered from old to new, and each is less than half of the one before it, but while a merge is due.
type table struct {
	disk  vfs.FS
	dir   string
	topic uint32

	mem    *memTable
	frozen *memTable // being written as a run
	older  map[uint64]int64
	runs   []*run
	nextID uint64
	page   [pageBytes]byte
}

// memTable holds the newest pairs. tails is newest-wins; pairs of the other kinds are only added.
type memTable struct {
	tails map[uint64]int64
	pairs []pair
}

// maxCandidates bounds what a look-up by message id returns.
const maxCandidates = 64

func newMemTable() *memTable { return &memTable{tails: map[uint64]int64{}} }

func (m *memTable) len() int { return len(m.tails) + len(m.pairs) }

// sorted returns all pairs in a run's order.
func (m *memTable) sorted() []pair {
	all := make([]pair, 0, m.len())
	for key, n := range m.tails {
		all = append(all, newPair(key, pairTail, n))
	}
	all = append(all, m.pairs...)
	slices.SortFunc(all, pair.compare)
	return slices.Compact(all)
}

// put adds a pair as the newest of its key.
func (m *memTable) put(p pair) {
	if p.kind() == pairTail {
		m.tails[p.key] = p.number()
	} else {
		m.pairs = append(m.pairs, p)
	}
}

// tail returns what is believed to be a group's last entry: NoEntry when the group is not known. older is a cache of the
// last run's tails: groups in use are found without the disk.
func (t *table) tail(key uint64) (int64, error) {
	if n, ok := t.mem.tails[key]; ok {
		return n, nil
	}
	if t.frozen != nil {
		if n, ok := t.frozen.tails[key]; ok {
			return n, nil
		}
	}
	if n, ok := t.older[key]; ok {
		return n, nil
	}
	for i := len(t.runs) - 1; i >= 0; i-- {
		found := false
		var n int64
		err := t.runs[i].find(key, &t.page, func(p pair) bool {
			if p.kind() == pairTail {
				n, found = p.number(), true
			}
			return !found
		})
		if err != nil || found {
			return n, err
		}
	}
	return NoEntry, nil
}

// all returns the numbers of a key's pairs of one kind, in growing order, each once.
func (t *table) all(key, kind uint64) ([]int64, error) {
	var numbers []int64
	take := func(p pair) bool {
		if p.key == key && p.kind() == kind {
			numbers = append(numbers, p.number())
		}
		return true
	}
	for _, r := range t.runs {
		if err := r.find(key, &t.page, take); err != nil {
			return nil, err
		}
	}
	for _, m := range []*memTable{t.frozen, t.mem} {
		if m != nil {
			for _, p := range m.pairs {
				take(p)
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// write makes a run of pairs that are in order. No lock is needed: it touches no field that changes.
func (t *table) write(id uint64, next func() (pair, bool, error)) (*run, error) {
	file, err := t.disk.Create(t.dir + "/" + runName(id))
	if err != nil {
		return nil, err
	}
	w := newRunWriter(file, t.topic, id)
	for {
		p, ok, err := next()
		if err == nil && ok {
			err = w.add(p)
		}
		if err != nil {
			return nil, closeAfter(file, fmt.Errorf("write run %s: %w", runName(id), err))
		}
		if !ok {
			break
		}
	}
	r, err := w.finish()
	if err != nil {
		return nil, closeAfter(file, fmt.Errorf("write run %s: %w", runName(id), err))
	}
	return r, nil
}

// fromSlice makes a source of write.
func fromSlice(pairs []pair) func() (pair, bool, error) {
	return func() (pair, bool, error) {
		if len(pairs) == 0 {
			return pair{}, false, nil
		}
		p := pairs[0]
		pairs = pairs[1:]
		return p, true, nil
	}
}

// due returns how many of the newest runs should be merged into one: 0, or at least 2.
func (t *table) due() int {
	n, sum := 0, int64(0)
	for i := len(t.runs) - 1; i >= 0; i-- {
		if n > 0 && t.runs[i].pairs >= 2*sum {
			break
		}
		sum += t.runs[i].pairs
		n++
	}
	if n < 2 {
		return 0
	}
	return n
}

// merged makes a source of write from runs given from old to new. Of a group's tails only the newest run's remains.
func merged(runs []*run) func() (pair, bool, error) {
	type source struct {
		reader *runReader
		head   pair
		ok     bool
	}
	sources := make([]source, len(runs))
	started := false
	advance := func(s *source) (err error) {
		s.head, s.ok, err = s.reader.next()
		return err
	}
	var last pair
	var any bool
	return func() (pair, bool, error) {
		if !started {
			started = true
			for i := range sources {
				sources[i].reader = &runReader{r: runs[i]}
				if err := advance(&sources[i]); err != nil {
					return pair{}, false, err
				}
			}
		}
		for {
			// The smallest key and kind first; of equal ones the newest run's.
			best := -1
			for i := range sources {
				if !sources[i].ok {
					continue
				}
				if best < 0 || mergeOrder(sources[i].head, sources[best].head) <= 0 {
					best = i
				}
			}
			if best < 0 {
				return pair{}, false, nil
			}
			p := sources[best].head
			if err := advance(&sources[best]); err != nil {
				return pair{}, false, err
			}
			again := any && (p == last || p.kind() == pairTail && p.key == last.key && last.kind() == pairTail)
			if again {
				continue
			}
			last, any = p, true
			return p, true, nil
		}
	}
}

// mergeOrder is compare, but all tails of one key are equal, so that age decides among them.
func mergeOrder(a, b pair) int {
	if a.key == b.key && a.kind() == pairTail && b.kind() == pairTail {
		return 0
	}
	return a.compare(b)
}
