package state

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Layout of a message body (version 1), all numbers little-endian; the first 53 bytes have fixed places:
//
//	0  version 1     1  topic u32     5  queue i32    9  offset i64   17 entry i64   25 stored-ms i64
//	33 born-ms i64   41 group-hash u64   49 tag-hash u32
//	53 id, group, tag, born-host (texts) | keys: count, texts | properties: count, (name, value) in rising order of names | body
const (
	placeQueue    = 5
	placeOffset   = 9
	placeEntry    = 17
	placeStoredMs = 25
	messageHead   = 53
)

func encodeMessage(b []byte, m *Message) []byte {
	b = slices.Grow(b, messageHead+len(m.ID)+len(m.Group)+len(m.Tag)+len(m.BornHost)+len(m.Body)+32)
	b = append(b, bodyVersion)
	b = putU32(b, uint32(m.Topic))
	b = putU32(b, uint32(m.Queue))
	b = putU64(b, uint64(m.Offset))
	b = putU64(b, uint64(m.Entry))
	b = putU64(b, uint64(m.StoredMs))
	b = putU64(b, uint64(m.BornMs))
	b = putU64(b, m.GroupHash)
	b = putU32(b, m.TagHash)
	b = putText(b, m.ID)
	b = putText(b, m.Group)
	b = putText(b, m.Tag)
	b = putText(b, m.BornHost)
	b = putUvarint(b, uint64(len(m.Keys)))
	for _, k := range m.Keys {
		b = putText(b, k)
	}
	b = putUvarint(b, uint64(len(m.Props)))
	if len(m.Props) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.Props)) {
			b = putText(putText(b, name), m.Props[name])
		}
	}
	return append(putUvarint(b, uint64(len(m.Body))), m.Body...)
}

// PatchMessage sets the places of a message body that Encode made with other values.
func PatchMessage(body []byte, queue int32, offset, entry, storedMs int64) {
	_ = body[messageHead-1]
	binary.LittleEndian.PutUint32(body[placeQueue:], uint32(queue))
	binary.LittleEndian.PutUint64(body[placeOffset:], uint64(offset))
	binary.LittleEndian.PutUint64(body[placeEntry:], uint64(entry))
	binary.LittleEndian.PutUint64(body[placeStoredMs:], uint64(storedMs))
}

// message reads a message; texts are copied, Body aliases what is read.
func (r *reader) message() Message {
	m := r.messageHead()
	m.ID, m.Group, m.Tag, m.BornHost = r.text(), r.text(), r.text(), r.text()
	if n := r.count(1); n > 0 {
		m.Keys = make([]string, n)
		for i := range m.Keys {
			m.Keys[i] = r.text()
		}
	}
	if n := r.count(2); n > 0 {
		m.Props = make(map[string]string, n)
		last := ""
		for i := range n {
			name := r.text()
			if i > 0 && name <= last {
				r.fail("properties not in rising order")
			}
			m.Props[name], last = r.text(), name
		}
	}
	if body := r.bytes(); len(body) > 0 {
		m.Body = body
	}
	return m
}

func (r *reader) messageHead() Message {
	r.version()
	return Message{
		Topic: TopicID(r.u32()), Queue: int32(r.u32()), Offset: int64(r.u64()), Entry: int64(r.u64()), StoredMs: int64(r.u64()),
		BornMs: int64(r.u64()), GroupHash: r.u64(), TagHash: r.u32(),
	}
}

// DecodeMessage returns the message of a KindMessage body, or the copy of a KindDeadLetter body. Texts are copied, Body
// aliases body. Its error wraps keystrand.ErrCorrupt.
func DecodeMessage(kind Kind, body []byte) (Message, error) {
	return decodeMessage(kind, body, (*reader).message)
}

// DecodePlace is DecodeMessage for who needs only what the index holds: of the texts it sets ID alone.
func DecodePlace(kind Kind, body []byte) (Message, error) {
	return decodeMessage(kind, body, func(r *reader) Message {
		m := r.messageHead()
		m.ID = r.text()
		r.b = r.b[:0]
		return m
	})
}

func decodeMessage(kind Kind, body []byte, read func(*reader) Message) (Message, error) {
	r := &reader{b: body}
	switch kind {
	case KindMessage:
	case KindDeadLetter:
		r.version()
		r.deadLetterHead()
	default:
		return Message{}, corrupt("record", kind, "not one with a message")
	}
	m := read(r)
	if fault := r.end(); fault != "" {
		return Message{}, corrupt("message", kind, "%s", fault)
	}
	return m, nil
}
