package state

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Primitives of every body on disk: fixed-width little-endian numbers where a place must be patchable or values are
// large, minimal unsigned varints elsewhere (signed ones zig-zag), and texts as varint length plus bytes. Each value has
// exactly one encoding, so equal states have equal bytes.

func putUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }
func putVarint(b []byte, v int64) []byte   { return binary.AppendVarint(b, v) }
func putU64(b []byte, v uint64) []byte     { return binary.LittleEndian.AppendUint64(b, v) }
func putU32(b []byte, v uint32) []byte     { return binary.LittleEndian.AppendUint32(b, v) }

func putText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// reader takes values from a body. After the first fault every further value is zero and fault says what was wrong.
//
// Invariant: nothing is allocated for a length before that many bytes are known to be there.
type reader struct {
	b     []byte
	fault string
}

func (r *reader) fail(fault string) {
	if r.fault == "" {
		r.fault = fault
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) < 1 {
		r.fail("cut short")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail("a flag is neither 0 nor 1")
	}
	return v == 1
}

func (r *reader) u32() uint32 {
	if len(r.b) < 4 {
		r.fail("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

func (r *reader) u64() uint64 {
	if len(r.b) < 8 {
		r.fail("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("bad varint")
		return 0
	}
	if n != max(1, (bits.Len64(v)+6)/7) {
		r.fail("varint longer than needed")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) uint32v() uint32 {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.fail("number over 32 bits")
	}
	return uint32(v)
}

func (r *reader) int32v() int32 {
	v := r.varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.fail("number over 32 bits")
	}
	return int32(v)
}

// bytes aliases the body.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail("length over what is left")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string { return string(r.bytes()) }

// count reads how many items of at least minBytes each follow.
func (r *reader) count(minBytes int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/minBytes) {
		r.fail("count over what is left")
		return 0
	}
	return int(n)
}

// end returns the fault, or that bytes are left over.
func (r *reader) end() string {
	if r.fault == "" && len(r.b) > 0 {
		r.fail("bytes left over")
	}
	return r.fault
}
