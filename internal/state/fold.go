package state

import (
	"fmt"

	"github.com/keystrand/keystrand/internal/store"
)

// seekBudget bounds the entries that one record's successor search reads; the rest is left to Seek.
const seekBudget = 256

// PairOf returns whose progress a record belongs to; ok is false for records that belong to none.
func PairOf(r Record) (g GroupID, t TopicID, ok bool) {
	if s, ok := r.(*Subscribe); ok {
		return s.Group, s.Topic, true
	}
	if a, ok := actOf(r); ok {
		return a.group, a.topic, true
	}
	return 0, 0, false
}

// act is what all records of a strand have in common.
type act struct {
	group  GroupID
	topic  TopicID
	strand StrandKey
	entry  int64
}

func actOf(r Record) (act, bool) {
	switch r := r.(type) {
	case *Grant:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *Finish:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *Fail:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *Park:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *Resume:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *DeadLetter:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *Lease:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	case *Release:
		return act{r.Group, r.Topic, r.Strand, r.Entry}, true
	}
	return act{}, false
}

// Apply folds a record of this (group, topic) in; others change nothing. A *MisfitError says that the record cannot be of
// this log; any other error is the index's. After an error of a live step nothing was changed, except by the successor
// search after a finish, which leaves the strand seeking and reports no error: the finish itself holds.
func (p *Progress) Apply(r Record, ix Index) error {
	if s, ok := r.(*Subscribe); ok {
		return p.subscribe(s, ix)
	}
	a, ok := actOf(r)
	if !ok || a.group != p.Group || a.topic != p.Topic {
		return nil
	}
	misfit := func(reason string) error {
		return &MisfitError{Kind: r.Kind(), Strand: a.strand, Entry: a.entry, Reason: reason}
	}
	if a.entry < p.Start {
		return misfit("the entry is below the start of the group")
	}
	if err := p.AdvanceTo(a.entry+1, ix); err != nil {
		return err
	}
	s := p.Strands[a.strand]
	if s == nil {
		if _, again := r.(*DeadLetter); again {
			return nil // finished before
		}
		return misfit("the strand has nothing unfinished")
	}
	if s.Seeking || s.Head < a.entry {
		if err := p.seekTo(s, a.entry, ix); err != nil {
			return err
		}
	}
	if s.Head != a.entry || s.Seeking {
		if _, again := r.(*DeadLetter); again && s.Head > a.entry {
			return nil
		}
		return misfit(fmt.Sprintf("the strand's head is entry %d", s.Head))
	}
	if reason := p.act(s, r, ix); reason != "" {
		return misfit(reason)
	}
	return nil
}

// seekTo brings the head to an entry that the log says was the head: what lies between did not match the filter then.
func (p *Progress) seekTo(s *Strand, entry int64, ix Index) error {
	if s.Status != StatusReady || s.Attempt > 0 {
		return nil // an open head is never passed; the caller reports the misfit
	}
	for s.Head < entry {
		e, err := ix.Entry(s.Head)
		if err != nil {
			return fmt.Errorf("entry %d of strand %x: %w", s.Head, uint64(s.Key), err)
		}
		next := p.Mode.nextOf(&e)
		if next == store.NoEntry || next > entry {
			return nil
		}
		if !s.Seeking {
			p.Filtered++
		}
		s.Head, s.Seeking = next, false
	}
	return nil
}

func (p *Progress) subscribe(r *Subscribe, ix Index) error {
	if r.Group != p.Group || r.Topic != p.Topic {
		return nil
	}
	filter, err := ParseFilter(r.Expression)
	if err != nil {
		return fmt.Errorf("subscription of consumer group %d to topic %d: %w", r.Group, r.Topic, err)
	}
	if !p.Begun {
		p.Begun, p.Start, p.Cursor = true, r.Start, r.Start
	} else if err := p.settle(r.Cursor, ix); err != nil {
		return err
	}
	p.filter = filter
	return nil
}

// settle judges everything below cursor by the present filter, before another takes its place. Heads are never judged
// again: a message that was its strand's head at the change is still handed out.
func (p *Progress) settle(cursor int64, ix Index) error {
	if err := p.AdvanceTo(cursor, ix); err != nil {
		return err
	}
	for _, s := range p.Strands {
		for s.Seeking && p.Strands[s.Key] == s {
			if _, err := p.Seek(s, ix, seekBudget); err != nil {
				return err
			}
		}
	}
	return nil
}

// act changes the strand whose head the record names. It returns why the record does not fit, or "".
func (p *Progress) act(s *Strand, r Record, ix Index) string {
	switch r := r.(type) {
	case *Grant:
		if s.Status == StatusLeased || s.Status == StatusParked {
			return "a grant of a strand that is " + s.Status.String()
		}
		s.Status, s.Attempt, s.Token, s.LeaseMs = StatusLeased, r.Attempt, r.Token, r.LeaseMs
		s.ClientID, s.AutoRenew, s.BackOffMs = r.ClientID, r.AutoRenew, 0
	case *Finish:
		if r.Token != 0 && !s.holds(r.Entry, r.Token) {
			return "the token is not the open lease"
		}
		p.finish(s, r.Token, ix)
	case *DeadLetter:
		p.DeadLettered++
		p.finish(s, r.Token|deadToken, ix)
	case *Fail:
		if !s.holds(r.Entry, r.Token) {
			return "the token is not the open lease"
		}
		s.close(StatusBackingOff)
		s.Failures++
		s.BackOffMs, s.LastError = r.DelayMs, r.Reason
	case *Park:
		s.close(StatusParked)
		s.LastError = r.Reason
	case *Resume:
		if s.Status != StatusParked {
			return "a resume of a strand that is " + s.Status.String()
		}
		s.close(StatusReady)
		s.Attempt, s.Failures = 0, 0
	case *Lease:
		if !s.holds(r.Entry, r.Token) {
			return "the token is not the open lease"
		}
		s.LeaseMs, s.AutoRenew = r.LeaseMs, false
	case *Release:
		if !s.holds(r.Entry, r.Token) {
			return "the token is not the open lease"
		}
		s.close(StatusReady)
		if !r.Counted {
			s.Attempt--
		}
	}
	return ""
}

// finish ends the head and looks for its successor.
func (p *Progress) finish(s *Strand, token uint64, ix Index) {
	p.Finished++
	if token != 0 {
		p.done.add(token)
	}
	*s = Strand{Key: s.Key, Head: s.Head, Status: StatusReady, Seeking: true}
	// A failing index leaves the strand seeking: the finish holds, and the search is repeated.
	_, _ = p.Seek(s, ix, seekBudget)
}
