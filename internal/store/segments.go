package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/keystrand/keystrand/internal/vfs"
)

// maxIdleSegments bounds the files kept open for readers. Those that may still hold unsynced records stay open beside
// it: only the file that was written through is sure to report that writing back failed.
const maxIdleSegments = 16

// segments are the files of the log by id, opened when used.
//
// Invariant: a segment with users or with id >= pinned has its file open, once it was used.
type segments struct {
	disk   vfs.FS
	dir    string
	broker [8]byte

	mu     sync.Mutex // guards the fields below; held while a file is opened, which is rare
	byID   map[uint32]*segment
	pinned uint32
	open   int
	clock  uint64
}

// segment is one file of the log. Its file is valid between acquire and release.
type segment struct {
	id   uint32
	size int64
	file vfs.File

	users int
	used  uint64
}

// add takes over a segment whose file is open.
func (s *segments) add(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[uint32]*segment{}
	}
	s.byID[g.id] = g
	s.open++
	s.touchLocked(g)
}

// has tells whether there is a segment of that id.
func (s *segments) has(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id] != nil
}

// acquire returns a segment with its file open until release.
func (s *segments) acquire(id uint32) (*segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byID[id]
	if g == nil {
		return nil, fmt.Errorf("log segment %d is not there", id)
	}
	if g.file == nil {
		opened, err := openSegment(s.disk, s.dir, id, s.broker)
		if err != nil {
			return nil, err
		}
		g.file = opened.file
		s.open++
	}
	g.users++
	s.touchLocked(g)
	return g, nil
}

func (s *segments) release(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.users--
}

// pin keeps the files from id on open; older ones may be closed when others are needed.
func (s *segments) pin(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = id
}

// touchLocked marks g as used last and closes the one idle for longest when there are too many.
func (s *segments) touchLocked(g *segment) {
	s.clock++
	g.used = s.clock
	for s.open > maxIdleSegments {
		var oldest *segment
		for _, c := range s.byID {
			if c.file != nil && c.users == 0 && c != g && c.id < s.pinned && (oldest == nil || c.used < oldest.used) {
				oldest = c
			}
		}
		if oldest == nil {
			return
		}
		_ = oldest.file.Close() // everything in it was synced before the pin passed it
		oldest.file = nil
		s.open--
	}
}

func (s *segments) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, g := range s.byID {
		if g.file != nil {
			err = errors.Join(err, g.file.Close())
		}
	}
	s.byID = nil
	return err
}
