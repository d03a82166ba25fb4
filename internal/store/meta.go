package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// meta is what is made once with the directory: who this log is, and the secret of its hashes.
type meta struct {
	broker  [8]byte
	key0    uint64
	key1    uint64
	isFresh bool // made by this Open
}

const metaFormat = "keystrand log 1\nbroker %016x\nhash-key %016x %016x\n"

func (m *meta) brokerID() string { return hex.EncodeToString(m.broker[:]) }

// seed is what every check sum of this log starts from.
func (m *meta) seed() uint32 { return crc32.Update(0, castagnoli, m.broker[:]) }

func (m *meta) encode() []byte {
	text := fmt.Sprintf(metaFormat, m.broker, m.key0, m.key1)
	return fmt.Appendf(nil, "%ssum %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

func decodeMeta(b []byte) (meta, error) {
	var m meta
	var broker, sum uint64
	_, err := fmt.Sscanf(string(b), metaFormat+"sum %08x\n", &broker, &m.key0, &m.key1, &sum)
	for i := range m.broker {
		m.broker[i] = byte(broker >> (56 - 8*i))
	}
	if err != nil || string(m.encode()) != string(b) {
		return meta{}, fmt.Errorf("the file is not as it was written: %w", keystrand.ErrCorrupt)
	}
	return m, nil
}

// openMeta reads the meta file, or makes it when the directory holds no log yet.
func openMeta(disk vfs.FS, dir string, haveSegments bool) (meta, error) {
	path := dir + "/meta"
	b, err := readFile(disk, path, 4096)
	switch {
	case err == nil:
		m, err := decodeMeta(b)
		if err != nil {
			return meta{}, fmt.Errorf("%s: %w; it holds the broker id and the key of all group hashes; restore it from a backup", path, err)
		}
		return m, nil
	case !errors.Is(err, fs.ErrNotExist):
		return meta{}, err
	case haveSegments:
		return meta{}, fmt.Errorf("%s is missing while log segments are there: %w; restore it from a backup", path, keystrand.ErrCorrupt)
	}
	m := meta{isFresh: true}
	var random [24]byte
	if _, err := rand.Read(random[:]); err != nil {
		return meta{}, fmt.Errorf("make the broker id: %w", err)
	}
	copy(m.broker[:], random[:8])
	m.key0, m.key1 = leUint64(random[8:]), leUint64(random[16:])
	return m, writeAside(disk, dir, "meta", m.encode())
}

// writeAside replaces the file name in dir as one step: other name, sync, rename, sync of the directory.
func writeAside(disk vfs.FS, dir, name string, b []byte) error {
	aside := dir + "/" + name + ".tmp"
	f, err := disk.Create(aside)
	if err != nil {
		return err
	}
	_, err = writeFull(f, b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := disk.Rename(aside, dir+"/"+name); err != nil {
		return err
	}
	return disk.SyncDir(dir)
}
