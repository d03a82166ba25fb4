package store

import (
	"fmt"
	"slices"

	"github.com/keystrand/keystrand/internal/vfs"
)

const (
	pageBytes   = 4096
	pageEntries = pageBytes / entryBytes
)

// pages are the entries of an index: a file behind a bounded cache that writes back.
//
// Invariant: a page that is not in the cache, or clean, is in the file as it was last seen.
type pages struct {
	file   vfs.File
	cached map[int64]*page
	ring   []*page // for the clock that picks who goes
	hand   int
	count  int64 // pages that exist, in the file or in the cache
	limit  int   // of cached
}

type page struct {
	no    int64
	dirty bool
	used  bool
	b     [pageBytes]byte
}

func newPages(file vfs.File, count int64, limit int) *pages {
	return &pages{file: file, cached: map[int64]*page{}, count: count, limit: limit}
}

// get returns page no; the one after the last is made. The pointer is valid until the next get.
func (p *pages) get(no int64) (*page, error) {
	if g := p.cached[no]; g != nil {
		g.used = true
		return g, nil
	}
	g, err := p.slot()
	if err != nil {
		return nil, err
	}
	if no < p.count {
		if err := readFull(p.file, g.b[:], no*pageBytes); err != nil {
			p.ring = slices.DeleteFunc(p.ring, func(r *page) bool { return r == g })
			return nil, fmt.Errorf("read page %d: %w", no, err)
		}
	} else {
		clear(g.b[:])
		p.count = no + 1
		g.dirty = true
	}
	g.no, g.used = no, true
	p.cached[no] = g
	return g, nil
}

// slot returns a page that is free to be filled, in the ring and not in the map.
func (p *pages) slot() (*page, error) {
	if len(p.ring) < p.limit {
		g := &page{}
		p.ring = append(p.ring, g)
		return g, nil
	}
	for {
		p.hand = (p.hand + 1) % len(p.ring)
		g := p.ring[p.hand]
		if g.used {
			g.used = false
			continue
		}
		if err := p.write(g); err != nil {
			return nil, err
		}
		delete(p.cached, g.no)
		return g, nil
	}
}

func (p *pages) write(g *page) error {
	if !g.dirty {
		return nil
	}
	if _, err := writeFull(p.file, g.b[:], g.no*pageBytes); err != nil {
		return fmt.Errorf("write page %d: %w", g.no, err)
	}
	g.dirty = false
	return nil
}

// flush gives all dirty pages to the file, in order.
func (p *pages) flush() error {
	dirty := slices.DeleteFunc(slices.Clone(p.ring), func(g *page) bool { return !g.dirty })
	slices.SortFunc(dirty, func(a, b *page) int { return int(a.no - b.no) })
	for _, g := range dirty {
		if err := p.write(g); err != nil {
			return err
		}
	}
	return nil
}

// shrink forgets the cache of an index that is not used. Requires: flushed.
func (p *pages) shrink() {
	p.ring, p.hand = nil, 0
	clear(p.cached)
}
