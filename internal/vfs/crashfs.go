package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrCrashed: the world of this CrashFS was stopped; nothing works any more. Crash makes the next one.
var ErrCrashed = errors.New("the simulated machine has crashed")

// CrashFS is a file system in memory that knows what a power loss would leave. Data counts in blocks of 512 bytes: a
// write is unsynced until File.Sync, a name until SyncDir. Closing a file syncs nothing. After a failed Sync (see Faults) the blocks
// count as clean without being on the disk, as real systems have it: the next Sync succeeds and saves nothing.
//
// Invariant: a block that is not dirty and not in limbo reads the same now and after a crash.
type CrashFS struct {
	mu      sync.Mutex // guards all below, and the inodes
	names   map[string]*inode
	durable map[string]*inode // what the directories on the disk say
	pending []nameChange      // in the order they were made
	dirs    map[string]bool
	locks   map[string]bool
	stopped bool
	changes int64
	inodes  int64
	free    int64
	hook    func(Op) error
}

var _ FS = (*CrashFS)(nil)

// Op is one file operation, as the hook sees it before it happens.
type Op struct {
	// N numbers the operations that change something, from 1. A reading operation carries the number of the last change.
	N int64
	// Kind is create, open, remove, rename, mkdir, list, stat, syncdir, lock, read, write, sync or truncate.
	Kind string
	Path string
	// Changes tells whether it changes something.
	Changes bool
}

func (o Op) String() string { return fmt.Sprintf("%d %s %s", o.N, o.Kind, o.Path) }

// nameChange is a change of a directory that no SyncDir covered. from empty: create. to empty: remove.
type nameChange struct {
	from, to string
	node     *inode
}

// NewCrashFS returns an empty one.
func NewCrashFS() *CrashFS {
	return &CrashFS{
		names: map[string]*inode{}, durable: map[string]*inode{}, dirs: map[string]bool{"/": true, ".": true},
		locks: map[string]bool{}, free: 1 << 40,
	}
}

// SetHook sets a function that is called before each operation, without locks held: it may call Crash to take an image
// of this moment, and Stop. An error of it is the operation's result, and the operation does not happen.
func (c *CrashFS) SetHook(hook func(Op) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hook = hook
}

// SetFree sets what Free answers.
func (c *CrashFS) SetFree(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = bytes
}

// Stop ends this world: every later operation, of open files too, returns ErrCrashed.
func (c *CrashFS) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// StopAt lets the first n-1 changing operations happen and stops the world at the n-th.
func (c *CrashFS) StopAt(n int64) {
	c.SetHook(func(op Op) error {
		if op.Changes && op.N >= n {
			c.Stop()
			return ErrCrashed
		}
		return nil
	})
}

// Changes is how many operations that change something were begun.
func (c *CrashFS) Changes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// begin calls the hook and then takes the lock, which the caller gives back, also on an error.
func (c *CrashFS) begin(kind, name string, changes bool) error {
	c.mu.Lock()
	if changes && !c.stopped {
		c.changes++
	}
	op, hook := Op{N: c.changes, Kind: kind, Path: name, Changes: changes}, c.hook
	if hook != nil && !c.stopped {
		c.mu.Unlock()
		err := hook(op)
		c.mu.Lock()
		if err != nil {
			return &fs.PathError{Op: kind, Path: name, Err: err}
		}
	}
	if c.stopped {
		return &fs.PathError{Op: kind, Path: name, Err: ErrCrashed}
	}
	return nil
}

// Create implements FS.
func (c *CrashFS) Create(name string) (File, error) {
	name = path.Clean(name)
	err := c.begin("create", name, true)
	defer c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !c.dirs[path.Dir(name)] {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrNotExist}
	}
	node := c.names[name]
	if node != nil {
		node.truncate(0)
	} else {
		c.inodes++
		node = newInode(c.inodes)
		c.names[name] = node
		c.pending = append(c.pending, nameChange{to: name, node: node})
	}
	return &crashFile{c: c, node: node, name: name}, nil
}

// Open implements FS.
func (c *CrashFS) Open(name string) (File, error) {
	name = path.Clean(name)
	err := c.begin("open", name, false)
	defer c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	node := c.names[name]
	if node == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &crashFile{c: c, node: node, name: name}, nil
}

// Remove implements FS.
func (c *CrashFS) Remove(name string) error {
	name = path.Clean(name)
	err := c.begin("remove", name, true)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	if node := c.names[name]; node != nil {
		delete(c.names, name)
		c.pending = append(c.pending, nameChange{from: name, node: node})
		return nil
	}
	if !c.dirs[name] {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if len(c.listLocked(name)) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	delete(c.dirs, name)
	return nil
}

// Rename implements FS, for files.
func (c *CrashFS) Rename(from, to string) error {
	from, to = path.Clean(from), path.Clean(to)
	err := c.begin("rename", to, true)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	node := c.names[from]
	if node == nil || !c.dirs[path.Dir(to)] {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(c.names, from)
	c.names[to] = node
	c.pending = append(c.pending, nameChange{from: from, to: to, node: node})
	return nil
}

// MkdirAll implements FS; directories are durable at once.
func (c *CrashFS) MkdirAll(name string) error {
	name = path.Clean(name)
	err := c.begin("mkdir", name, true)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	for ; !c.dirs[name]; name = path.Dir(name) {
		if c.names[name] != nil {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		c.dirs[name] = true
	}
	return nil
}

// List implements FS.
func (c *CrashFS) List(name string) ([]string, error) {
	name = path.Clean(name)
	err := c.begin("list", name, false)
	defer c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !c.dirs[name] {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
	}
	return c.listLocked(name), nil
}

func (c *CrashFS) listLocked(dir string) []string {
	names := []string{}
	for name := range c.names {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	for name := range c.dirs {
		if path.Dir(name) == dir && name != dir {
			names = append(names, path.Base(name))
		}
	}
	sort.Strings(names)
	return names
}

// Stat implements FS.
func (c *CrashFS) Stat(name string) (fs.FileInfo, error) {
	name = path.Clean(name)
	err := c.begin("stat", name, false)
	defer c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if node := c.names[name]; node != nil {
		return crashInfo{name: path.Base(name), size: node.size}, nil
	}
	if c.dirs[name] {
		return crashInfo{name: path.Base(name), dir: true}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// SyncDir implements FS.
func (c *CrashFS) SyncDir(name string) error {
	name = path.Clean(name)
	err := c.begin("syncdir", name, true)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	if !c.dirs[name] {
		return &fs.PathError{Op: "syncdir", Path: name, Err: fs.ErrNotExist}
	}
	var rest []nameChange
	for _, n := range c.pending {
		if n.from != "" && path.Dir(n.from) == name || n.to != "" && path.Dir(n.to) == name {
			n.apply(c.durable)
		} else {
			rest = append(rest, n)
		}
	}
	c.pending = rest
	return nil
}

func (n nameChange) apply(names map[string]*inode) {
	if n.from != "" && names[n.from] == n.node {
		delete(names, n.from)
	}
	if n.to != "" {
		names[n.to] = n.node
	}
}

// Lock implements FS. The lock ends with this world: the one that Crash returns has none.
func (c *CrashFS) Lock(name string) (Unlocker, error) {
	name = path.Clean(name)
	err := c.begin("lock", name, false)
	defer c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if c.locks[name] {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	c.locks[name] = true
	return crashLock{c, name}, nil
}

type crashLock struct {
	c    *CrashFS
	name string
}

// Unlock works in a stopped world too, so that services can be closed after it.
func (l crashLock) Unlock() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	delete(l.c.locks, l.name)
	return nil
}

// Free implements FS; see SetFree.
func (c *CrashFS) Free(string) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free, nil
}

// Dump lists the files with size and what is unsynced, for a failing test's output.
func (c *CrashFS) Dump() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, name := range sortedKeys(c.names) {
		n := c.names[name]
		fmt.Fprintf(&b, "%s: %d bytes (%d synced), %d dirty blocks, %d in limbo\n", name, n.size, n.durableSize, len(n.dirty), len(n.limbo))
	}
	fmt.Fprintf(&b, "%d name changes unsynced\n", len(c.pending))
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

type crashInfo struct {
	name string
	size int64
	dir  bool
}

func (i crashInfo) Name() string       { return i.name }
func (i crashInfo) Size() int64        { return i.size }
func (i crashInfo) IsDir() bool        { return i.dir }
func (i crashInfo) ModTime() time.Time { return time.Time{} }
func (i crashInfo) Sys() any           { return nil }
func (i crashInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// Equal tells whether both hold the same names with the same bytes, as programs see them now.
func (c *CrashFS) Equal(o *CrashFS) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(c.names) != len(o.names) {
		return false
	}
	for name, n := range c.names {
		m := o.names[name]
		if m == nil || n.size != m.size || !bytes.Equal(n.all(), m.all()) {
			return false
		}
	}
	return true
}
