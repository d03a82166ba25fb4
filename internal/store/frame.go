package store

import (
	"encoding/binary"
	"hash/crc32"
)

// A record on disk, little endian, starting at a multiple of 8:
//
//	 0  u32  CRC32C of bytes 4 to the end of the body, seeded with the broker id
//	 4  u32  length of the body
//	 8  u64  place: segment id << 32 | offset of this record
//	16  u64  durable mark when this record was appended
//	24  u32  epoch: the life of the log that wrote it
//	28  u8   kind
//	29  u8   flags: bit 0 = more records of this batch follow
//	30  u8   format version, 1
//	31  u8   0
//	32  ...  body, then zeros to a multiple of 8
//
// The sum covers the place, the epoch and the broker, so a record copied elsewhere, left over from an earlier life, or
// of another data directory is not a record here.
const (
	frameHeaderBytes = 32
	frameVersion     = 1
	flagMore         = 1
)

// The kinds the log keeps for itself; Append refuses them and Replay does not show them.
const (
	firstOwnKind Kind = 0xf0
	// kindLife opens a life of the log: written and synced by Open, so that the epoch is used once.
	kindLife Kind = 0xf0
	// kindSeal ends a segment: the log goes on at the start of the next one, whose name is durable.
	kindSeal Kind = 0xf1
	// kindClean is the last record of a clean stop.
	kindClean Kind = 0xf2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is a decoded header. Its body aliases the bytes it was decoded from.
type frame struct {
	kind    Kind
	more    bool
	epoch   uint32
	place   Position
	durable Position
	body    []byte
}

// bytes is the frame's size on disk.
func (f *frame) bytes() int64 { return frameBytes(len(f.body)) }

// frameBytes is the size on disk of a record with a body of n bytes.
func frameBytes(n int) int64 { return (frameHeaderBytes + int64(n) + 7) &^ 7 }

// appendFrame adds the bytes of f to buf.
func appendFrame(buf []byte, seed uint32, f *frame) []byte {
	start := len(buf)
	var head [frameHeaderBytes]byte
	buf = append(buf, head[:]...)
	buf = append(buf, f.body...)
	b := buf[start:]
	binary.LittleEndian.PutUint32(b[4:], uint32(len(f.body)))
	binary.LittleEndian.PutUint64(b[8:], uint64(f.place))
	binary.LittleEndian.PutUint64(b[16:], uint64(f.durable))
	binary.LittleEndian.PutUint32(b[24:], f.epoch)
	b[28] = byte(f.kind)
	if f.more {
		b[29] = flagMore
	}
	b[30] = frameVersion
	binary.LittleEndian.PutUint32(b, crc32.Update(seed, castagnoli, b[4:]))
	for pad := frameBytes(len(f.body)) - int64(len(b)); pad > 0; pad-- {
		buf = append(buf, 0)
	}
	return buf
}

// frameLength looks at a header of at least frameHeaderBytes and says how long the body is, or why there is no record for
// place. room is how many bytes the segment has from place on.
func frameLength(b []byte, place Position, room int64) (int, error) {
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	switch {
	case b[28] == 0 || binary.LittleEndian.Uint64(b[8:]) == 0:
		return 0, errNoRecord
	case Position(binary.LittleEndian.Uint64(b[8:])) != place:
		return 0, errWrongPlace
	case b[30] != frameVersion:
		return 0, errVersion
	case frameHeaderBytes+n > room:
		return 0, errWrongLength
	}
	return int(n), nil
}

// decodeFrame decodes the record that stands at place in b. b must hold the whole record, as frameLength tells.
func decodeFrame(b []byte, seed uint32, place Position) (frame, error) {
	if len(b) < frameHeaderBytes {
		return frame{}, errWrongLength
	}
	n, err := frameLength(b, place, int64(len(b)))
	if err != nil {
		return frame{}, err
	}
	b = b[:frameHeaderBytes+n]
	if crc32.Update(seed, castagnoli, b[4:]) != binary.LittleEndian.Uint32(b) {
		return frame{}, errWrongSum
	}
	return frame{
		kind:    Kind(b[28]),
		more:    b[29]&flagMore != 0,
		epoch:   binary.LittleEndian.Uint32(b[24:]),
		place:   place,
		durable: Position(binary.LittleEndian.Uint64(b[16:])),
		body:    b[frameHeaderBytes:],
	}, nil
}
