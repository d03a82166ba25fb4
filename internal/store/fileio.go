package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/keystrand/keystrand/internal/vfs"
)

func leUint64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// errShortWrite: the disk took fewer bytes than given and named no error. What it took is not to be trusted.
var errShortWrite = errors.New("short write")

// writeFull writes all of b at off. Fewer bytes are an error, whatever the disk says.
func writeFull(f vfs.File, b []byte, off int64) (int, error) {
	n, err := f.WriteAt(b, off)
	if err == nil && n != len(b) {
		err = fmt.Errorf("%w: %d of %d bytes at offset %d", errShortWrite, n, len(b), off)
	}
	return n, err
}

// readFull fills b from off; fewer bytes are io.ErrUnexpectedEOF.
func readFull(f vfs.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readFile reads a whole small file; larger than limit is an error.
func readFile(disk vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s: %d bytes, at most %d expected", path, size, limit)
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// zeros is what files are filled with.
var zeros [1 << 18]byte

// writeZeros writes n zero bytes at off.
func writeZeros(f vfs.File, off, n int64) error {
	for n > 0 {
		step := min(n, int64(len(zeros)))
		if _, err := writeFull(f, zeros[:step], off); err != nil {
			return err
		}
		off, n = off+step, n-step
	}
	return nil
}

// closeAfter closes a file whose use failed with err; what Close says adds to it.
func closeAfter(f vfs.File, err error) error { return errors.Join(err, f.Close()) }
