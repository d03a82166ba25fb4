package server

import (
	"context"
	"errors"
	"unicode/utf8"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"

	"github.com/keystrand/keystrand"
	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// ForwardMessageToDeadLetterQueue means that this attempt failed. FIFO push clients are told in their Settings that one
// attempt is all, so each failure arrives here; the broker counts it, backs off, and applies the group's policy.
//
// It is OK also for a handle that is no longer valid: clients repeat everything else each second for ever, and the failure of
// a delivery that has ended changes nothing. Only "not done, retry later" is not OK.
func (s *Server) ForwardMessageToDeadLetterQueue(ctx context.Context, in *v2.ForwardMessageToDeadLetterQueueRequest) (*v2.ForwardMessageToDeadLetterQueueResponse, error) {
	return &v2.ForwardMessageToDeadLetterQueueResponse{Status: s.forward(ctx, in)}, nil
}

func (s *Server) forward(ctx context.Context, in *v2.ForwardMessageToDeadLetterQueueRequest) *v2.Status {
	if _, fault := s.member(ctx, in.GetGroup(), in.GetTopic()); fault != nil {
		return fault
	}
	if wire.CheckHandle(in.GetReceiptHandle()) != nil {
		return wire.OK()
	}
	err := s.core.Fail(ctx, in.GetGroup().GetName(), in.GetTopic().GetName(), in.GetReceiptHandle(), reasonOf(ctx))
	if errors.Is(err, keystrand.ErrSuperseded) || errors.Is(err, keystrand.ErrRejected) {
		return wire.OK()
	}
	return wire.StatusOf(err)
}

// maxReasonBytes bounds the reason of a failure that is kept.
const maxReasonBytes = 1027

// reasonOf is why the attempt failed. The protocol's request has no place for it; Keystrand's own clients put it into the
// call's metadata.
func reasonOf(ctx context.Context) string {
	if reason := metadata.ValueFromIncomingContext(ctx, "x-ks-reason-bin"); len(reason) > 0 && len(reason[0]) <= maxReasonBytes && utf8.ValidString(reason[0]) {
		return reason[0]
	}
	return "reported as failed by its push consumer"
}
