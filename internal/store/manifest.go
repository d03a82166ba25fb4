package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
)

// manifest is what an index was at its last checkpoint. Files that it does not name, and entries at or above its count,
// do not count. Little endian:
//
//	"KSTRIDX1", u32 topic, u32 0, u64 and u64 key of the message-id hash, i64 entries, u64 position of the last entry,
//	u64 position up to which the index is whole, u64 next run id,
//	u32 queues, then per queue in growing order: i32 queue, i64 next offset, i64 last entry, i64 last entry without a group
//	u32 runs, then per run from old to new: u64 id
//	u32 pairs, then per pair in a run's order: u64 key, u64 value
//	u32 CRC32C of all before
type manifest struct {
	topic  uint32
	key    [2]uint64
	count  int64
	last   Position
	whole  Position
	nextID uint64
	queues map[int32]queueTail
	runs   []uint64
	pairs  []pair
}

// queueTail is the end of one queue. alone is the last entry without a message group.
type queueTail struct{ next, last, alone int64 }

const (
	manifestMagic = "KSTRIDX1"
	manifestName  = "manifest"
)

var errManifest = errors.New("the manifest is not as it was written")

func (m *manifest) encode() []byte {
	b := append([]byte(nil), manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, m.topic)
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, v := range []uint64{m.key[0], m.key[1], uint64(m.count), uint64(m.last), uint64(m.whole), m.nextID} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.queues)))
	for _, q := range slices.Sorted(maps.Keys(m.queues)) {
		t := m.queues[q]
		b = binary.LittleEndian.AppendUint32(b, uint32(q))
		for _, v := range []int64{t.next, t.last, t.alone} {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.runs)))
	for _, id := range m.runs {
		b = binary.LittleEndian.AppendUint64(b, id)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.pairs)))
	for _, p := range m.pairs {
		b = binary.LittleEndian.AppendUint64(b, p.key)
		b = binary.LittleEndian.AppendUint64(b, p.value)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeManifest(b []byte, topic uint32) (*manifest, error) {
	if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, errManifest
	}
	r := byteReader{b: b[:len(b)-4]}
	m := &manifest{}
	if string(r.bytes(8)) != manifestMagic || r.u32() != topic {
		return nil, errManifest
	}
	m.topic = topic
	r.u32()
	m.key = [2]uint64{r.u64(), r.u64()}
	m.count, m.last, m.whole, m.nextID = int64(r.u64()), Position(r.u64()), Position(r.u64()), r.u64()
	queues := r.count(28)
	m.queues = make(map[int32]queueTail, queues)
	for range queues {
		q := int32(r.u32())
		m.queues[q] = queueTail{int64(r.u64()), int64(r.u64()), int64(r.u64())}
	}
	for range r.count(8) {
		m.runs = append(m.runs, r.u64())
	}
	for range r.count(16) {
		m.pairs = append(m.pairs, pair{r.u64(), r.u64()})
	}
	if r.short || len(r.b) != 0 || m.count < 0 {
		return nil, errManifest
	}
	return m, nil
}

// byteReader takes numbers off the front; once it was too short everything is zero and short is set.
type byteReader struct {
	b     []byte
	short bool
}

func (r *byteReader) bytes(n int) []byte {
	if len(r.b) < n {
		r.b, r.short = nil, true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *byteReader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *byteReader) u64() uint64 { return leUint64(r.bytes(8)) }

// count reads how many items of a size follow; never more than the bytes can hold.
func (r *byteReader) count(size int) int {
	n := int(r.u32())
	if n > len(r.b)/size {
		r.short = true
		return 0
	}
	return n
}
