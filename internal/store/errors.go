package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// ErrNoSpace: the disk is at its free-space floor, or a new segment could not be made. Nothing was appended. Reserved
// batches (finishes, grants, admin records) are still taken; others succeed again when space was made. It is a
// [keystrand.ErrRetryLater].
var ErrNoSpace error = noSpaceError{}

type noSpaceError struct{}

func (noSpaceError) Error() string { return "no space: the disk is at its free-space floor" }
func (noSpaceError) Unwrap() error { return keystrand.ErrRetryLater }

// DirectoryError: the data directory cannot be opened as it is. Nothing was changed. Its text is whole, with the directory
// and what to do: who passes it on has nothing to add.
type DirectoryError struct {
	Dir   string
	text  string
	class error // keystrand.ErrLocked or keystrand.ErrRejected
	cause error
}

func (e *DirectoryError) Error() string { return e.text }

// Unwrap gives the class and the cause.
func (e *DirectoryError) Unwrap() []error { return []error{e.class, e.cause} }

// directoryError says what a failure to enter the data directory means, where more than the system's words can be said.
func directoryError(dir string, err error) error {
	e := &DirectoryError{Dir: dir, class: keystrand.ErrRejected, cause: err}
	var at *fs.PathError
	switch {
	case errors.Is(err, vfs.ErrLocked):
		e.class = keystrand.ErrLocked
		e.text = fmt.Sprintf("data directory %q is in use by another broker; stop it, or give another directory with --data (DataDir)", dir)
	case errors.Is(err, syscall.ENOTDIR) && errors.As(err, &at) && at.Path == filepath.Clean(dir):
		e.text = fmt.Sprintf("data directory %q is a file; give a directory with --data (DataDir), it is made if missing", dir)
	case errors.Is(err, syscall.ENOTDIR) && errors.As(err, &at):
		e.text = fmt.Sprintf("data directory %q: %s is a file; give a directory with --data (DataDir), it is made if missing", dir, at.Path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.text = fmt.Sprintf("data directory %q: %v; let this user write there, or give another directory with --data (DataDir)", dir, err)
	default:
		return fmt.Errorf("open the log in %s: %w", dir, err)
	}
	return e
}

// errForeign is the cause of a DirectoryError about a directory with files that no broker wrote.
var errForeign = errors.New("not a data directory")

// errPlace is why the bytes at one place are no record. Recovery takes it for the end of the log or for damage.
var (
	errNoRecord    = errors.New("no record stands here")
	errWrongPlace  = errors.New("the record belongs to another place")
	errWrongSum    = errors.New("the check sum does not match")
	errWrongLength = errors.New("the length is beyond the segment")
	errOldEpoch    = errors.New("the record is of an earlier life of the log")
	errVersion     = errors.New("the record's format version is not known to this program")
)

// corrupt says what is wrong at a place of the log.
func corrupt(pos Position, why error) error {
	return fmt.Errorf("%s: %w: %w", pos.where(), why, keystrand.ErrCorrupt)
}
