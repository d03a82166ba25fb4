package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	iofs "io/fs"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Layout of a snapshot file, numbers little-endian. Page: docs/formats/snapshot.md.
//
//	0  magic "KSSNAP01"   8  pieces u32   12  file bytes u64   20  CRC32C of bytes 0-19 u32
//	24 each piece: kind u8 | 3 zero bytes | group u32 | topic u32 | position u64 | body bytes u64 | body | CRC32C u32 of all of it
const (
	snapshotMagic      = "KSSNAP01"
	snapshotHeadBytes  = 24
	pieceHeadBytes     = 28
	pieceBytes         = pieceHeadBytes + 4
	maxSnapshotBytes   = 4 << 30
	snapshotBytesPlace = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func isNotExist(err error) bool { return errors.Is(err, iofs.ErrNotExist) }

func encodeSnapshot(pieces []Piece) []byte {
	total := snapshotHeadBytes
	for i := range pieces {
		total += pieceBytes + len(pieces[i].Body)
	}
	b := make([]byte, 0, total)
	b = append(b, snapshotMagic...)
	b = putU32(b, uint32(len(pieces)))
	b = putU64(b, uint64(total))
	b = putU32(b, crc32.Checksum(b, castagnoli))
	for i := range pieces {
		p := &pieces[i]
		from := len(b)
		b = append(b, byte(p.Kind), 0, 0, 0)
		b = putU32(b, uint32(p.Group))
		b = putU32(b, uint32(p.Topic))
		b = putU64(b, p.Position)
		b = putU64(b, uint64(len(p.Body)))
		b = append(b, p.Body...)
		b = putU32(b, crc32.Checksum(b[from:], castagnoli))
	}
	return b
}

func readSnapshotFile(fs vfs.FS, name string) ([]Piece, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := readSnapshotBytes(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return decodeSnapshot(b)
}

// readSnapshotBytes believes the head before it allocates for the rest.
func readSnapshotBytes(f vfs.File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size < snapshotHeadBytes || size > maxSnapshotBytes {
		return nil, fmt.Errorf("%d bytes, %d to %d are possible: %w", size, snapshotHeadBytes, int64(maxSnapshotBytes), keystrand.ErrCorrupt)
	}
	var head [snapshotHeadBytes]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if err := checkSnapshotHead(head[:], uint64(size)); err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

func checkSnapshotHead(b []byte, size uint64) error {
	switch {
	case string(b[:8]) != snapshotMagic:
		return fmt.Errorf("it does not begin with %s: %w", snapshotMagic, keystrand.ErrCorrupt)
	case crc32.Checksum(b[:20], castagnoli) != binary.LittleEndian.Uint32(b[20:]):
		return fmt.Errorf("check sum of the head: %w", keystrand.ErrCorrupt)
	case binary.LittleEndian.Uint64(b[snapshotBytesPlace:]) != size:
		return fmt.Errorf("%d bytes, the head says %d: %w", size, binary.LittleEndian.Uint64(b[snapshotBytesPlace:]), keystrand.ErrCorrupt)
	}
	return nil
}

// decodeSnapshot aliases b in the pieces' bodies.
func decodeSnapshot(b []byte) ([]Piece, error) {
	if len(b) < snapshotHeadBytes {
		return nil, fmt.Errorf("%d bytes: %w", len(b), keystrand.ErrCorrupt)
	}
	if err := checkSnapshotHead(b, uint64(len(b))); err != nil {
		return nil, err
	}
	count := binary.LittleEndian.Uint32(b[8:])
	b = b[snapshotHeadBytes:]
	if uint64(count) > uint64(len(b)/pieceBytes) {
		return nil, fmt.Errorf("%d pieces in %d bytes: %w", count, len(b), keystrand.ErrCorrupt)
	}
	pieces := make([]Piece, 0, count)
	for i := range count {
		p, rest, ok := decodePiece(b)
		if !ok {
			return nil, fmt.Errorf("piece %d of %d: check sum or length: %w", i+1, count, keystrand.ErrCorrupt)
		}
		pieces, b = append(pieces, p), rest
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes after the last piece: %w", len(b), keystrand.ErrCorrupt)
	}
	if err := checkPieces(pieces); err != nil {
		return nil, err
	}
	return pieces, nil
}

func decodePiece(b []byte) (p Piece, rest []byte, ok bool) {
	if len(b) < pieceBytes {
		return p, nil, false
	}
	n := binary.LittleEndian.Uint64(b[20:])
	if n > uint64(len(b)-pieceBytes) || b[1]|b[2]|b[3] != 0 {
		return p, nil, false
	}
	end := pieceHeadBytes + int(n)
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return p, nil, false
	}
	return Piece{
		Kind: PieceKind(b[0]), Group: GroupID(binary.LittleEndian.Uint32(b[4:])), Topic: TopicID(binary.LittleEndian.Uint32(b[8:])),
		Position: binary.LittleEndian.Uint64(b[12:]), Body: b[pieceHeadBytes:end:end],
	}, b[end+4:], true
}

// checkPieces checks the invariant of Piece over a whole snapshot.
func checkPieces(pieces []Piece) error {
	var catalog *Piece
	type owner struct {
		kind PieceKind
		pair pair
	}
	seen := make(map[owner]bool, len(pieces))
	for i := range pieces {
		p := &pieces[i]
		if p.Kind == PieceCatalog {
			catalog = p
		}
		o := owner{p.Kind, pair{p.Group, p.Topic}}
		if p.Kind != PieceCatalog && p.Kind != PieceProgress || seen[o] || (p.Kind == PieceCatalog) != (o.pair == pair{}) {
			return fmt.Errorf("piece %d (kind %d, group %d, topic %d) is unknown or there twice: %w", i, p.Kind, p.Group, p.Topic, keystrand.ErrCorrupt)
		}
		seen[o] = true
	}
	if catalog == nil {
		return fmt.Errorf("no catalog among %d pieces: %w", len(pieces), keystrand.ErrCorrupt)
	}
	if catalog.Position != ReplayFrom(pieces) {
		return fmt.Errorf("the catalog was taken at %d, after another piece at %d: take it first: %w", catalog.Position, ReplayFrom(pieces), keystrand.ErrCorrupt)
	}
	return nil
}
