package store

import (
	"errors"
	"fmt"
	"sync"
)

// segments are the open files of the log by id.
type segments struct {
	mu   sync.RWMutex // guards byID
	byID map[uint32]*segment
}

func (s *segments) add(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[uint32]*segment{}
	}
	s.byID[g.id] = g
}

func (s *segments) get(id uint32) (*segment, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g := s.byID[id]; g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("log segment %d is not there", id)
}

func (s *segments) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, g := range s.byID {
		err = errors.Join(err, g.file.Close())
	}
	s.byID = nil
	return err
}
