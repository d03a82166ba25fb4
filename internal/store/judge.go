package store

import (
	"fmt"

	"github.com/keystrand/keystrand"
)

// judge decides what recovery may do with what it finds. It is fed the log in order and touches no disk.
//
// Invariant: end is the end of the last whole batch of the unbroken chain; nothing below known may be cut.
//
// Every record says which mark was durable when it was appended. That stays true for ever, also of a record that is
// itself no longer part of the log: no recovery ever cut below such a mark. So a mark above the end of the chain means that
// durable bytes are damaged; without one, what is beyond the break was never durable and goes.
type judge struct {
	end    Position // where the log goes on
	known  Position // the highest durable mark that anything tells of
	by     Position // the record that told of it; 0: the mark file
	epoch  uint32   // the highest seen in the chain
	clean  bool     // the last record is a clean stop
	sealed bool     // the last record is a seal

	inBatch bool

	records int64
	broken  Position // where the chain broke
	why     error
	strays  int64 // whole records beyond the break
}

// record takes the next record of the chain, or tells why it is none.
func (j *judge) record(f *frame) error {
	if f.epoch < j.epoch {
		return errOldEpoch
	}
	if j.inBatch && f.kind >= firstOwnKind {
		return errBatchCut
	}
	j.claim(f)
	j.records++
	j.epoch = f.epoch
	j.inBatch = f.more
	j.clean, j.sealed = f.kind == kindClean, f.kind == kindSeal
	switch {
	case j.sealed:
		j.end = at(f.place.segment()+1, segmentStart)
	case !f.more:
		j.end = f.place + Position(f.bytes())
	}
	return nil
}

// breaks ends the chain at a place where no next record stands.
func (j *judge) breaks(place Position, why error) {
	j.broken, j.why = place, why
	j.clean = j.clean && !j.inBatch
}

// stray takes a whole record beyond the break.
func (j *judge) stray(f *frame) {
	j.strays++
	j.claim(f)
}

func (j *judge) claim(f *frame) {
	if f.durable > j.known {
		j.known, j.by = f.durable, f.place
	}
}

// verdict is nil when everything at and above end may be cut.
func (j *judge) verdict() error {
	if j.known <= j.end {
		return nil
	}
	witness := "the file " + markName
	if j.by != 0 {
		witness = fmt.Sprintf("the record at %v", j.by)
	}
	return fmt.Errorf("%s: %w, but %s tells that everything below %v was durable (%d whole records stand after the damage): %w; "+
		"nothing was changed; restore this segment from a backup, or keep this directory for examination and start with an empty one",
		j.broken.where(), j.why, witness, j.known, j.strays, keystrand.ErrCorrupt)
}
