package state

import (
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/store"
)

// Progress is what a consumer group has done of a topic: a cursor and the heads of the strands that have an unfinished
// message below it. What stands behind a head costs nothing here: it is reached through the index's chain.
//
// Invariant: Start <= Cursor. Each entry in [Start, Cursor) is finished, filtered out, a strand's head, or behind a head in
// its strand's chain. Finished and Filtered count the first two kinds.
//
// The same Apply runs live and in recovery. The cursor moves without records: a record of an entry at or above it moves it
// past that entry, and strands come into being on the way just as they did live.
type Progress struct {
	Group   GroupID
	Topic   TopicID
	Mode    Mode
	Begun   bool // the first Subscribe was applied
	Start   int64
	Cursor  int64
	Strands map[StrandKey]*Strand
	// Finished counts acked, skipped and dead-lettered messages; DeadLettered the last of these; Filtered those passed over.
	Finished, DeadLettered, Filtered int64

	filter Filter
	done   tokenMemory
}

// NewProgress returns the progress of a group that has read nothing. Its mode is the spec's.
func NewProgress(g GroupID, t TopicID, spec keystrand.GroupSpec) *Progress {
	mode := ModeUnordered
	switch {
	case spec.Ordered && spec.OrderLevel == LevelQueue:
		mode = ModeQueue
	case spec.Ordered:
		mode = ModeGroup
	}
	return &Progress{Group: g, Topic: t, Mode: mode, Strands: map[StrandKey]*Strand{}}
}

// Filter returns the present one.
func (p *Progress) Filter() Filter { return p.filter }

// Unfinished is how many of count entries the group has not finished; entries above the cursor count whatever their tag.
func (p *Progress) Unfinished(count int64) int64 {
	return max(count-p.Start, 0) - p.Finished - p.Filtered
}

// WasFinished reports whether a message was acked under token, as far as the bounded memory reaches: the last 65,536
// finishes of this process or of the replayed tail.
func (p *Progress) WasFinished(token uint64) bool { return token != 0 && p.done.has(token) }

// WasDeadLettered reports whether a message went to the dead letters under token, with the same memory.
func (p *Progress) WasDeadLettered(token uint64) bool { return p.done.has(token | deadToken) }

// Advance reads one entry at the cursor and moves past it. It returns the strand that came into being, or nil when the
// entry is filtered out or belongs to a strand in memory. The caller knows that the entry exists.
func (p *Progress) Advance(ix Index) (*Strand, error) {
	e, err := ix.Entry(p.Cursor)
	if err != nil {
		return nil, fmt.Errorf("entry %d at the cursor: %w", p.Cursor, err)
	}
	n := p.Cursor
	key := p.Mode.keyOf(n, &e)
	p.Cursor++
	if p.Strands[key] != nil {
		return nil, nil // the chain leads here
	}
	if !p.filter.Matches(e.TagHash) {
		p.Filtered++
		return nil, nil
	}
	s := &Strand{Key: key, Head: n, Status: StatusReady}
	p.Strands[key] = s
	return s, nil
}

// AdvanceTo moves the cursor to n, if it is below.
func (p *Progress) AdvanceTo(n int64, ix Index) error {
	for p.Cursor < n {
		if _, err := p.Advance(ix); err != nil {
			return err
		}
	}
	return nil
}

// Seek looks for the successor of a seeking strand's head, over at most budget entries. It returns the entries read.
// Afterwards the strand is ready with its new head, is gone from memory (nothing of it is left below the cursor), or, when
// the budget was too small or the index failed, still seeking.
func (p *Progress) Seek(s *Strand, ix Index, budget int) (read int, err error) {
	for s.Seeking && read < budget {
		e, err := ix.Entry(s.Head)
		if err != nil {
			return read, fmt.Errorf("entry %d, head of strand %x: %w", s.Head, uint64(s.Key), err)
		}
		read++
		next := p.Mode.nextOf(&e)
		if next == store.NoEntry || next >= p.Cursor {
			delete(p.Strands, s.Key)
			return read, nil
		}
		n, err := ix.Entry(next)
		if err != nil {
			return read, fmt.Errorf("entry %d of strand %x: %w", next, uint64(s.Key), err)
		}
		s.Head = next
		if s.Seeking = !p.filter.Matches(n.TagHash); s.Seeking {
			p.Filtered++
		}
	}
	return read, nil
}
