package grpc

import (
	"math"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keystrand/keystrand"
)

// ReceiveBatch is what push clients are told to ask for.
const ReceiveBatch = MaxReceive

// FillProducerSettings turns a producer's Settings into their answer. The back-off must be of the exponential arm: the
// official clients throw, assert or panic on another.
func FillProducerSettings(s *v2.Settings) {
	s.BackoffPolicy = exponential(3, 10*time.Millisecond, time.Second)
	publishing := s.GetPublishing()
	publishing.MaxBodySize = MaxBodyBytes
	publishing.ValidateMessageType = true
	s.Metric = &v2.Metric{On: false}
}

// FillConsumerSettings turns a consumer's Settings into their answer. What matters comes from the group, never from the
// client.
//
// A FIFO push client is told that one attempt is all: it then reports each failure at once instead of retrying locally,
// where later messages of its batch overtake the failed one and the broker sees nothing. Whole seconds, because some
// clients read no finer.
func FillConsumerSettings(s *v2.Settings, group keystrand.GroupSpec) {
	attempts := int32(group.MaxAttempts)
	if group.MaxAttempts <= 0 || group.MaxAttempts > math.MaxInt32 {
		attempts = math.MaxInt32
	}
	subscription := s.GetSubscription()
	subscription.Fifo = &group.Ordered
	if group.Ordered && s.GetClientType() == v2.ClientType_PUSH_CONSUMER {
		attempts = 1
	}
	batch := int32(ReceiveBatch)
	subscription.ReceiveBatchSize = &batch
	subscription.LongPollingTimeout = durationpb.New(MaxPoll)
	first := wholeSeconds(group.BackOffMin)
	s.BackoffPolicy = exponential(attempts, first, max(first, wholeSeconds(group.BackOffMax)))
	s.Metric = &v2.Metric{On: false}
}

func exponential(attempts int32, first, most time.Duration) *v2.RetryPolicy {
	return &v2.RetryPolicy{MaxAttempts: attempts, Strategy: &v2.RetryPolicy_ExponentialBackoff{
		ExponentialBackoff: &v2.ExponentialBackoff{Initial: durationpb.New(first), Max: durationpb.New(most), Multiplier: 2},
	}}
}

// wholeSeconds rounds up, to at least one second.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}
