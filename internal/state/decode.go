package state

import "github.com/keystrand/keystrand"

// Decode reads a body that Encode made. Texts are copied; Body of a message aliases body. Bytes that Encode cannot have
// made are refused; the error wraps keystrand.ErrCorrupt.
func Decode(kind Kind, body []byte) (Record, error) {
	r := &reader{b: body}
	if kind == KindMessage {
		m := r.message()
		if fault := r.end(); fault != "" {
			return nil, corrupt("record", kind, "%s", fault)
		}
		return &m, nil
	}
	r.version()
	rec := r.record(kind)
	if rec == nil {
		return nil, corrupt("record", kind, "unknown kind; a later release may have written it")
	}
	if fault := r.end(); fault != "" {
		return nil, corrupt("record", kind, "%s", fault)
	}
	return rec, nil
}

func (r *reader) record(kind Kind) Record {
	switch kind {
	case KindBoot:
		return &Boot{Epoch: r.uint32v(), WallMs: r.varint(), Clean: r.bool()}
	case KindTopic:
		t := r.topic()
		return &t
	case KindGroup:
		return &Group{ID: GroupID(r.uint32v()), Spec: r.groupSpec()}
	case KindSubscribe:
		s := r.subscribe()
		return &s
	case KindGrant:
		g, t, k, e := r.strand()
		return &Grant{Group: g, Topic: t, Strand: k, Entry: e, Token: r.u64(), Count: r.int32v(), Attempt: r.int32v(),
			LeaseMs: r.varint(), AutoRenew: r.bool(), ClientID: r.text()}
	case KindFinish:
		g, t, k, e := r.strand()
		return &Finish{Group: g, Topic: t, Strand: k, Entry: e, Token: r.u64(), Reason: r.text()}
	case KindFail:
		g, t, k, e := r.strand()
		return &Fail{Group: g, Topic: t, Strand: k, Entry: e, Token: r.u64(), Attempt: r.int32v(), DelayMs: r.varint(), Reason: r.text()}
	case KindPark:
		g, t, k, e := r.strand()
		return &Park{Group: g, Topic: t, Strand: k, Entry: e, Reason: r.text()}
	case KindResume:
		g, t, k, e := r.strand()
		return &Resume{Group: g, Topic: t, Strand: k, Entry: e}
	case KindDeadLetter:
		d := r.deadLetterHead()
		d.Copy = r.message()
		return &d
	case KindLease:
		g, t, k, e := r.strand()
		return &Lease{Group: g, Topic: t, Strand: k, Entry: e, Token: r.u64(), LeaseMs: r.varint()}
	case KindRelease:
		g, t, k, e := r.strand()
		return &Release{Group: g, Topic: t, Strand: k, Entry: e, Token: r.u64(), Counted: r.bool()}
	}
	return nil
}

func (r *reader) strand() (GroupID, TopicID, StrandKey, int64) {
	return GroupID(r.uint32v()), TopicID(r.uint32v()), StrandKey(r.u64()), r.varint()
}

func (r *reader) deadLetterHead() DeadLetter {
	g, t, k, e := r.strand()
	return DeadLetter{Group: g, Topic: t, Strand: k, Entry: e, Token: r.u64(), Attempt: r.int32v(), Reason: r.text()}
}

func (r *reader) topic() Topic {
	return Topic{ID: TopicID(r.uint32v()), Name: r.text(), Type: keystrand.TopicType(r.text()), Queues: r.int32v()}
}

func (r *reader) subscribe() Subscribe {
	return Subscribe{Group: GroupID(r.uint32v()), Topic: TopicID(r.uint32v()), Expression: r.text(), Start: r.varint(), Cursor: r.varint()}
}
