package vfs

import (
	"bytes"
	"io"
	"io/fs"
	"syscall"
)

// crashBlockBytes is what a disk writes as one: a power loss keeps, loses or tears a block.
const crashBlockBytes = 512

// block is never changed once it is in an inode; nil stands for zeros.
type block [crashBlockBytes]byte

var zeroBlock block

// inode is a file's contents.
type inode struct {
	id          int64
	cur         map[int64]*block // what programs read
	durable     map[int64]*block // what the disk has
	size        int64
	durableSize int64
	// dirty holds, per block written since the last sync, its versions since then, oldest first; the last is cur. limbo
	// holds those that a failed sync left: no later sync writes them, unless they are written again.
	dirty, limbo map[int64][]*block
}

// keptVersions bounds the versions remembered of a block.
const keptVersions = 4

func newInode(id int64) *inode {
	return &inode{id: id, cur: map[int64]*block{}, durable: map[int64]*block{}, dirty: map[int64][]*block{}, limbo: map[int64][]*block{}}
}

func (n *inode) read(p []byte, off int64) int {
	total := 0
	for len(p) > 0 && off < n.size {
		b, at := off/crashBlockBytes, off%crashBlockBytes
		step := min(int64(len(p)), crashBlockBytes-at, n.size-off)
		src := n.cur[b]
		if src == nil {
			src = &zeroBlock
		}
		copy(p[:step], src[at:at+step])
		p, off, total = p[step:], off+step, total+int(step)
	}
	return total
}

func (n *inode) write(p []byte, off int64) {
	n.size = max(n.size, off+int64(len(p)))
	for len(p) > 0 {
		b, at := off/crashBlockBytes, off%crashBlockBytes
		step := min(int64(len(p)), crashBlockBytes-at)
		n.change(b, at, p[:step])
		p, off = p[step:], off+step
	}
}

// change makes the next version of a block.
func (n *inode) change(b, at int64, p []byte) {
	old := n.cur[b]
	if old == nil {
		old = &zeroBlock
	}
	_, inLimbo := n.limbo[b]
	if !inLimbo && bytes.Equal(old[at:at+int64(len(p))], p) {
		return // the same bytes: whatever a crash does to them, nobody can tell
	}
	next := *old
	copy(next[at:], p)
	version := &next
	if next == zeroBlock {
		version = nil
	}
	if version == nil {
		delete(n.cur, b)
	} else {
		n.cur[b] = version
	}
	versions := append(n.limbo[b], n.dirty[b]...)
	delete(n.limbo, b)
	versions = append(versions[:len(versions):len(versions)], version)
	if len(versions) > keptVersions {
		versions = versions[len(versions)-keptVersions:]
	}
	n.dirty[b] = versions
}

func (n *inode) truncate(size int64) {
	if size < n.size {
		for b := range n.cur {
			switch at := size - b*crashBlockBytes; {
			case at <= 0:
				n.change(b, 0, zeroBlock[:])
			case at < crashBlockBytes:
				n.change(b, at, zeroBlock[at:])
			}
		}
	}
	n.size = size
}

func (n *inode) sync() {
	for b := range n.dirty {
		if v := n.cur[b]; v != nil {
			n.durable[b] = v
		} else {
			delete(n.durable, b)
		}
	}
	clear(n.dirty)
	n.durableSize = n.size
}

// failSync is what a sync that returns an error leaves behind.
func (n *inode) failSync() {
	for b, v := range n.dirty {
		n.limbo[b] = append(n.limbo[b], v...)
	}
	clear(n.dirty)
}

func (n *inode) all() []byte {
	b := make([]byte, n.size)
	n.read(b, 0)
	return b
}

// crashFile is an open file of a CrashFS.
type crashFile struct {
	c      *CrashFS
	node   *inode
	name   string
	closed bool
}

func (f *crashFile) begin(kind string, changes bool) error {
	if err := f.c.begin(kind, f.name, changes); err != nil {
		return err
	}
	if f.closed {
		return &fs.PathError{Op: kind, Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	err := f.begin("read", false)
	defer f.c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: syscall.EINVAL}
	}
	n := f.node.read(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.begin("write", true)
	defer f.c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: syscall.EINVAL}
	}
	f.node.write(p, off)
	return len(p), nil
}

func (f *crashFile) Sync() error {
	err := f.begin("sync", true)
	defer f.c.mu.Unlock()
	if err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// LoseUnsynced makes the file look as after a sync that returned an error. Faults calls it for the errors it makes up.
func (f *crashFile) LoseUnsynced() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.node.failSync()
}

func (f *crashFile) Truncate(size int64) error {
	err := f.begin("truncate", true)
	defer f.c.mu.Unlock()
	if err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: syscall.EINVAL}
	}
	f.node.truncate(size)
	return nil
}

func (f *crashFile) Size() (int64, error) {
	err := f.begin("stat", false)
	defer f.c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.node.size, nil
}

// Close syncs nothing. It works in a stopped world too.
func (f *crashFile) Close() error {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.closed = true
	return nil
}
