package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// A segment file: one block of header, then records. It is written with zeros to its full size before its first use, so
// that a sync of records never has to sync a size or a block map.
//
//	 0  8 bytes  "KSTRDLOG"
//	 8  u16      format version, 1
//	10  u16      0
//	12  u32      segment id
//	16  u64      size of the file
//	24  8 bytes  broker id
//	32  u32      CRC32C of bytes 0 to 31
const (
	segmentMagic       = "KSTRDLOG"
	segmentVersion     = 1
	segmentHeaderBytes = 36
	// segmentStart is where records begin: the header's block is never written again, so no torn record can hurt it.
	segmentStart = 4096
	segmentExt   = ".seg"
	// maxSegmentBytes keeps offsets inside 32 bits, with room to spare.
	maxSegmentBytes = 1 << 31
)

// sealBytes is what a segment keeps free for its last record.
var sealBytes = frameBytes(0)

func segmentName(id uint32) string { return fmt.Sprintf("%08x%s", id, segmentExt) }

// parseSegmentName tells the id of a segment's file name.
func parseSegmentName(name string) (uint32, bool) {
	hex, ok := strings.CutSuffix(name, segmentExt)
	if !ok || len(hex) != 8 {
		return 0, false
	}
	id, err := strconv.ParseUint(hex, 16, 32)
	return uint32(id), err == nil && id > 0 && segmentName(uint32(id)) == name
}

func encodeSegmentHeader(id uint32, size int64, broker [8]byte) []byte {
	b := make([]byte, segmentHeaderBytes)
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint16(b[8:], segmentVersion)
	binary.LittleEndian.PutUint32(b[12:], id)
	binary.LittleEndian.PutUint64(b[16:], uint64(size))
	copy(b[24:], broker[:])
	binary.LittleEndian.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
	return b
}

// openSegment opens a segment and checks that it is the one its name says, whole, and of this broker.
func openSegment(disk vfs.FS, dir string, id uint32, broker [8]byte) (*segment, error) {
	path := dir + "/" + segmentName(id)
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	s := &segment{id: id, file: f}
	if err := s.check(broker); err != nil {
		return nil, errors.Join(fmt.Errorf("log segment %d (%s): %w", id, path, err), f.Close())
	}
	return s, nil
}

func (s *segment) check(broker [8]byte) error {
	var b [segmentHeaderBytes]byte
	onDisk, err := s.file.Size()
	if err != nil {
		return err
	}
	if onDisk < segmentStart {
		return fmt.Errorf("the file has %d bytes, less than a header: %w", onDisk, keystrand.ErrCorrupt)
	}
	if err := readFull(s.file, b[:], 0); err != nil {
		return err
	}
	s.size = int64(binary.LittleEndian.Uint64(b[16:]))
	switch {
	case string(b[:8]) != segmentMagic:
		return fmt.Errorf("the file does not begin as a log segment: %w", keystrand.ErrCorrupt)
	case crc32.Checksum(b[:32], castagnoli) != binary.LittleEndian.Uint32(b[32:]):
		return fmt.Errorf("the header's check sum does not match: %w", keystrand.ErrCorrupt)
	case binary.LittleEndian.Uint16(b[8:]) != segmentVersion:
		return fmt.Errorf("format version %d, this program knows %d: %w", binary.LittleEndian.Uint16(b[8:]), segmentVersion, keystrand.ErrRejected)
	case binary.LittleEndian.Uint32(b[12:]) != s.id:
		return fmt.Errorf("the file is segment %d under another's name: %w", binary.LittleEndian.Uint32(b[12:]), keystrand.ErrCorrupt)
	case [8]byte(b[24:32]) != broker:
		return fmt.Errorf("the file is of broker %x, this directory is of broker %x: %w", b[24:32], broker, keystrand.ErrCorrupt)
	case s.size != onDisk:
		return fmt.Errorf("the file has %d bytes, it was made with %d: %w", onDisk, s.size, keystrand.ErrCorrupt)
	}
	return nil
}

// prepare makes a segment that may be used at once: zeros, header, sync, then its name and the directory's sync.
// Before the rename there is only a file that recovery removes, so no half-made segment is ever used. It gives up
// between two steps when ctx ends.
func (s *segments) prepare(ctx context.Context, id uint32, size int64) (*segment, error) {
	disk, dir := s.disk, s.dir
	path := dir + "/" + segmentName(id)
	if free, err := disk.Free(dir); err == nil && free < size {
		return nil, fmt.Errorf("log segment %d needs %d bytes, %d are free in %s", id, size, free, dir)
	}
	f, err := disk.Create(path + ".tmp")
	if err != nil {
		return nil, err
	}
	if err := fillSegment(ctx, f, encodeSegmentHeader(id, size, s.broker), size); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare log segment %d of %d bytes: %w", id, size, err), f.Close(), disk.Remove(path+".tmp"))
	}
	if err := disk.Rename(path+".tmp", path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := disk.SyncDir(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &segment{id: id, size: size, file: f}, nil
}

// fillStep is how much is filled between two syncs: the log's own syncs wait no longer than for this much.
const fillStep = 1 << 20

func fillSegment(ctx context.Context, f vfs.File, header []byte, size int64) error {
	for off := int64(0); off < size; off += fillStep {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeZeros(f, off, min(fillStep, size-off)); err != nil {
			return err
		}
		if off == 0 {
			if _, err := writeFull(f, header, 0); err != nil {
				return err
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
