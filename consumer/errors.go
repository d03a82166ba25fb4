package consumer

import (
	"fmt"

	"github.com/keystrand/keystrand"
)

// Causes of the end of a handler's context, by context.Cause.
var (
	// ErrHandlerTimeout: the handler ran longer than Options.HandlerTimeout. Its lease is not extended any more, so the
	// message comes again.
	ErrHandlerTimeout = fmt.Errorf("handler ran longer than its limit: %w", keystrand.ErrRetryLater)
	// ErrLeaseLost: the engine gave the strand to someone else. What the handler does now must not count.
	ErrLeaseLost = fmt.Errorf("lease lost while the handler ran: %w", keystrand.ErrLeaseExpired)
	// ErrStopped: the consumer stops and its drain time is over. The message comes again.
	ErrStopped = fmt.Errorf("consumer stops: %w", keystrand.ErrRetryLater)
)

// PanicError: the handler panicked. It is reported as a failed attempt; the process lives.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v\n%s", e.Value, e.Stack) }

// Unwrap gives the class: an attempt later may succeed.
func (e *PanicError) Unwrap() error { return keystrand.ErrRetryLater }

// DrainError: handlers ignored the end of their context, so their goroutines were left behind. Their messages come again.
type DrainError struct{ Running int }

func (e *DrainError) Error() string {
	return fmt.Sprintf("consumer stopped while %d handlers ignore the end of their context; their goroutines are left behind", e.Running)
}

// Unwrap gives the class.
func (e *DrainError) Unwrap() error { return keystrand.ErrUnknown }
