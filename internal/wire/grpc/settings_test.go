package grpc

import (
	"math"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keystrand/keystrand"
)

func TestProducerSettingsHaveWhatClientsNeed(t *testing.T) {
	t.Parallel()
	s := &v2.Settings{
		ClientType: v2.ClientType_PRODUCER.Enum(), RequestTimeout: durationpb.New(3 * time.Second), UserAgent: &v2.UA{Version: "5.1.4"},
		PubSub: &v2.Settings_Publishing{Publishing: &v2.Publishing{Topics: []*v2.Resource{{Name: "orders"}}}},
	}
	FillProducerSettings(s)
	policy := s.GetBackoffPolicy()
	if got := policy.GetExponentialBackoff(); policy.GetMaxAttempts() != 3 || got.GetInitial().AsDuration() != 10*time.Millisecond ||
		got.GetMax().AsDuration() != time.Second || got.GetMultiplier() != 2 {
		t.Errorf("got policy %v, want exponential 10 ms, 1 s, x2, 3 attempts", policy)
	}
	p := s.GetPublishing()
	if p.GetMaxBodySize() != 4<<20 || !p.GetValidateMessageType() || len(p.GetTopics()) != 1 || s.GetMetric().GetOn() {
		t.Errorf("got %v", s)
	}
	if s.GetUserAgent().GetVersion() != "5.1.4" || s.GetRequestTimeout().AsDuration() != 3*time.Second || s.GetClientType() != v2.ClientType_PRODUCER {
		t.Errorf("what the client said of itself is not echoed: %v", s)
	}
}

func TestConsumerSettingsComeFromTheGroup(t *testing.T) {
	t.Parallel()
	ordered := keystrand.GroupSpec{Ordered: true, MaxAttempts: 16, BackOffMin: time.Second, BackOffMax: time.Minute}
	plain := keystrand.GroupSpec{MaxAttempts: 5, BackOffMin: 1500 * time.Millisecond, BackOffMax: 90 * time.Second}
	for name, c := range map[string]struct {
		kind        v2.ClientType
		group       keystrand.GroupSpec
		fifo        bool
		attempts    int32
		first, most time.Duration
	}{
		"FIFO push reports each failure": {v2.ClientType_PUSH_CONSUMER, ordered, true, 1, time.Second, time.Minute},
		"FIFO simple":                    {v2.ClientType_SIMPLE_CONSUMER, ordered, true, 16, time.Second, time.Minute},
		"plain push, seconds rounded up": {v2.ClientType_PUSH_CONSUMER, plain, false, 5, 2 * time.Second, 90 * time.Second},
		"unlimited":                      {v2.ClientType_PUSH_CONSUMER, keystrand.GroupSpec{MaxAttempts: -1}, false, math.MaxInt32, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &v2.Settings{ClientType: c.kind.Enum(), PubSub: &v2.Settings_Subscription{Subscription: &v2.Subscription{}}}
			FillConsumerSettings(s, c.group)
			sub, policy := s.GetSubscription(), s.GetBackoffPolicy()
			if sub.GetFifo() != c.fifo || sub.Fifo == nil || sub.GetReceiveBatchSize() != 32 || sub.GetLongPollingTimeout().AsDuration() != 20*time.Second {
				t.Errorf("got subscription %v", sub)
			}
			if policy.GetMaxAttempts() != c.attempts || policy.GetExponentialBackoff().GetInitial().AsDuration() != c.first || policy.GetExponentialBackoff().GetMax().AsDuration() != c.most {
				t.Errorf("got policy %v, want %d attempts, %v to %v", policy, c.attempts, c.first, c.most)
			}
		})
	}
}
