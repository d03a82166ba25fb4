//go:build unix && !linux

package vfs

import "os"

// datasync is the full sync where the system has no fdatasync, or one that stops at the drive's cache.
func datasync(f *os.File) error { return f.Sync() }
