package sequencer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// onBadDisk starts a broker on a disk in memory that fails by rule, with one message group half done: A1 leased, A2 waiting.
func onBadDisk(t *testing.T) (*running, *vfs.Faults, *vfs.CrashFS, keystrand.Delivery) {
	t.Helper()
	disk := vfs.NewCrashFS()
	disk.SetFree(1 << 40)
	faults := vfs.NewFaults(disk, nil)
	r := start(t, "/data", func(o *sequencer.Options) { o.FS = faults })
	r.create(t, keystrand.GroupSpec{})
	r.send(t, "A", "A1", "A2")
	return r, faults, disk, r.receive(t, 1, time.Second, time.Hour)[0]
}

func rule(t *testing.T, text string) []vfs.Rule {
	t.Helper()
	rules, err := vfs.ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func sendOne(ctx context.Context, r *running, id string) error {
	_, err := r.Send(ctx, "orders", []keystrand.Message{{ID: id, MessageGroup: id, Body: []byte(id)}}, "")
	return err
}

// D01, D02, D05, D06: after a failed write or sync nothing more is taken, no later success is believed, browsing goes on,
// and only a reopen that reads the disk ends it.
func TestAfterAFailedWriteOrSyncTheBrokerTakesNothing(t *testing.T) {
	for _, text := range []string{"sync *.seg* 1 EIO", "sync *.seg* 1+ EIO", "write *.seg* 1 EIO", "write *.seg* 1 short:EIO"} {
		t.Run(text, func(t *testing.T) {
			disk := vfs.NewCrashFS()
			disk.SetFree(1 << 40)
			faults := vfs.NewFaults(disk, nil)
			r := startUnclosed(t, faults)
			r.create(t, keystrand.GroupSpec{})
			r.send(t, "A", "A1", "A2")
			held := r.receive(t, 1, time.Second, time.Hour)[0]
			faults.SetRules(rule(t, text))
			if err := sendOne(t.Context(), r, "X"); !errors.Is(err, keystrand.ErrUnknown) && !errors.Is(err, keystrand.ErrRetryLater) {
				t.Fatalf("I16: the send that met the fault: %v", err)
			}
			if faults.Struck()[0] == 0 {
				t.Fatal("the fault did not strike")
			}
			if err := sendOne(t.Context(), r, "Y"); !errors.Is(err, keystrand.ErrRetryLater) {
				t.Errorf("a later send: %v, want retry later", err)
			}
			if err := r.Ack(t.Context(), "g", "orders", held.ReceiptHandle)[0]; !errors.Is(err, keystrand.ErrRetryLater) {
				t.Errorf("a later ack: %v, want retry later", err)
			}
			if _, err := r.Receive(t.Context(), sequencer.Receive{Group: "g", Topic: "orders", Max: 1, Wait: time.Second}); !errors.Is(err, keystrand.ErrRetryLater) {
				t.Errorf("a later receive: %v, want retry later: no new lease", err)
			}
			if r.Err() == nil {
				t.Error("health does not tell")
			}
			// The machine loses power; the new process sees what the disk really holds.
			r.tasks.Stop()
			r.Close()
			r = startUnclosed(t, disk.Crash(0, 1))
			got, err := r.Browse(t.Context(), "orders", 0, 10)
			if err != nil || len(got) < 2 || got[0].ID != "A1" || got[1].ID != "A2" {
				t.Fatalf("I1: after the reopen the topic holds %v, %v", got, err)
			}
			if err := sendOne(t.Context(), r, "Z"); err != nil {
				t.Fatalf("I20: %v", err)
			}
			if err := errors.Join(r.tasks.Stop(), r.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// startUnclosed is start for a test that ends the broker itself, with errors.
func startUnclosed(t *testing.T, disk vfs.FS) *running {
	t.Helper()
	s, err := sequencer.Open(sequencer.Options{FS: disk, Dir: "/data", RestartHold: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Sequencer: s, tasks: task.NewGroup(context.Background())}
	r.tasks.Go("sequencer", s.Run)
	return r
}

// D03: at the free-space floor sends are refused as retryable, finishes go on, and with room sends go on.
func TestAtTheFreeSpaceFloorFinishesGoOn(t *testing.T) {
	r, _, disk, held := onBadDisk(t)
	disk.SetFree(1 << 20)
	var refusal error
	for range 200 { // segments made ahead are filled first
		if _, refusal = r.Send(t.Context(), "orders", []keystrand.Message{{MessageGroup: "bulk", Body: make([]byte, 1<<20)}}, ""); refusal != nil {
			break
		}
	}
	if !errors.Is(refusal, keystrand.ErrRetryLater) {
		t.Fatalf("below the floor: %v, want retry later", refusal)
	}
	r.ack(t, held)
	next := r.receive(t, 1, time.Second, time.Minute)
	if ids(next) != "A2 " {
		t.Fatalf("got %q, want A2", ids(next))
	}
	r.ack(t, next...)
	disk.SetFree(1 << 40)
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := sendOne(t.Context(), r, "Y")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("I20: room again, and still %v", err)
		}
	}
}

// I24: nothing is delivered before it is durable, and a successor only after its predecessor's finish is.
func TestNothingIsDeliveredBeforeItIsDurable(t *testing.T) {
	r, faults, _, held := onBadDisk(t)
	faults.SetRules(rule(t, "sync *.seg* 1+ hold"))
	sent, acked := make(chan error, 1), make(chan error, 1)
	go func() { sent <- sendOne(context.Background(), r, "B1") }()
	go func() { acked <- r.Ack(context.Background(), "g", "orders", held.ReceiptHandle)[0] }()
	if got := r.receive(t, 10, 300*time.Millisecond, time.Minute); len(got) != 0 {
		t.Fatalf("%q was delivered while no sync had returned", ids(got))
	}
	select {
	case err := <-sent:
		t.Fatalf("the send was answered before its sync: %v", err)
	case err := <-acked:
		t.Fatalf("the ack was answered before its sync: %v", err)
	default:
	}
	faults.Release()
	if err := errors.Join(<-sent, <-acked); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		got := r.receive(t, 10, 5*time.Second, time.Minute)
		if len(got) == 0 {
			t.Fatalf("only %v came", seen)
		}
		for _, d := range got {
			seen[d.ID] = true
		}
	}
	if !seen["A2"] || !seen["B1"] {
		t.Fatalf("got %v", seen)
	}
}
