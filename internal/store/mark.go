package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/keystrand/keystrand/internal/vfs"
)

// markFile keeps the durable mark outside the log, so that damage to the very last durable record is seen although no
// record after it tells of it. It is written after each sync and not synced itself: it survives the process at once and a power
// loss after the system's own write-back. Two slots in turn, so that a torn write leaves the one before.
//
//	0  u32 CRC32C of bytes 4 to 27, seeded with the broker id
//	4  u32 epoch
//	8  u64 number of this write; the higher one counts
//	16 u64 durable mark
//	24 u32 0x4b524d44
type markFile struct {
	file vfs.File
	seed uint32
	n    uint64
	buf  [markBytes]byte
}

const (
	markBytes    = 28
	markMagic    = 0x4b524d44
	markSlotStep = 4096
	markName     = "durable"
)

// readMark returns the newest mark that the file holds, and its number; 0 when there is none. A slot that is not whole
// counts as not written: the other slot and the log itself tell.
func readMark(disk vfs.FS, dir string, seed uint32) (newest Position, number uint64, err error) {
	f, err := disk.Open(dir + "/" + markName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the durable mark: %w", err)
	}
	defer f.Close() // read only
	for slot := range int64(2) {
		var b [markBytes]byte
		switch err := readFull(f, b[:], slot*markSlotStep); {
		case errors.Is(err, io.ErrUnexpectedEOF):
			continue
		case err != nil:
			return 0, 0, fmt.Errorf("read the durable mark: %w", err)
		}
		if binary.LittleEndian.Uint32(b[24:]) != markMagic || crc32.Update(seed, castagnoli, b[4:]) != binary.LittleEndian.Uint32(b[:]) {
			continue
		}
		if n := leUint64(b[8:]); n >= number {
			number, newest = n, Position(leUint64(b[16:]))
		}
	}
	return newest, number, nil
}

// openMarks opens the file for writing marks after the one with the given number, making it first if need be. It gets
// its full size once, so that a mark never needs space later.
func openMarks(disk vfs.FS, dir string, seed uint32, number uint64) (markFile, error) {
	m := markFile{seed: seed, n: number}
	path := dir + "/" + markName
	var err error
	m.file, err = disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		m.file, err = disk.Create(path)
	}
	if err != nil {
		return markFile{}, fmt.Errorf("open the durable mark: %w", err)
	}
	size, err := m.file.Size()
	if err == nil && size < 2*markSlotStep {
		err = writeZeros(m.file, size, 2*markSlotStep-size)
		if err == nil {
			err = errors.Join(m.file.Sync(), disk.SyncDir(dir))
		}
	}
	if err != nil {
		return markFile{}, errors.Join(fmt.Errorf("make the durable mark: %w", err), m.file.Close())
	}
	return m, nil
}

func (m *markFile) put(mark Position, epoch uint32) error {
	m.n++
	b := m.buf[:]
	binary.LittleEndian.PutUint32(b[4:], epoch)
	binary.LittleEndian.PutUint64(b[8:], m.n)
	binary.LittleEndian.PutUint64(b[16:], uint64(mark))
	binary.LittleEndian.PutUint32(b[24:], markMagic)
	binary.LittleEndian.PutUint32(b, crc32.Update(m.seed, castagnoli, b[4:]))
	if _, err := writeFull(m.file, b, int64(m.n%2)*markSlotStep); err != nil {
		return fmt.Errorf("write the durable mark: %w", err)
	}
	return nil
}

func (m *markFile) sync() error {
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("sync the durable mark: %w", err)
	}
	return nil
}

func (m *markFile) close() error { return m.file.Close() }
