package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// An entry on disk, little endian, number n at byte 64 n of the file:
//
//	 0  u64  position of the record
//	 8  u64  group hash, 0: none
//	16  i64  queue offset
//	24  u32  tag hash, 0: none
//	28  u32  size of the record's body
//	32  i32  queue
//	36  u32  CRC32C of bytes 0 to 35 and 40 to 47, seeded with topic and n
//	40  u64  prev + 1, 0: none
//	48  u64  next, a link
//	56  u64  next of the queue, a link
//
// A link is patched after the entry was written and is therefore not under its sum. It is 0 for none, or 48 bits of
// number + 1 under 16 check bits that belong to this field of this entry. It is believed only when the entry it names points back.
const (
	entryBytes     = 64
	entryNext      = 48
	entryQueueNext = 56
	linkBits       = 48
)

// errEntry: the bytes of an entry are not those that were written.
var errEntry = errors.New("the entry's check sum does not match")

// mix spreads the bits of x over all 64; it is a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func entrySum(b []byte, topic uint32, n int64) uint32 {
	sum := crc32.Update(uint32(mix(uint64(topic)<<40^uint64(n))), castagnoli, b[:36])
	return crc32.Update(sum, castagnoli, b[40:48])
}

// putEntry writes e, without links, into b.
func putEntry(b []byte, topic uint32, n int64, e *Entry) {
	binary.LittleEndian.PutUint64(b[0:], uint64(e.Position))
	binary.LittleEndian.PutUint64(b[8:], e.GroupHash)
	binary.LittleEndian.PutUint64(b[16:], uint64(e.QueueOffset))
	binary.LittleEndian.PutUint32(b[24:], e.TagHash)
	binary.LittleEndian.PutUint32(b[28:], e.SizeBytes)
	binary.LittleEndian.PutUint32(b[32:], uint32(e.Queue))
	binary.LittleEndian.PutUint64(b[40:], uint64(e.Prev+1))
	binary.LittleEndian.PutUint64(b[48:], 0)
	binary.LittleEndian.PutUint64(b[56:], 0)
	binary.LittleEndian.PutUint32(b[36:], entrySum(b, topic, n))
}

// getEntry reads what the sum covers; the links are NoEntry.
func getEntry(b []byte, topic uint32, n int64) (Entry, error) {
	if binary.LittleEndian.Uint32(b[36:]) != entrySum(b, topic, n) {
		return Entry{}, errEntry
	}
	return Entry{
		Position:    Position(leUint64(b[0:])),
		GroupHash:   leUint64(b[8:]),
		QueueOffset: int64(leUint64(b[16:])),
		TagHash:     binary.LittleEndian.Uint32(b[24:]),
		SizeBytes:   binary.LittleEndian.Uint32(b[28:]),
		Queue:       int32(binary.LittleEndian.Uint32(b[32:])),
		Prev:        int64(leUint64(b[40:])) - 1,
		Next:        NoEntry,
		QueueNext:   NoEntry,
	}, nil
}

func linkCheck(v uint64, n int64, field int) uint64 {
	return mix(v^uint64(n)<<8^uint64(field)<<56) >> linkBits
}

// putLink makes field (entryNext or entryQueueNext) of entry n name the entry to.
func putLink(b []byte, n int64, field int, to int64) {
	v := uint64(to + 1)
	binary.LittleEndian.PutUint64(b[field:], v|linkCheck(v, n, field)<<linkBits)
}

// getLink returns the entry that a link names; whole is false when its bytes are not a link of this field.
func getLink(b []byte, n int64, field int) (to int64, whole bool) {
	raw := leUint64(b[field:])
	if raw == 0 {
		return NoEntry, true
	}
	v := raw & (1<<linkBits - 1)
	return int64(v) - 1, v != 0 && raw>>linkBits == linkCheck(v, n, field)
}
