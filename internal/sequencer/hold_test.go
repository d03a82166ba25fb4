package sequencer_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/vfs"
)

// After an unclean stop a strand without a recorded grant waits for the restart hold: the record of its grant may have been
// lost while its owner is still at work. A start in between that ends cleanly at once, or a subscription whose record was
// lost too, must not cut the hold short.
func TestRestartHoldIsKeptWhateverComesBetween(t *testing.T) {
	const hold = 5 * time.Second
	open := func(t *testing.T, disk vfs.FS) (q *sequencer.Sequencer, stop func()) {
		q, err := sequencer.Open(sequencer.Options{FS: disk, Dir: "/data", RestartHold: hold})
		if err != nil {
			t.Fatal(err)
		}
		end := runLoop(q)
		return q, func() {
			if err := errors.Join(end(), q.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	receive := func(t *testing.T, q *sequencer.Sequencer) time.Duration {
		start := time.Now()
		got, err := q.Receive(t.Context(), sequencer.Receive{Group: "g", Topic: "orders", Max: 1, Wait: time.Minute, Lease: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatalf("got %v, %v", got, err)
		}
		return time.Since(start)
	}
	for name, c := range map[string]struct {
		subscribed bool
		between    func(t *testing.T, disk vfs.FS)
		least      time.Duration
	}{
		"control":                       {true, func(*testing.T, vfs.FS) {}, hold},
		"a clean stop at once":          {true, func(t *testing.T, disk vfs.FS) { _, stop := open(t, disk); stop() }, hold},
		"an open that never ran":        {true, func(t *testing.T, disk vfs.FS) { neverRun(t, disk, hold) }, hold},
		"the subscription was lost too": {false, func(*testing.T, vfs.FS) {}, hold},
		"a clean stop after the hold": {true, func(t *testing.T, disk vfs.FS) {
			_, stop := open(t, disk)
			time.Sleep(hold + time.Second)
			stop()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashFS()
				disk.SetFree(1 << 40)
				q, stop := open(t, disk)
				r := &running{Sequencer: q}
				r.create(t, keystrand.GroupSpec{})
				r.send(t, "A", "A1")
				if c.subscribed {
					r.ack(t, r.receive(t, 1, time.Second, time.Minute)...)
				}
				r.send(t, "B", "B1")
				after := disk.Crash(0, 1)
				after.SetFree(1 << 40)
				stop()
				c.between(t, after)
				q, stop = open(t, after)
				if took := receive(t, q); took < c.least || took > c.least+time.Second {
					t.Errorf("handed out after %v, want %v", took, c.least)
				}
				stop()
			})
		})
	}
}

func neverRun(t *testing.T, disk vfs.FS, hold time.Duration) {
	q, err := sequencer.Open(sequencer.Options{FS: disk, Dir: "/data", RestartHold: hold})
	if err == nil {
		err = q.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
