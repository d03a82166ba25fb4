package consumer

import (
	"context"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/clock"
)

// item is one delivery on its way through this process.
type item struct {
	delivery keystrand.Delivery
	lane     *lane
	cancel   context.CancelCauseFunc // of the running handler; nil before
	stage    stage
	// extending: a renewal is under way; whoever finishes meanwhile leaves the completion to the renewer, since the handle
	// is about to change.
	extending bool
	lost      bool // the engine said that the lease is gone
	verdict   verdict
	cause     error // of a failed attempt

	renewAt, deadlineAt clock.Mono
	links               [timelines]link
}

// stage is where an item stands.
type stage uint8

const (
	waiting stage = iota
	running
	finished
)

// verdict is what the engine is told about a delivery.
type verdict uint8

const (
	toAck     verdict = iota + 1
	toFail            // count the attempt
	toRelease         // give it back, uncounted
	toDrop            // say nothing: it is someone else's, or its lease shall end
)

// timeline numbers the lists an item can stand in.
type timeline uint8

const (
	byRenewal timeline = iota
	byDeadline
	timelines = 2
)

type link struct {
	prev, next *item
	in         bool
}

// schedule is a list of items in the order of their times. Times of one schedule are now plus a constant when an item is
// put in, so the end is always the right place and every step costs the same. (Leases of one consumer have one length; one
// that is shorter by a little is renewed late by as much.)
type schedule struct {
	line       timeline
	head, tail *item
}

func (s *schedule) push(i *item) {
	l := &i.links[s.line]
	*l = link{prev: s.tail, in: true}
	if s.tail != nil {
		s.tail.links[s.line].next = i
	} else {
		s.head = i
	}
	s.tail = i
}

func (s *schedule) remove(i *item) {
	l := &i.links[s.line]
	if !l.in {
		return
	}
	if l.prev != nil {
		l.prev.links[s.line].next = l.next
	} else {
		s.head = l.next
	}
	if l.next != nil {
		l.next.links[s.line].prev = l.prev
	} else {
		s.tail = l.prev
	}
	*l = link{}
}
