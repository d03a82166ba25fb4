// Package vfs is the seam to the disk: everything that must survive goes through FS, so that tests can lose, tear and
// delay what was not synced, and count every operation.
package vfs

import "io/fs"

// FS is the little of a file system that the store needs. Paths are slash-separated and relative to nothing: as given.
// Nothing is durable before the matching Sync: file data by File.Sync, names (create, rename, remove) by SyncDir.
type FS interface {
	// Create makes the file or truncates it to zero length, open for reading and writing, mode 0600.
	Create(path string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	Remove(path string) error
	Rename(from, to string) error
	// MkdirAll makes the directory and its parents, mode 0700, and makes their names durable.
	MkdirAll(path string) error
	// List returns the names in a directory, sorted.
	List(path string) ([]string, error)
	Stat(path string) (fs.FileInfo, error)
	SyncDir(path string) error
	// Lock takes an exclusive lock named by a file that it makes; a second Lock, from any process, fails at once.
	Lock(path string) (Unlocker, error)
	// Free returns the bytes left for writing on the file system that holds path.
	Free(path string) (int64, error)
}

// File is one open file. Calls may be concurrent; overlapping writes may not.
type File interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	// Sync makes the file's data (and size) durable; fdatasync on a real disk. After an error no later success may be believed.
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
	// Close does not sync.
	Close() error
}

// Unlocker gives a lock back.
type Unlocker interface{ Unlock() error }
