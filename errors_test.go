package keystrand_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/keystrand/keystrand"
)

func TestEachExactErrorBelongsToOneClass(t *testing.T) {
	t.Parallel()
	classes := []error{keystrand.ErrRetryLater, keystrand.ErrUnknown, keystrand.ErrRejected, keystrand.ErrSuperseded, keystrand.ErrCorrupt}
	for _, c := range []struct{ exact, class error }{
		{keystrand.ErrTopicNotFound, keystrand.ErrRejected}, {keystrand.ErrGroupNotFound, keystrand.ErrRejected},
		{keystrand.ErrExists, keystrand.ErrRejected}, {keystrand.ErrLeaseExpired, keystrand.ErrSuperseded},
		{keystrand.ErrBadHandle, keystrand.ErrRejected}, {keystrand.ErrMessageType, keystrand.ErrRejected},
		{keystrand.ErrTooLarge, keystrand.ErrRejected}, {keystrand.ErrClosed, keystrand.ErrRetryLater},
		{keystrand.ErrReadOnly, keystrand.ErrRetryLater}, {keystrand.ErrLocked, keystrand.ErrRetryLater},
	} {
		wrapped := fmt.Errorf("send to topic %q: %w", "orders", c.exact)
		for _, class := range classes {
			if got, want := errors.Is(wrapped, class), class == c.class; got != want {
				t.Errorf("%v is %q: %v, want %v", c.exact, class, got, want)
			}
		}
	}
}

func TestTokensCompareWithinOneBrokerOnly(t *testing.T) {
	t.Parallel()
	a1, a2 := keystrand.Token{Broker: "a", Value: 1}, keystrand.Token{Broker: "a", Value: 2}
	b9 := keystrand.Token{Broker: "b", Value: 9}
	if !a2.Supersedes(a1) || a1.Supersedes(a2) || a1.Supersedes(a1) || b9.Supersedes(a1) || a1.Supersedes(b9) {
		t.Error("Supersedes compares the wrong way, with itself, or across brokers")
	}
	if !(keystrand.Token{}).IsZero() || a1.IsZero() || (keystrand.Token{}).String() != "none" || a2.String() != "a:2" {
		t.Errorf("zero and text: %v %v", keystrand.Token{}, a2)
	}
}

func TestAnEventSurvivesItsWayAsAMessage(t *testing.T) {
	t.Parallel()
	e := keystrand.Event{EventID: "evt-1", Aggregate: "order-1", Version: 3, Type: "Paid", TraceID: "t", Schema: "s1", Payload: []byte("x")}
	m := e.Message("orders")
	if m.MessageGroup != "order-1" || m.Tag != "Paid" || m.ID != e.Message("orders").ID {
		t.Fatalf("message %+v: group, tag or a stable id is missing", m)
	}
	back, err := keystrand.EventOf(m)
	if err != nil || back.EventID != e.EventID || back.Version != 3 || back.Aggregate != e.Aggregate || back.Type != e.Type || string(back.Payload) != "x" {
		t.Fatalf("got %+v, %v", back, err)
	}
}

func TestAnEventOfAProducerOutsideKeystrandIsRead(t *testing.T) {
	t.Parallel()
	m := keystrand.Message{ID: "m", MessageGroup: "order-1001", Tag: "OrderCreated", Keys: []string{"evt-1001-1"}, Properties: map[string]string{"aggregate_version": "1"}}
	e, err := keystrand.EventOf(m)
	if err != nil || e.EventID != "evt-1001-1" || e.Version != 1 || e.Aggregate != "order-1001" || e.Type != "OrderCreated" {
		t.Fatalf("got %+v, %v", e, err)
	}
	for _, version := range []string{"", "x", "0", "-1", "9223372036854775807"} {
		m.Properties["aggregate_version"] = version
		if _, err := keystrand.EventOf(m); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("SEC-84: version %q: %v, want ErrRejected", version, err)
		}
	}
}
