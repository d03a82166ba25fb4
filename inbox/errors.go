package inbox

import (
	"fmt"

	"github.com/keystrand/keystrand"
)

// GapError: versions between the applied one and this one are missing, and the event was not parked: the inbox refuses
// gaps, or the gap buffer is full. The engine brings the event again; until then look for what is missing. Its class is
// keystrand.ErrRetryLater.
type GapError struct {
	Aggregate    string
	Applied, Got int64
	// Full says that the gap buffer was the reason: "" or which bound.
	Full string
}

func (e *GapError) Error() string {
	text := fmt.Sprintf("aggregate %q: applied version is %d, got %d: versions %d to %d are missing", e.Aggregate, e.Applied, e.Got, e.Applied+1, e.Got-1)
	if e.Full != "" {
		text += "; it cannot wait, since the gap buffer is full: " + e.Full
	}
	return text
}

// Unwrap gives the class.
func (e *GapError) Unwrap() error { return keystrand.ErrRetryLater }

// TransitionError: the state machine has no such transition. Delivering the event again does not help: park it or send
// what should have come before. Its class is keystrand.ErrRejected.
//
// The engine does not know that: a consumer's handler that returns this error has a failed attempt as any other, and the
// event comes again until the consumer group's attempts are used up, with the default settings after some ten minutes. Only
// then its message group is parked or the event goes to the dead letters. A handler that finds this error by errors.As may
// instead write the event down for a person and return nil.
type TransitionError struct {
	Aggregate, State, EventType string
	Version                     int64
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("aggregate %q version %d: in state %q an event %q is not allowed", e.Aggregate, e.Version, e.State, e.EventType)
}

// Unwrap gives the class.
func (e *TransitionError) Unwrap() error { return keystrand.ErrRejected }

// TokenError: the delivery's lease was lost, a later owner of the strand has been here. Neither acknowledge nor fail the
// delivery: it is not yours any more. Its class is keystrand.ErrSuperseded.
type TokenError struct {
	Aggregate   string
	Stored, Got keystrand.Token
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("aggregate %q: the delivery has token %v, but %v has been here: its lease was lost", e.Aggregate, e.Got, e.Stored)
}

// Unwrap gives the class.
func (e *TokenError) Unwrap() error { return keystrand.ErrSuperseded }

// PendingError: a parked event that this transaction would have applied failed; nothing was applied. Err says why and gives
// the class.
type PendingError struct {
	Aggregate string
	Version   int64
	EventID   string
	Err       error
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("aggregate %q: event %q, version %d, waits in the gap buffer and now fails: %v", e.Aggregate, e.EventID, e.Version, e.Err)
}

// Unwrap gives the cause.
func (e *PendingError) Unwrap() error { return e.Err }
