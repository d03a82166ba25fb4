package state

import (
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
)

// bodyVersion is the first byte of every body. A higher one was written by a later release.
const bodyVersion = 1

func (r *reader) version() {
	if v := r.byte(); r.fault == "" && v != bodyVersion {
		r.fail(fmt.Sprintf("version %d, this release reads %d", v, bodyVersion))
	}
}

// Encode appends the body of r. Layouts: docs/formats/grant.md.
func Encode(buf []byte, r Record) []byte {
	if m, ok := r.(*Message); ok {
		return encodeMessage(buf, m)
	}
	b := append(buf, bodyVersion)
	switch r := r.(type) {
	case *Boot:
		b = putUvarint(b, uint64(r.Epoch))
		b = putVarint(b, r.WallMs)
		return putBool(b, r.Clean)
	case *Topic:
		return putTopic(b, r)
	case *Group:
		b = putUvarint(b, uint64(r.ID))
		return putGroupSpec(b, &r.Spec)
	case *Subscribe:
		return putSubscribe(b, r)
	case *Grant:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		b = putU64(b, r.Token)
		b = putVarint(b, int64(r.Count))
		b = putVarint(b, int64(r.Attempt))
		b = putVarint(b, r.LeaseMs)
		b = putBool(b, r.AutoRenew)
		return putText(b, r.ClientID)
	case *Finish:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		b = putU64(b, r.Token)
		return putText(b, r.Reason)
	case *Fail:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		b = putU64(b, r.Token)
		b = putVarint(b, int64(r.Attempt))
		b = putVarint(b, r.DelayMs)
		return putText(b, r.Reason)
	case *Park:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		return putText(b, r.Reason)
	case *Resume:
		return putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
	case *DeadLetter:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		b = putU64(b, r.Token)
		b = putVarint(b, int64(r.Attempt))
		b = putText(b, r.Reason)
		return encodeMessage(b, &r.Copy)
	case *Lease:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		b = putU64(b, r.Token)
		return putVarint(b, r.LeaseMs)
	case *Release:
		b = putStrand(b, r.Group, r.Topic, r.Strand, r.Entry)
		b = putU64(b, r.Token)
		return putBool(b, r.Counted)
	}
	panic(fmt.Sprintf("state: record of unknown type %T", r))
}

func putStrand(b []byte, g GroupID, t TopicID, key StrandKey, entry int64) []byte {
	b = putUvarint(b, uint64(g))
	b = putUvarint(b, uint64(t))
	b = putU64(b, uint64(key))
	return putVarint(b, entry)
}

func putTopic(b []byte, t *Topic) []byte {
	b = putUvarint(b, uint64(t.ID))
	b = putText(b, t.Name)
	b = putText(b, string(t.Type))
	return putVarint(b, int64(t.Queues))
}

func putGroupSpec(b []byte, s *keystrand.GroupSpec) []byte {
	b = putText(b, s.Name)
	b = putBool(b, s.Ordered)
	b = putVarint(b, int64(s.MaxAttempts))
	b = putText(b, string(s.AtLimit))
	b = putText(b, s.From)
	b = putText(b, s.OrderLevel)
	b = putText(b, s.PushBatch)
	b = putVarint(b, int64(s.PushWindow))
	b = putVarint(b, int64(s.MaxProcessing))
	b = putVarint(b, int64(s.BackOffMin))
	return putVarint(b, int64(s.BackOffMax))
}

func putSubscribe(b []byte, s *Subscribe) []byte {
	b = putUvarint(b, uint64(s.Group))
	b = putUvarint(b, uint64(s.Topic))
	b = putText(b, s.Expression)
	b = putVarint(b, s.Start)
	return putVarint(b, s.Cursor)
}

func (r *reader) groupSpec() keystrand.GroupSpec {
	return keystrand.GroupSpec{
		Name: r.text(), Ordered: r.bool(), MaxAttempts: int(r.int32v()), AtLimit: keystrand.AtLimit(r.text()), From: r.text(),
		OrderLevel: r.text(), PushBatch: r.text(), PushWindow: int(r.int32v()), MaxProcessing: time.Duration(r.varint()),
		BackOffMin: time.Duration(r.varint()), BackOffMax: time.Duration(r.varint()),
	}
}
