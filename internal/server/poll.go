package server

import (
	"context"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

const (
	// answerMargin is what the poll leaves of the client's deadline for the answer's way.
	answerMargin = 500 * time.Millisecond
	// requestShare is the part of the deadline that is not poll when the client names none: half of the request timeout of
	// 3 s that every official client adds to its poll.
	requestShare = 1500 * time.Millisecond
)

// pollTime is how long an empty receive is held.
//
// A client that names no poll time gets what its deadline leaves, between MinPoll and MaxPoll, and is refused when less
// than MinPoll is left: as on Apache's broker, since an official client with such a deadline would poll without rest. A client
// that names one gets it, however short, as long as it fits before its deadline: it knows what it does.
func pollTime(ctx context.Context, in *v2.ReceiveMessageRequest) (time.Duration, *v2.Status) {
	asked := in.GetLongPollingTimeout().AsDuration()
	end, hasDeadline := ctx.Deadline()
	if !hasDeadline {
		if asked <= 0 {
			asked = wire.MaxPoll
		}
		return min(asked, wire.MaxPoll), nil
	}
	left := time.Until(end)
	if asked > 0 && asked <= left-answerMargin {
		return min(asked, wire.MaxPoll), nil
	}
	if left < wire.MinPoll {
		return 0, wire.NewStatus(v2.Code_ILLEGAL_POLLING_TIME, "less than "+wire.MinPoll.String()+
			" are left of the request's deadline; raise the await duration, or name a long polling timeout that fits")
	}
	if asked <= 0 {
		asked = left - requestShare
	}
	return min(max(asked, wire.MinPoll), wire.MaxPoll, left-answerMargin), nil
}
