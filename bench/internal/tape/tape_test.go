package tape

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/history"
)

// sendTwo records two stored sends of one key and returns their messages.
func sendTwo(t *Tape) []keystrand.Delivery {
	out := make([]keystrand.Delivery, 2)
	for i := range out {
		id := history.ID{Producer: 1, Counter: uint32(i + 1)}
		body := []byte{byte(i)}
		e := SendEvent(history.Message{Topic: "orders", Key: "a", ID: id, Sum: history.Sum(body)})
		t.Invoke(0, &e)
		e.Queue, e.Offset = 0, int64(i)
		t.End(0, &e, nil)
		out[i] = keystrand.Delivery{
			Message: keystrand.Message{Topic: "orders", MessageGroup: "a", Body: body, Properties: map[string]string{history.PropertyID: id.String()}},
			Offset:  keystrand.Offset(i), Attempt: 1, Token: keystrand.Token{Broker: "b", Value: uint64(i + 1)}, Lease: 1e9,
		}
	}
	return out
}

// replay hands out what it holds, one at a time.
type replay struct {
	keystrand.Consumer
	left []keystrand.Delivery
}

func (r *replay) Receive(context.Context, int) ([]keystrand.Delivery, error) {
	if len(r.left) == 0 {
		return nil, nil
	}
	one := r.left[:1]
	r.left = r.left[1:]
	return one, nil
}

func (r *replay) Ack(context.Context, ...keystrand.Delivery) error { return nil }

func TestAnOrderlyRunIsJudgedPassAndOthersAreNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, violation string
		change          func([]keystrand.Delivery) []keystrand.Delivery
	}{
		{"in order", "", func(d []keystrand.Delivery) []keystrand.Delivery { return d }},
		{"the other way round", "V6", func(d []keystrand.Delivery) []keystrand.Delivery {
			d[0], d[1] = d[1], d[0]
			d[0].Token, d[1].Token = d[1].Token, d[0].Token
			return d
		}},
		{"one lost", "V1", func(d []keystrand.Delivery) []keystrand.Delivery { return d[:1] }},
		{"another body", "V2", func(d []keystrand.Delivery) []keystrand.Delivery { d[1].Body = []byte("x"); return d }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := New(1)
			w := x.Watch(&replay{left: c.change(sendTwo(x))}, "billing")
			if _, err := w.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			report, err := x.Judge(filepath.Join(t.TempDir(), "history.jsonl"))
			switch {
			case report == nil:
				t.Fatal(err)
			case c.violation == "" && err != nil:
				t.Fatal(err)
			case c.violation != "" && (err == nil || !strings.Contains(strings.Join(report.Violations, " "), c.violation)):
				t.Fatalf("error %v, violations %v, want %s", err, report.Violations, c.violation)
			}
		})
	}
}

func TestAFailedOperationHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	x := New(1)
	e := SendEvent(history.Message{Topic: "orders", Key: "a", ID: history.ID{Producer: 1, Counter: 1}})
	x.Invoke(0, &e)
	x.End(0, &e, errors.New("timeout"))
	if e.E != history.SendInfo || e.Err != "timeout" {
		t.Errorf("got %v %q, want %v", e.E, e.Err, history.SendInfo)
	}
}
