package store

import (
	"errors"
	"fmt"

	"github.com/keystrand/keystrand"
)

// ErrNoSpace: the disk is at its free-space floor, or a new segment could not be made. Nothing was appended. Reserved
// batches (finishes, grants, admin records) are still taken; others succeed again when space was made. It is a
// [keystrand.ErrRetryLater].
var ErrNoSpace error = noSpaceError{}

type noSpaceError struct{}

func (noSpaceError) Error() string { return "no space: the disk is at its free-space floor" }
func (noSpaceError) Unwrap() error { return keystrand.ErrRetryLater }

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
