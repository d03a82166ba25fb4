package store

import "fmt"

// at makes the Position of an offset in a segment.
func at(segment uint32, offset int64) Position { return Position(segment)<<32 | Position(offset) }

func (p Position) segment() uint32 { return uint32(p >> 32) }
func (p Position) offset() int64   { return int64(p & 0xffffffff) }

// where names the place in an error.
func (p Position) where() string {
	return fmt.Sprintf("log segment %d offset %d", p.segment(), p.offset())
}

// String names the place as errors and dumps do.
func (p Position) String() string { return fmt.Sprintf("%d/%d", p.segment(), p.offset()) }
