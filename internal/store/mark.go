package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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

// openMarks opens or makes the file and returns the newest mark, 0 when there is none.
func openMarks(disk vfs.FS, dir string, seed uint32) (markFile, Position, error) {
	m := markFile{seed: seed}
	path := dir + "/" + markName
	var err error
	m.file, err = disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		m.file, err = disk.Create(path)
	}
	if err == nil {
		err = m.fill(disk, dir)
	}
	if err != nil {
		return m, 0, fmt.Errorf("open the durable mark: %w", err)
	}
	var newest Position
	for slot := range int64(2) {
		var b [markBytes]byte
		if err := readFull(m.file, b[:], slot*markSlotStep); err != nil {
			continue // not written yet, or cut: the other slot and the log itself tell
		}
		if binary.LittleEndian.Uint32(b[24:]) != markMagic || crc32.Update(seed, castagnoli, b[4:]) != binary.LittleEndian.Uint32(b[:]) {
			continue
		}
		if n := leUint64(b[8:]); n >= m.n {
			m.n, newest = n, Position(leUint64(b[16:]))
		}
	}
	return m, newest, nil
}

// fill gives the file its full size once, so that a mark never needs space later.
func (m *markFile) fill(disk vfs.FS, dir string) error {
	size, err := m.file.Size()
	if err != nil || size >= 2*markSlotStep {
		return err
	}
	if err := writeZeros(m.file, size, 2*markSlotStep-size); err != nil {
		return err
	}
	if err := m.file.Sync(); err != nil {
		return err
	}
	return disk.SyncDir(dir)
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
