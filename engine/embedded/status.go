package embedded

import (
	"context"
	"errors"
	"fmt"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keystrand/keystrand"
)

// exact are the codes that stand for one of our errors.
var exact = map[v2.Code]error{
	v2.Code_TOPIC_NOT_FOUND:                     keystrand.ErrTopicNotFound,
	v2.Code_CONSUMER_GROUP_NOT_FOUND:            keystrand.ErrGroupNotFound,
	v2.Code_INVALID_RECEIPT_HANDLE:              keystrand.ErrLeaseExpired,
	v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: keystrand.ErrMessageType,
	v2.Code_PAYLOAD_TOO_LARGE:                   keystrand.ErrTooLarge,
	v2.Code_MESSAGE_BODY_TOO_LARGE:              keystrand.ErrTooLarge,
	v2.Code_MESSAGE_PROPERTIES_TOO_LARGE:        keystrand.ErrTooLarge,
	v2.Code_PRECONDITION_FAILED:                 keystrand.ErrExists,
	v2.Code_HA_NOT_AVAILABLE:                    keystrand.ErrReadOnly,
	v2.Code_TOO_MANY_REQUESTS:                   keystrand.ErrRetryLater,
	v2.Code_NOT_IMPLEMENTED:                     keystrand.ErrRejected,
}

// classOf is the class of a code: the 4xxxx are the caller's fault, of the others nobody knows what was done.
func classOf(code v2.Code) error {
	if err, ok := exact[code]; ok {
		return err
	}
	if code == v2.Code_REQUEST_TIMEOUT {
		return keystrand.ErrUnknown
	}
	if code >= v2.Code_BAD_REQUEST && code < v2.Code_INTERNAL_ERROR {
		return keystrand.ErrRejected
	}
	return keystrand.ErrUnknown
}

// errorOf turns the outcome of a call into an error of ours, or nil. broken is the class of a call whose connection broke.
func errorOf(s *v2.Status, err error, broken error) error {
	if err != nil {
		return transportError(err, broken)
	}
	if s == nil {
		return fmt.Errorf("the broker's answer has no status: %w", keystrand.ErrUnknown)
	}
	return statusError(s)
}

// statusError is the error of a status that came.
func statusError(s *v2.Status) error {
	if s.GetCode() == v2.Code_OK {
		return nil
	}
	return fmt.Errorf("the broker answers %d %s: %s: %w", s.GetCode(), s.GetCode(), s.GetMessage(), classOf(s.GetCode()))
}

func transportError(err error, broken error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", err, broken)
	}
	switch status.Code(err) {
	case codes.Canceled:
		return fmt.Errorf("%w: %w", context.Canceled, broken)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, broken)
	case codes.ResourceExhausted:
		return fmt.Errorf("the broker is full: %w: %w", err, keystrand.ErrRetryLater)
	case codes.Unimplemented, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("%w: %w", err, keystrand.ErrRejected)
	}
	return fmt.Errorf("the connection to the broker failed: %w: %w", err, broken)
}
