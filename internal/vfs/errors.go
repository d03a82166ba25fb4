package vfs

import "errors"

// ErrLocked: another process, or another Open in this one, holds the lock. Stop it first. The store makes it a
// keystrand.ErrLocked.
var ErrLocked = errors.New("locked by another process")
