package keystrand

import "errors"

// Every error that leaves a public package is one of these five by [errors.Is], or a context error.
var (
	// ErrRetryLater: surely not done; the same call may succeed later. Keep the order of the message group while you wait.
	ErrRetryLater = errors.New("not done, retry later")
	// ErrUnknown: it may have been done. Repeat with the same message ID; the receiver recognises the repeat.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRejected: the caller's mistake; the same call will fail again until something is changed.
	ErrRejected = errors.New("rejected")
	// ErrSuperseded: someone else moved on: the lease is lost, or the version is applied already.
	ErrSuperseded = errors.New("superseded")
	// ErrCorrupt: stored bytes are not the bytes that were written. Nothing was delivered from them.
	ErrCorrupt = errors.New("stored bytes are wrong")
)

// More exact errors, each wrapped by one of the five classes.
var (
	// ErrTopicNotFound: the topic does not exist and auto-create is off. Create it first.
	ErrTopicNotFound = classed("topic not found", ErrRejected)
	// ErrGroupNotFound: the consumer group does not exist and auto-create is off. Create it first.
	ErrGroupNotFound = classed("consumer group not found", ErrRejected)
	// ErrExists: a topic or group of that name exists with other settings.
	ErrExists = classed("exists with other settings", ErrRejected)
	// ErrLeaseExpired: the receipt handle's lease has ended or the message went out again.
	ErrLeaseExpired = classed("lease expired", ErrSuperseded)
	// ErrBadHandle: the receipt handle is not one of this broker, group and topic.
	ErrBadHandle = classed("receipt handle not valid here", ErrRejected)
	// ErrMessageType: the message does not fit the topic's type (FIFO needs a message group, normal takes none).
	ErrMessageType = classed("message does not fit the topic's type", ErrRejected)
	// ErrTooLarge: a body, property or batch is over its limit.
	ErrTooLarge = classed("too large", ErrRejected)
	// ErrClosed: the thing was closed, or is closing; nothing was done.
	ErrClosed = classed("closed", ErrRetryLater)
	// ErrLocked: another broker, in this process or another one, has the data directory open. Stop it, or give another one.
	ErrLocked = classed("data directory in use", ErrRetryLater)
	// ErrReadOnly: after a failed write or sync the store takes nothing more until it is reopened and verified.
	ErrReadOnly = classed("store is read-only after a failed write", ErrRetryLater)
)

type classedError struct {
	text  string
	class error
}

func (e *classedError) Error() string { return e.text }
func (e *classedError) Unwrap() error { return e.class }

func classed(text string, class error) error { return &classedError{text, class} }

// DeliveryError is the outcome of one delivery in a call about several.
type DeliveryError struct {
	Delivery Delivery
	Err      error
}

func (e *DeliveryError) Error() string { return e.Delivery.String() + ": " + e.Err.Error() }

// Unwrap gives the outcome with its class.
func (e *DeliveryError) Unwrap() error { return e.Err }

// DeliveryErrors lists the outcomes per delivery that are joined in err. Empty: err is about the call as a whole.
func DeliveryErrors(err error) []*DeliveryError {
	switch e := err.(type) {
	case *DeliveryError:
		return []*DeliveryError{e}
	case interface{ Unwrap() []error }:
		var all []*DeliveryError
		for _, x := range e.Unwrap() {
			all = append(all, DeliveryErrors(x)...)
		}
		return all
	case interface{ Unwrap() error }:
		return DeliveryErrors(e.Unwrap())
	}
	return nil
}
