package state

import (
	"errors"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
)

// Defaults and bounds of topics and consumer groups; the words are keystrand.TopicSpec's and keystrand.GroupSpec's.
const (
	DefaultQueues        = 8
	MaxQueues            = 1024
	DefaultMaxAttempts   = 16
	UnlimitedAttempts    = -1
	DefaultPushWindow    = 64
	MaxPushWindow        = 512
	DefaultMaxProcessing = 15 * time.Minute
	MinProcessing        = time.Second
	MaxLease             = 12 * time.Hour
	DefaultBackOffMin    = time.Second
	DefaultBackOffMax    = time.Minute
	FromEarliest         = "earliest"
	FromLatest           = "latest"
	LevelGroup           = "group"
	LevelQueue           = "queue"
	PushOne              = "one"
	PushMany             = "many"
)

// CompleteTopic fills in defaults and validates the result.
func CompleteTopic(s keystrand.TopicSpec) (keystrand.TopicSpec, error) {
	setDefault(&s.Queues, DefaultQueues)
	setDefault(&s.Type, keystrand.TopicFIFO)
	return s, ValidateTopic(s)
}

// CompleteGroup fills in defaults and validates the result.
func CompleteGroup(s keystrand.GroupSpec) (keystrand.GroupSpec, error) {
	setDefault(&s.MaxAttempts, DefaultMaxAttempts)
	setDefault(&s.AtLimit, keystrand.AtLimitPark)
	setDefault(&s.From, FromEarliest)
	setDefault(&s.OrderLevel, LevelGroup)
	setDefault(&s.PushBatch, PushOne)
	setDefault(&s.PushWindow, DefaultPushWindow)
	setDefault(&s.MaxProcessing, DefaultMaxProcessing)
	if s.BackOffMin == 0 {
		s.BackOffMin = DefaultBackOffMin
		if s.BackOffMax > 0 {
			s.BackOffMin = min(s.BackOffMin, s.BackOffMax)
		}
	}
	if s.BackOffMax == 0 {
		s.BackOffMax = max(DefaultBackOffMax, s.BackOffMin)
	}
	return s, ValidateGroup(s)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// ValidateTopic reports all faults of a complete spec at once; each wraps keystrand.ErrRejected.
func ValidateTopic(s keystrand.TopicSpec) error {
	faults := []error{ValidateTopicName(s.Name, false)}
	add := adder(&faults)
	add(s.Type != keystrand.TopicFIFO && s.Type != keystrand.TopicNormal, "Type %q: %q or %q", s.Type, keystrand.TopicFIFO, keystrand.TopicNormal)
	add(s.Queues < 1 || s.Queues > MaxQueues, "Queues %d: 1 to %d", s.Queues, MaxQueues)
	return errors.Join(faults...)
}

// ValidateGroup reports all faults of a complete spec at once; each wraps keystrand.ErrRejected.
func ValidateGroup(s keystrand.GroupSpec) error {
	faults := []error{ValidateGroupName(s.Name)}
	add := adder(&faults)
	add(s.MaxAttempts != UnlimitedAttempts && (s.MaxAttempts < 1 || s.MaxAttempts > 1<<20), "MaxAttempts %d: 1 to %d, or %d for unlimited", s.MaxAttempts, 1<<20, UnlimitedAttempts)
	add(s.AtLimit != keystrand.AtLimitPark && s.AtLimit != keystrand.AtLimitDeadLetter && s.AtLimit != keystrand.AtLimitBlock,
		"AtLimit %q: %q, %q or %q", s.AtLimit, keystrand.AtLimitPark, keystrand.AtLimitDeadLetter, keystrand.AtLimitBlock)
	add(s.From != FromEarliest && s.From != FromLatest, "From %q: %q or %q", s.From, FromEarliest, FromLatest)
	add(s.OrderLevel != LevelGroup && s.OrderLevel != LevelQueue, "OrderLevel %q: %q or %q", s.OrderLevel, LevelGroup, LevelQueue)
	add(s.PushBatch != PushOne && s.PushBatch != PushMany, "PushBatch %q: %q or %q", s.PushBatch, PushOne, PushMany)
	add(s.PushWindow < 1 || s.PushWindow > MaxPushWindow, "PushWindow %d: 1 to %d", s.PushWindow, MaxPushWindow)
	add(s.MaxProcessing < MinProcessing || s.MaxProcessing > MaxLease, "MaxProcessing %v: %v to %v", s.MaxProcessing, MinProcessing, MaxLease)
	add(s.BackOffMin < time.Millisecond || s.BackOffMin > MaxLease, "BackOffMin %v: %v to %v", s.BackOffMin, time.Millisecond, MaxLease)
	add(s.BackOffMax < s.BackOffMin || s.BackOffMax > MaxLease, "BackOffMax %v: BackOffMin (%v) to %v", s.BackOffMax, s.BackOffMin, MaxLease)
	return errors.Join(faults...)
}

func adder(faults *[]error) func(bad bool, format string, args ...any) {
	return func(bad bool, format string, args ...any) {
		if bad {
			*faults = append(*faults, fmt.Errorf("%s are allowed: %w", fmt.Sprintf(format, args...), keystrand.ErrRejected))
		}
	}
}
