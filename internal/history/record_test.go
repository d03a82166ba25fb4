package history

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/keystrand/keystrand"
	"pgregory.net/rapid"
)

func anyEvent(t *rapid.T) Event {
	text := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 20, 80), rapid.Just("a\"b\\c\n\u2028"))
	e := newEvent(Kind(rapid.IntRange(1, int(kindCount)-1).Draw(t, "e")))
	e.N, e.T, e.P, e.Op = rapid.Uint64().Draw(t, "n"), rapid.Int64Min(-1<<60).Draw(t, "t"), rapid.Uint32().Draw(t, "p"), rapid.Uint64().Draw(t, "op")
	e.Topic, e.Group, e.Key = text.Draw(t, "topic"), text.Draw(t, "g"), text.Draw(t, "k")
	if rapid.Bool().Draw(t, "has id") {
		e.ID = ID{rapid.Uint32().Draw(t, "producer"), rapid.Uint32Min(1).Draw(t, "counter")}
	}
	e.Queue, e.Offset, e.Seq = rapid.Int32Min(-1).Draw(t, "q"), rapid.Int64Min(-1).Draw(t, "off"), rapid.Int64Min(-1).Draw(t, "seq")
	e.Token, e.Broker, e.Attempt, e.Epoch = rapid.Uint64().Draw(t, "lease"), text.Draw(t, "b"), rapid.Uint32().Draw(t, "att"), rapid.Uint32().Draw(t, "ep")
	e.Version, e.Sum, e.Since, e.Dur = rapid.Uint64().Draw(t, "ver"), rapid.Uint64().Draw(t, "sum"), rapid.Int64Min(-1<<60).Draw(t, "since"), rapid.Int64Min(0).Draw(t, "dur")
	e.Who, e.Count, e.What, e.Err = rapid.Uint32().Draw(t, "who"), rapid.Int64Min(0).Draw(t, "cnt"), text.Draw(t, "what"), text.Draw(t, "err")
	return e
}

func TestALineReadsBackAsTheEventItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyEvent(t)
		line := Append(nil, &want)
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("not one line: %q", line)
		}
		var got Event
		if err := newDecoder().decode(line[:len(line)-1], &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Fatalf("%q\n%s", line, diff)
		}
	})
}

func FuzzDecodeLine(f *testing.F) {
	for _, e := range cleanHistory() {
		f.Add(Append(nil, &e))
	}
	f.Add([]byte(`{"t":1,"p":99999999999,"e":"recv"}`))
	f.Add([]byte(` { "e" : "mark" , "what" : "\u00e4\"" } `))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e, again Event
		if newDecoder().decode(line, &e) != nil {
			return
		}
		out := Append(nil, &e)
		if err := newDecoder().decode(out[:len(out)-1], &again); err != nil {
			t.Fatalf("%q was read, its own form %q is not: %v", line, out, err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLinesThatAreNoEventsAreRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "[]", "{}", `{"e":"recv"`, `{"e":"recv"}x`, `{"e":"nothing"}`, `{"e":"recv","colour":1}`, `{"e":"recv","t":}`,
		`{"e":"recv","n":99999999999999999999}`, `{"e":"recv","p":4294967296}`, `{"e":"recv","id":[1]}`, `{"e":"recv","id":[1,0]}`, `{"e":"recv","k":"` + strings.Repeat("x", maxTextBytes+1) + `"}`,
		`{"e":"recv" "t":1}`, `{"e":"recv","k":"a`} {
		var e Event
		if err := newDecoder().decode([]byte(line), &e); !errors.Is(err, errLine) {
			t.Errorf("%.60q: got %v, want a refusal", line, err)
		}
	}
}

func TestStampsOfARecorderNeverFallAndNoLineIsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.jsonl")
	r, err := NewRecorder(path, 7)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			w := r.Worker(i)
			for range 200 {
				w.Send(Message{Topic: "t", Key: "k", ID: ID{uint32(i + 1), 1}}).OK()
			}
		})
	}
	wait.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	last, count := int64(0), 0
	if _, err := Read([]string{path}, func(e *Event) error {
		if e.T < last {
			t.Errorf("line %d: stamp %d after %d", e.N, e.T, last)
		}
		last, count = e.T, count+1
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if count != 8*200*2 {
		t.Errorf("got %d lines, want %d", count, 8*200*2)
	}
	if _, err := NewRecorder(path, 8); err == nil {
		t.Error("a second recorder opened the file of the first")
	}
}

func TestFilesAreMergedByTimeThenProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a", "{\"t\":1,\"p\":2,\"e\":\"mark\",\"what\":\"a\"}\n{\"t\":5,\"p\":2,\"e\":\"mark\",\"what\":\"d\"}\n{\"t\":6,\"p\":2,\"e\":\"ma")
	b := write("b", "{\"t\":1,\"p\":3,\"e\":\"mark\",\"what\":\"b\"}\n\n{\"t\":2,\"p\":1,\"e\":\"mark\",\"what\":\"c\"}\n")
	order := ""
	torn, err := Read([]string{b, a}, func(e *Event) error { order += e.What; return nil })
	if err != nil || order != "abcd" || torn != 1 {
		t.Errorf("got order %q, %d torn lines, %v; want abcd, 1, nil", order, torn, err)
	}
	var merged bytes.Buffer
	if err := Merge(&merged, []string{a, b}); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(merged.String(), "\n"); first != `{"n":1,"t":1,"p":2,"e":"mark","what":"a"}` {
		t.Errorf("first merged line: %s", first)
	}
	back := write("c", "{\"t\":9,\"p\":1,\"e\":\"mark\"}\n{\"t\":8,\"p\":1,\"e\":\"mark\"}\n")
	if _, err := Read([]string{back}, func(*Event) error { return nil }); err == nil {
		t.Error("a file whose stamps fall was read")
	}
	stop := errors.New("stop")
	if _, err := Read([]string{a, b}, func(*Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the reader's own error", err)
	}
}

func TestARunThatCannotBeJudgedIsUnknown(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h []Event) []Event{
		"not drained": func(h []Event) []Event { return drop(h, func(e Event) bool { return e.E == DrainEnd }) },
		"an open operation of a living process": func(h []Event) []Event {
			return drop(h, func(e Event) bool { return e.E == AckOK && e.Key == "a" && e.ID == ID{1, 5} })
		},
		"a read-back that is not whole": func(h []Event) []Event {
			for i := range h {
				if h[i].E == ReadBack && h[i].What == "log" {
					h[i].Count++
				}
			}
			return h
		},
		"a lease whose length is not known": func(h []Event) []Event {
			for i := range h {
				h[i].Dur = 0
			}
			return drop(h, func(e Event) bool { return e.E == LeaseEnd })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := judgeEvents(t, change(cleanHistory())); r.Verdict != Unknown || r.Verdict.ExitCode() != 2 {
				t.Errorf("got %s, want unknown\n%s", r.Verdict, text(t, r))
			}
		})
	}
	if _, err := Check(nil, Options{}); err == nil {
		t.Error("no file at all was judged")
	}
	if _, err := Check([]string{"/does/not/exist"}, Options{}); err == nil {
		t.Error("a missing file was judged")
	}
}

// A kill is noted before the signal: what the process does in between is its own, and what it leaves open is excused.
func TestWhatAProcessBeginsBetweenTheNoteOfItsKillAndTheSignalIsExcused(t *testing.T) {
	t.Parallel()
	h := cleanHistory()
	kill := h[find(t, h, Kill, "", "", ID{}, 1)]
	h = drop(h, func(e Event) bool { return e.E == Kill })
	last := find(t, h, Recv, "orders", "o1", ID{0, 4}, 1)
	h = after(h, last-1, kill)
	ack := h[last+1]
	ack.E, ack.Op, ack.Sum, ack.Dur = AckInv, 777, 0, 0
	if r := judgeEvents(t, after(h, last+1, ack)); r.Verdict != Pass || r.Summary.Causes.Crash != 1 {
		t.Errorf("got %s, causes %+v\n%s", r.Verdict, r.Summary.Causes, text(t, r))
	}
}

// A client that was stopped between the hand-out and its note writes it down after a newer owner wrote its own.
func TestAHandOutNotedLateIsNoViolation(t *testing.T) {
	t.Parallel()
	h := cleanHistory()
	i := find(t, h, Recv, "plain", "a", ID{1, 2}, 1)
	late := h[i]
	late.P = 8 * WorkersPerProcess
	for j := range h { // tokens of the later ones move up by one, so that the late one has its own
		if h[j].Token >= late.Token && h[j].Token > 0 {
			h[j].Token++
		}
	}
	j := find(t, h, AckOK, "plain", "a", ID{1, 4}, 1)
	h = after(h, j, late)
	r := judgeStamped(t, h, stamps{since: map[int]int{j + 1: i - 1}})
	if r.Verdict != Pass || r.Summary.SeenLate != 1 {
		t.Errorf("got %s, %d seen late, want pass, 1\n%s", r.Verdict, r.Summary.SeenLate, text(t, r))
	}
	r = judgeEvents(t, h)
	if got := strings.Join(r.Violations, " "); got != "V10" {
		t.Errorf("the same with a call that began after the newer hand-out: got %q, want V10", got)
	}
}

type stubEngine struct {
	keystrand.Engine
	err error
}

func (s stubEngine) Producer(context.Context) (keystrand.Producer, error) {
	return stubProducer{s.err}, nil
}
func (s stubEngine) Consumer(context.Context, keystrand.ConsumerOptions) (keystrand.Consumer, error) {
	return stubConsumer{s.err}, nil
}

type stubProducer struct{ err error }

func (s stubProducer) Send(context.Context, ...keystrand.Message) ([]keystrand.Receipt, error) {
	return []keystrand.Receipt{{Queue: 3, Offset: 9}}, s.err
}
func (stubProducer) Close() error { return nil }

type stubConsumer struct{ err error }

func (stubConsumer) Receive(context.Context, int) ([]keystrand.Delivery, error) {
	return []keystrand.Delivery{stubDelivery}, nil
}
func (s stubConsumer) Ack(context.Context, ...keystrand.Delivery) error      { return s.err }
func (s stubConsumer) Fail(context.Context, keystrand.Delivery, error) error { return s.err }
func (s stubConsumer) Extend(_ context.Context, d keystrand.Delivery, _ time.Duration) (keystrand.Delivery, error) {
	return d, s.err
}
func (stubConsumer) Close() error { return nil }

var stubDelivery = keystrand.Delivery{Message: keystrand.Message{Topic: "t", MessageGroup: "k", Body: []byte("b"), Properties: map[string]string{"version": "4"}},
	Queue: 3, Offset: 9, Attempt: 2, Token: keystrand.Token{Broker: "b", Value: 5}, Lease: time.Second}

func TestAWatchedEngineRecordsWhatItsClientsDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "send.inv send.ok recv renew.inv renew.ok nack.inv nack.ok ack.inv ack.ok"},
		{keystrand.ErrUnknown, "send.inv send.info recv renew.inv renew.info nack.inv nack.info ack.inv ack.info"},
		{keystrand.ErrLeaseExpired, "send.inv send.fail recv renew.inv renew.fail nack.inv nack.fail ack.inv ack.fail"},
		{context.DeadlineExceeded, "send.inv send.info recv renew.inv renew.info nack.inv nack.info ack.inv ack.info"},
	} {
		path := filepath.Join(t.TempDir(), "h.jsonl")
		r, err := NewRecorder(path, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		engine := Watch(stubEngine{err: c.err}, r, 5)
		p, err := engine.Producer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		consumer, err := engine.Consumer(ctx, keystrand.ConsumerOptions{Group: "g", Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []error{
			second(p.Send(ctx, stubDelivery.Message)), second(consumer.Receive(ctx, 1)), second(consumer.Extend(ctx, stubDelivery, time.Second)),
			consumer.Fail(ctx, stubDelivery, errors.New("no")), consumer.Ack(ctx, stubDelivery), r.Close(),
		} {
			if got != nil && !errors.Is(got, c.err) {
				t.Errorf("got %v, want %v", got, c.err)
			}
		}
		var kinds []string
		if _, err := Read([]string{path}, func(e *Event) error {
			kinds = append(kinds, e.E.String())
			if e.ID != (ID{0, 4}) || e.Key != "k" || e.E == Recv && (e.Token != 5 || e.Since == 0 || e.Dur != int64(time.Second)) {
				t.Errorf("%s", lineOf(e))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%v:\n got %s\nwant %s", c.err, got, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
