package state

import (
	"fmt"

	"github.com/keystrand/keystrand"
)

// MisfitError says that a record does not fit the state it is applied to: an act on a message that is not its strand's
// head, or under a token that is not the present one. In a whole log this cannot happen, so its class is ErrCorrupt.
type MisfitError struct {
	Kind   Kind
	Strand StrandKey
	Entry  int64
	Reason string
}

func (e *MisfitError) Error() string {
	return fmt.Sprintf("record of kind %d for strand %x entry %d does not fit: %s", e.Kind, uint64(e.Strand), e.Entry, e.Reason)
}

func (e *MisfitError) Unwrap() error { return keystrand.ErrCorrupt }

// corrupt is the error of every decoder here.
func corrupt(what string, kind Kind, format string, args ...any) error {
	return fmt.Errorf("%s of kind %d: %s: %w", what, kind, fmt.Sprintf(format, args...), keystrand.ErrCorrupt)
}
