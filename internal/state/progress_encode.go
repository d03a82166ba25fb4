package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/keystrand/keystrand"
)

// minStrandBytes is the least that one strand takes in an encoded progress.
const minStrandBytes = 8 + 1 + 1 + 1 + 1 + 1 + 8 + 1 + 1 + 1 + 1

// Flags of an encoded strand.
const (
	flagSeeking   = 1
	flagAutoRenew = 2
)

// Encode appends the progress as a snapshot piece's body. Equal progresses have equal bytes. Layout: docs/formats/snapshot.md.
func (p *Progress) Encode(buf []byte) []byte {
	b := append(buf, bodyVersion)
	b = putUvarint(b, uint64(p.Group))
	b = putUvarint(b, uint64(p.Topic))
	b = append(b, byte(p.Mode))
	b = putBool(b, p.Begun)
	b = putVarint(b, p.Start)
	b = putVarint(b, p.Cursor)
	b = putVarint(b, p.Finished)
	b = putVarint(b, p.DeadLettered)
	b = putVarint(b, p.Filtered)
	b = putText(b, p.filter.String())
	b = putUvarint(b, uint64(len(p.Strands)))
	for _, key := range slices.Sorted(maps.Keys(p.Strands)) {
		b = putStrandState(b, p.Strands[key])
	}
	return b
}

func putStrandState(b []byte, s *Strand) []byte {
	var flags byte
	if s.Seeking {
		flags |= flagSeeking
	}
	if s.AutoRenew {
		flags |= flagAutoRenew
	}
	b = putU64(b, uint64(s.Key))
	b = putVarint(b, s.Head)
	b = putVarint(b, int64(s.Attempt))
	b = putVarint(b, int64(s.Failures))
	b = append(b, byte(s.Status), flags)
	b = putU64(b, s.Token)
	b = putVarint(b, s.LeaseMs)
	b = putVarint(b, s.BackOffMs)
	b = putText(b, s.ClientID)
	return putText(b, s.LastError)
}

// DecodeProgress reads what Encode made; its error wraps keystrand.ErrCorrupt.
func DecodeProgress(body []byte) (*Progress, error) {
	r := &reader{b: body}
	r.version()
	p := &Progress{
		Group: GroupID(r.uint32v()), Topic: TopicID(r.uint32v()), Mode: Mode(r.byte()), Begun: r.bool(),
		Start: r.varint(), Cursor: r.varint(), Finished: r.varint(), DeadLettered: r.varint(), Filtered: r.varint(),
	}
	expression := r.text()
	n := r.count(minStrandBytes)
	p.Strands = make(map[StrandKey]*Strand, n)
	last := StrandKey(0)
	for i := range n {
		s := r.strandState(p)
		if i > 0 && s.Key <= last {
			r.fail("strands not in rising order")
		}
		p.Strands[s.Key], last = s, s.Key
	}
	if r.fault == "" {
		r.checkProgress(p, expression)
	}
	if fault := r.end(); fault != "" {
		return nil, fmt.Errorf("progress of consumer group %d on topic %d: %s: %w", p.Group, p.Topic, fault, keystrand.ErrCorrupt)
	}
	return p, nil
}

func (r *reader) checkProgress(p *Progress, expression string) {
	filter, err := ParseFilter(expression)
	switch {
	case err != nil || filter.String() != expression:
		r.fail("its filter is not one that Encode writes")
	case p.Mode < ModeGroup || p.Mode > ModeUnordered:
		r.fail("unknown mode")
	case p.Start < 0 || p.Cursor < p.Start || p.Finished < 0 || p.DeadLettered < 0 || p.DeadLettered > p.Finished || p.Filtered < 0:
		r.fail("counts that cannot be")
	}
	p.filter = filter
}

func (r *reader) strandState(p *Progress) *Strand {
	s := &Strand{Key: StrandKey(r.u64()), Head: r.varint(), Attempt: r.int32v(), Failures: r.int32v(), Status: Status(r.byte())}
	flags := r.byte()
	s.Seeking, s.AutoRenew = flags&flagSeeking != 0, flags&flagAutoRenew != 0
	s.Token, s.LeaseMs, s.BackOffMs, s.ClientID, s.LastError = r.u64(), r.varint(), r.varint(), r.text(), r.text()
	switch {
	case r.fault != "":
	case s.Head < p.Start || s.Head >= p.Cursor:
		r.fail("a head outside what was read")
	case s.Status < StatusReady || s.Status > StatusParked || flags > flagSeeking|flagAutoRenew:
		r.fail("unknown status or flag of a strand")
	case s.Attempt < 0 || s.Failures < 0 || s.LeaseMs < 0 || s.BackOffMs < 0:
		r.fail("negative count or time of a strand")
	case s.Seeking && (s.Status != StatusReady || s.Attempt != 0):
		r.fail("an open head that is done")
	}
	return s
}
