package sequencer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// running is a sequencer with its loop.
type running struct {
	*sequencer.Sequencer
	tasks *task.Group
}

func start(t *testing.T, dir string, change func(*sequencer.Options)) *running {
	t.Helper()
	o := sequencer.Options{FS: vfs.OS{}, Dir: dir, RestartHold: -1}
	if change != nil {
		change(&o)
	}
	s, err := sequencer.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{s, task.NewGroup(context.Background())}
	r.tasks.Go("sequencer", s.Run)
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.tasks.Stop(), r.Close()); err != nil {
		t.Error(err)
	}
}

func (r *running) create(t *testing.T, group keystrand.GroupSpec) {
	t.Helper()
	ctx := t.Context()
	if err := r.CreateTopic(ctx, keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO, Queues: 4}); err != nil {
		t.Fatal(err)
	}
	group.Name, group.Ordered = "g", true
	if err := r.CreateGroup(ctx, group); err != nil {
		t.Fatal(err)
	}
}

func (r *running) send(t *testing.T, group string, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		if _, err := r.Send(t.Context(), "orders", []keystrand.Message{{ID: b, MessageGroup: group, Body: []byte(b)}}, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *running) receive(t *testing.T, most int, wait, lease time.Duration) []keystrand.Delivery {
	t.Helper()
	got, err := r.Receive(t.Context(), sequencer.Receive{Group: "g", Topic: "orders", Max: most, Wait: wait, Lease: lease, ClientID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (r *running) ack(t *testing.T, d ...keystrand.Delivery) {
	t.Helper()
	for _, one := range d {
		if err := r.Ack(t.Context(), "g", "orders", one.ReceiptHandle)[0]; err != nil {
			t.Fatal(err)
		}
	}
}

func ids(deliveries []keystrand.Delivery) string {
	out := ""
	for _, d := range deliveries {
		out += d.ID + " "
	}
	return out
}

func TestOnlyTheGroupOfAnUnfinishedMessageWaits(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	r.create(t, keystrand.GroupSpec{})
	r.send(t, "A", "A1", "A2")
	r.send(t, "B", "B1", "B2")
	first := r.receive(t, 10, time.Second, time.Minute)
	if got := ids(first); got != "A1 B1 " {
		t.Fatalf("got %q, want the head of each group", got)
	}
	r.ack(t, first[1])
	second := r.receive(t, 10, time.Second, time.Minute)
	if got := ids(second); got != "B2 " {
		t.Fatalf("got %q, want B2 only: A1 is unfinished", got)
	}
	if got := r.receive(t, 10, 50*time.Millisecond, time.Minute); len(got) != 0 {
		t.Fatalf("got %q, want nothing", ids(got))
	}
	r.ack(t, first[0])
	if got := ids(r.receive(t, 10, time.Second, time.Minute)); got != "A2 " {
		t.Fatalf("got %q, want A2", got)
	}
}

func TestAGroupThatExistsWithOtherSettingsSaysWhichDiffer(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	r.create(t, keystrand.GroupSpec{})
	if err := r.CreateGroup(t.Context(), keystrand.GroupSpec{Name: "g", Ordered: true}); err != nil {
		t.Fatalf("the same settings again: %v", err)
	}
	err := r.CreateGroup(t.Context(), keystrand.GroupSpec{Name: "g", MaxAttempts: 3})
	want := `create group "g": Ordered is true, asked for false; MaxAttempts is 16, asked for 3: exists with other settings`
	if !errors.Is(err, keystrand.ErrExists) || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
}

func TestAckAfterLeaseExpiryIsRejected(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	r.create(t, keystrand.GroupSpec{})
	r.send(t, "A", "A1", "A2")
	old := r.receive(t, 1, time.Second, 30*time.Millisecond)
	again := r.receive(t, 1, 5*time.Second, time.Minute)
	if ids(again) != "A1 " || again[0].Attempt != 2 || !again[0].Token.Supersedes(old[0].Token) {
		t.Fatalf("got %v token %v, want A1 as attempt 2 with a token above %v", again, again[0].Token, old[0].Token)
	}
	if err := r.Ack(t.Context(), "g", "orders", old[0].ReceiptHandle)[0]; !errors.Is(err, keystrand.ErrLeaseExpired) || !errors.Is(err, keystrand.ErrSuperseded) {
		t.Fatalf("ack with the old handle: %v, want ErrLeaseExpired", err)
	}
	r.ack(t, again[0], again[0]) // the repeat of an ack that took effect is no error
}

func TestHandleOfAnotherGroupOrBentIsRefused(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	r.create(t, keystrand.GroupSpec{})
	if err := r.CreateGroup(t.Context(), keystrand.GroupSpec{Name: "other", Ordered: true}); err != nil {
		t.Fatal(err)
	}
	r.send(t, "A", "A1")
	d := r.receive(t, 1, time.Second, time.Minute)[0]
	bent := []byte(d.ReceiptHandle)
	bent[20] ^= 1
	for name, try := range map[string][2]string{
		"other group": {"other", d.ReceiptHandle}, "bent": {"g", string(bent)}, "empty": {"g", ""}, "cut": {"g", d.ReceiptHandle[:30]},
	} {
		if err := r.Ack(t.Context(), try[0], "orders", try[1])[0]; !errors.Is(err, keystrand.ErrBadHandle) {
			t.Errorf("%s: %v, want ErrBadHandle", name, err)
		}
	}
	r.ack(t, d)
}

func TestRestartKeepsMessagesFinishesAndAttempts(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.create(t, keystrand.GroupSpec{BackOffMin: time.Millisecond, BackOffMax: time.Millisecond})
	r.send(t, "A", "A1", "A2", "A3")
	r.send(t, "B", "B1")
	got := r.receive(t, 10, time.Second, time.Minute)
	r.ack(t, got[0])
	if err := r.Fail(t.Context(), "g", "orders", got[1].ReceiptHandle, "no stock"); err != nil {
		t.Fatal(err)
	}
	r.stop(t)

	r = start(t, dir, nil)
	seen := map[string]int{}
	for len(seen) < 2 {
		for _, d := range r.receive(t, 10, 5*time.Second, time.Minute) {
			seen[d.ID] = d.Attempt
		}
	}
	if seen["A2"] != 1 || seen["B1"] != 2 || len(seen) != 2 {
		t.Fatalf("got %v, want A2 as attempt 1 and B1 as attempt 2", seen)
	}
	r.send(t, "A", "A4")
	info, _ := r.Topic("orders")
	if info.Messages != 5 {
		t.Fatalf("%d messages, want 5", info.Messages)
	}
}

func TestPoisonAtItsLimitFollowsThePolicy(t *testing.T) {
	for _, policy := range []keystrand.AtLimit{keystrand.AtLimitPark, keystrand.AtLimitDeadLetter, keystrand.AtLimitBlock} {
		t.Run(string(policy), func(t *testing.T) {
			r := start(t, t.TempDir(), nil)
			r.create(t, keystrand.GroupSpec{MaxAttempts: 3, AtLimit: policy, BackOffMin: time.Millisecond, BackOffMax: time.Millisecond})
			r.send(t, "A", "A1", "A2")
			attempts := 3
			if policy == keystrand.AtLimitBlock {
				attempts = 5
			}
			for i := range attempts {
				got := r.receive(t, 1, 5*time.Second, time.Minute)
				if ids(got) != "A1 " || got[0].Attempt != i+1 {
					t.Fatalf("delivery %d: got %v", i+1, got)
				}
				if err := r.Fail(t.Context(), "g", "orders", got[0].ReceiptHandle, "poison"); err != nil {
					t.Fatal(err)
				}
			}
			switch policy {
			case keystrand.AtLimitPark:
				if got := r.receive(t, 1, 50*time.Millisecond, time.Minute); len(got) != 0 {
					t.Fatalf("got %v from a parked strand", got)
				}
				x, err := r.Explain(t.Context(), "g", "orders", "A")
				if err != nil || x.Status != "parked" || x.HeadID != "A1" || x.Behind != 1 || x.LastError != "attempt 3 of 3: poison" {
					t.Fatalf("explain: %+v, %v", x, err)
				}
				if err := r.Resume(t.Context(), "g", "orders", "A"); err != nil {
					t.Fatal(err)
				}
				if got := r.receive(t, 1, time.Second, time.Minute); ids(got) != "A1 " || got[0].Attempt != 1 {
					t.Fatalf("after resume: %v", got)
				}
			case keystrand.AtLimitDeadLetter:
				if got := r.receive(t, 1, 5*time.Second, time.Minute); ids(got) != "A2 " {
					t.Fatalf("got %v, want A2", got)
				}
				dead, ok := r.Topic("%DLQ%g")
				if !ok || dead.Messages != 1 {
					t.Fatalf("dead-letter topic: %+v %v", dead, ok)
				}
			}
		})
	}
}

func TestManyGroupsDrainInOrderAcrossARestart(t *testing.T) {
	const groups, each, consumers = 50, 20, 4
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.create(t, keystrand.GroupSpec{})
	var wait sync.WaitGroup
	for g := range groups {
		wait.Go(func() {
			for i := range each {
				if _, err := r.Send(t.Context(), "orders", []keystrand.Message{{ID: fmt.Sprintf("%d-%d", g, i), MessageGroup: strconv.Itoa(g), Body: []byte(strconv.Itoa(i))}}, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	var mu sync.Mutex
	next := map[string]int{}
	total := 0
	drain := func(r *running, until int) {
		for range consumers {
			wait.Go(func() {
				for {
					mu.Lock()
					done := total >= until
					mu.Unlock()
					if done {
						return
					}
					got, err := r.Receive(t.Context(), sequencer.Receive{Group: "g", Topic: "orders", Max: 8, Wait: 100 * time.Millisecond, Lease: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					for _, d := range got {
						mu.Lock()
						if want := strconv.Itoa(next[d.MessageGroup]); string(d.Body) != want {
							t.Errorf("group %s: got message %s, want %s", d.MessageGroup, d.Body, want)
						}
						next[d.MessageGroup]++
						total++
						mu.Unlock()
						if err := r.Ack(t.Context(), "g", "orders", d.ReceiptHandle)[0]; err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wait.Wait()
	}
	drain(r, groups*each/2)
	r.stop(t)
	r = start(t, dir, nil)
	drain(r, groups*each)
	if got := r.receive(t, 1, 50*time.Millisecond, time.Second); total != groups*each || len(got) != 0 {
		t.Fatalf("%d messages handed out, want %d; then %v", total, groups*each, got)
	}
	lag, err := r.Lag(t.Context(), "g")
	if err != nil || len(lag) != 1 || lag[0].Unfinished != 0 {
		t.Fatalf("lag %+v, %v", lag, err)
	}
}

func TestCancelledReceiveGivesBackWhatItWasGranted(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	r.create(t, keystrand.GroupSpec{})
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err := r.Receive(ctx, sequencer.Receive{Group: "g", Topic: "orders", Max: 1, Wait: time.Minute, Lease: time.Hour})
			if err == nil {
				r.Undelivered(got)
			}
		}()
		r.send(t, "A", "x")
		cancel()
		<-done
		got := r.receive(t, 1, 5*time.Second, time.Minute)
		if len(got) != 1 || got[0].Attempt != 1 {
			t.Fatalf("got %v, want the message as attempt 1", got)
		}
		r.ack(t, got[0])
	}
}
