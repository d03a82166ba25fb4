package outbox

import (
	"fmt"

	"github.com/keystrand/keystrand"
)

// VersionError: the event's given version is not the aggregate's next one. Someone else changed the aggregate since it was
// read: roll back, read again, decide again. Its class is keystrand.ErrSuperseded.
type VersionError struct {
	Aggregate string
	Next, Got int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("aggregate %q: event has version %d, the next one is %d; someone else changed it meanwhile: read it again", e.Aggregate, e.Got, e.Next)
}

// Unwrap gives the class.
func (e *VersionError) Unwrap() error { return keystrand.ErrSuperseded }

// EventIDError: an event of that id is in the outbox already. A repeat of the same act needs no second one; another act
// needs an id of its own. Its class is keystrand.ErrRejected.
type EventIDError struct{ EventID, Aggregate string }

func (e *EventIDError) Error() string {
	return fmt.Sprintf("aggregate %q: an event with id %q is in the outbox already; ids are given once", e.Aggregate, e.EventID)
}

// Unwrap gives the class.
func (e *EventIDError) Unwrap() error { return keystrand.ErrRejected }

// TopicError: the aggregate's earlier events went to another topic. Its versions would have holes on both: give the second
// stream an aggregate name of its own. Its class is keystrand.ErrRejected.
type TopicError struct{ Aggregate, Topic, Got string }

func (e *TopicError) Error() string {
	return fmt.Sprintf("aggregate %q: its events go to topic %q, not %q; one aggregate has one topic, since each reader counts its versions", e.Aggregate, e.Topic, e.Got)
}

// Unwrap gives the class.
func (e *TopicError) Unwrap() error { return keystrand.ErrRejected }
