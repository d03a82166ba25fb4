package state

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// PieceKind tells the pieces of a snapshot apart. Numbers are on disk.
type PieceKind uint8

// The piece kinds.
const (
	PieceCatalog  PieceKind = 1 // Catalog.Encode; group and topic are 0
	PieceProgress PieceKind = 2 // Progress.Encode of (Group, Topic)
)

// Piece is one part of a snapshot, taken at its own moment.
//
// Invariant: Body holds exactly the records below Position; the catalog's Position is the smallest, so that every
// subscription in it was there when the progresses were taken.
type Piece struct {
	Kind     PieceKind
	Group    GroupID
	Topic    TopicID
	Position uint64
	Body     []byte
}

// Holds reports whether the piece has the record at position already.
func (p *Piece) Holds(position uint64) bool { return position < p.Position }

// ReplayFrom is the lowest position from which replay must start to bring all pieces up to date; 0 without pieces.
func ReplayFrom(pieces []Piece) uint64 {
	if len(pieces) == 0 {
		return 0
	}
	from := uint64(math.MaxUint64)
	for i := range pieces {
		from = min(from, pieces[i].Position)
	}
	return from
}

const (
	snapshotPrefix = "snapshot-"
	snapshotSuffix = ".ks"
	snapshotTemp   = "snapshot.tmp"
	snapshotsKept  = 2
	// snapshotAsideSuffix marks snapshots that must not be used again.
	snapshotAsideSuffix = ".aside"
)

// WriteSnapshot puts a new snapshot into dir: written aside, synced, renamed, directory synced; then all but the two newest
// are removed. Requires: the log is durable up to the largest Position, so that no snapshot knows more than the log. One
// caller at a time. After an error the snapshots that were there are still whole.
func WriteSnapshot(fs vfs.FS, dir string, pieces []Piece) error {
	if err := checkPieces(pieces); err != nil {
		return fmt.Errorf("snapshot in %q: %w", dir, err)
	}
	if err := fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("snapshot directory %q: %w", dir, err)
	}
	numbers, err := snapshotNumbers(fs, dir)
	if err != nil {
		return err
	}
	number := uint64(1)
	if len(numbers) > 0 {
		number = numbers[0] + 1
	}
	aside := path.Join(dir, snapshotTemp)
	if err := writeWhole(fs, aside, encodeSnapshot(pieces)); err != nil {
		return fmt.Errorf("snapshot %q: %w", aside, err)
	}
	if err := fs.Rename(aside, path.Join(dir, snapshotName(number))); err != nil {
		return fmt.Errorf("snapshot %d in %q: %w", number, dir, err)
	}
	if err := fs.SyncDir(dir); err != nil {
		return fmt.Errorf("snapshot %d in %q: sync of the directory: %w", number, dir, err)
	}
	if len(numbers) >= snapshotsKept {
		for _, old := range numbers[snapshotsKept-1:] {
			if err := fs.Remove(path.Join(dir, snapshotName(old))); err != nil {
				return fmt.Errorf("snapshot %d in %q is in place, but an old one was not removed: %w", number, dir, err)
			}
		}
	}
	return nil
}

func writeWhole(fs vfs.FS, name string, content []byte) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Recovered is what a directory of snapshots yields.
type Recovered struct {
	// Pieces of the newest whole snapshot; nil when none was ever written.
	Pieces []Piece
	// Problems are newer snapshots that were passed over, each with its reason. They were renamed, bytes kept, so that they
	// cannot come back: what this process records does not follow from them.
	Problems []error
}

// ReadSnapshot is RecoverSnapshot without a bound and without the list of problems.
func ReadSnapshot(fs vfs.FS, dir string) ([]Piece, error) {
	r, err := RecoverSnapshot(fs, dir, math.MaxUint64)
	return r.Pieces, err
}

// RecoverSnapshot returns the newest snapshot that is whole and has no piece above end, the end of the log: a higher one
// tells of records that the disk has lost, and whose positions will be given again. When there are snapshots and none will
// do, the error wraps keystrand.ErrCorrupt and nothing is changed; the caller must not go on from zero then, unless the
// log still begins at its first record. A file that cannot be read for another reason than its content is an error too,
// since it may be readable again tomorrow.
func RecoverSnapshot(fs vfs.FS, dir string, end uint64) (Recovered, error) {
	if _, err := fs.Stat(dir); err != nil {
		if isNotExist(err) {
			return Recovered{}, nil
		}
		return Recovered{}, fmt.Errorf("snapshot directory %q: %w", dir, err)
	}
	numbers, err := snapshotNumbers(fs, dir)
	if err != nil {
		return Recovered{}, err
	}
	var r Recovered
	for i, n := range numbers {
		name := path.Join(dir, snapshotName(n))
		pieces, err := readSnapshotFile(fs, name)
		if err == nil {
			err = checkBelow(pieces, end)
		}
		if err == nil {
			r.Pieces = pieces
			return r, setAside(fs, dir, numbers[:i])
		}
		err = fmt.Errorf("snapshot %q: %w", name, err)
		if !errors.Is(err, keystrand.ErrCorrupt) {
			return Recovered{}, err
		}
		r.Problems = append(r.Problems, err)
	}
	if len(numbers) > 0 {
		return Recovered{}, fmt.Errorf("none of %d snapshots in %q is whole; restore one, or remove the directory if the log is complete from its first record: %w",
			len(numbers), dir, errors.Join(r.Problems...))
	}
	return r, nil
}

// setAside renames snapshots so that they are snapshots no more.
func setAside(fs vfs.FS, dir string, numbers []uint64) error {
	if len(numbers) == 0 {
		return nil
	}
	for _, n := range numbers {
		name := path.Join(dir, snapshotName(n))
		if err := fs.Rename(name, name+snapshotAsideSuffix); err != nil {
			return fmt.Errorf("snapshot %q could not be set aside: %w", name, err)
		}
	}
	if err := fs.SyncDir(dir); err != nil {
		return fmt.Errorf("snapshot directory %q: %w", dir, err)
	}
	return nil
}

func checkBelow(pieces []Piece, end uint64) error {
	for i := range pieces {
		if pieces[i].Position > end {
			return fmt.Errorf("it reaches position %d, the log ends at %d: %w", pieces[i].Position, end, keystrand.ErrCorrupt)
		}
	}
	return nil
}

func snapshotName(n uint64) string {
	return fmt.Sprintf("%s%016x%s", snapshotPrefix, n, snapshotSuffix)
}

// snapshotNumbers lists the snapshots in dir, newest first. Other names are not ours and are left alone.
func snapshotNumbers(fs vfs.FS, dir string) ([]uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("snapshot directory %q: %w", dir, err)
	}
	var numbers []uint64
	for i := len(names) - 1; i >= 0; i-- { // sorted by name, which is by number
		hex, ok := strings.CutPrefix(names[i], snapshotPrefix)
		if !ok {
			continue
		}
		if hex, ok = strings.CutSuffix(hex, snapshotSuffix); !ok || len(hex) != 16 {
			continue
		}
		if n, err := strconv.ParseUint(hex, 16, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}
