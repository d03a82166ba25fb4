package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/keystrand/keystrand/internal/vfs"
)

// image is what a power loss at one file operation left, with what had been promised until then.
type image struct {
	op      vfs.Op
	p       float64
	disk    *vfs.CrashFS
	durable int
	batches [][]string
}

// camera takes images before each changing operation of a disk.
type camera struct {
	mu     sync.Mutex
	images []image
}

func (c *camera) watch(disk *vfs.CrashFS, s *script) {
	disk.SetHook(func(op vfs.Op) error {
		if !op.Changes {
			return nil
		}
		for _, p := range []float64{0, 0.5, 1} {
			durable, _ := s.promised() // before the image: on the disk by then
			i := image{op: op, p: p, disk: disk.Crash(p, uint64(op.N)), durable: durable}
			_, i.batches = s.promised() // after it: nothing else can be in it
			c.mu.Lock()
			c.images = append(c.images, i)
			c.mu.Unlock()
		}
		return nil
	})
}

// life is a script of some two hundred file operations: batches waited for and not, rolls, a batch larger than a segment, a
// clean stop and a start.
func life(t *testing.T, disk *vfs.CrashFS, s *script, o Options) {
	t.Helper()
	l := openLog(t, disk, "d", o)
	s.run(t, l, 10, true)
	s.run(t, l, 5, false)
	s.run(t, l, 15, true)
	closeLog(t, l)
	l = openLog(t, disk, "d", o)
	s.run(t, l, 25, true)
	s.run(t, l, 5, false)
	closeLog(t, l)
}

// Layer 2 of the fault plan for the log alone (D09, D10, D17, D19, C02, C06, C08): a crash at every file operation, with 0, 50
// and 100 percent of what was unsynced.
func TestACrashAtEveryFileOperationKeepsWhatWasDurable(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	var s script
	var c camera
	c.watch(disk, &s)
	life(t, disk, &s, small)
	if len(c.images) < 3*150 {
		t.Fatalf("got %d images, want at least 450", len(c.images))
	}
	lost := 0
	for _, i := range c.images {
		t.Run(fmt.Sprintf("%v p=%v", i.op, i.p), func(t *testing.T) {
			n := afterCrash(t, i.disk, i.durable, i.batches)
			lost += len(i.batches) - n
		})
	}
	t.Logf("%d file operations, %d images, %d unsynced batches lost in them", disk.Changes(), len(c.images), lost)
	if lost == 0 {
		t.Error("no image lost an unsynced batch: the crashes did not strike")
	}
}

// C07: recovery itself is stopped at every file operation, and what it leaves is recovered; then a third time.
func TestACrashDuringRecoveryCanBeRecovered(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	var s script
	var c camera
	c.watch(disk, &s)
	life(t, disk, &s, small)
	step := 7
	if brief() {
		step = 41
	}
	stopped := 0
	for n := 0; n < len(c.images); n += step {
		i := c.images[n]
		for at := int64(1); ; at++ {
			again := i.disk.Crash(1, 1)
			done := again.Changes() + at
			again.StopAt(done)
			l, err := Open(again, "d", small)
			if err == nil {
				must(t, ignoreCrash(l.Close()))
				break
			}
			if !errors.Is(err, vfs.ErrCrashed) {
				t.Fatalf("image %v p=%v, stopped at %d: %v", i.op, i.p, at, err)
			}
			stopped++
			for _, p := range []float64{0, 0.5, 1} {
				second := again.Crash(p, uint64(n)+uint64(at))
				second.StopAt(at / 2)
				if l, err := Open(second, "d", small); err == nil {
					must(t, ignoreCrash(l.Close()))
				}
				afterCrash(t, second.Crash(p, uint64(at)), i.durable, i.batches)
			}
		}
	}
	t.Logf("recovery was stopped %d times", stopped)
	if stopped == 0 {
		t.Error("recovery was never stopped")
	}
}

func ignoreCrash(err error) error {
	if errors.Is(err, vfs.ErrCrashed) {
		return nil
	}
	return err
}

// A build that forgets fsync must not pass: the log says so itself at the next start, because it had told of a durable
// mark that is beyond what the disk holds (D08: the same is seen of a disk that lies).
func TestABuildWithoutSyncIsCaught(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(disk *vfs.CrashFS) (vfs.FS, Options){
		"SkipSync": func(disk *vfs.CrashFS) (vfs.FS, Options) {
			o := small
			o.SkipSync = true
			return disk, o
		},
		"a disk that lies": func(disk *vfs.CrashFS) (vfs.FS, Options) {
			return vfs.NewFaults(disk, vfs.MustParseRules("sync 0*.seg* 4+ nothing")), small
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewCrashFS()
			through, o := run(disk)
			l := openLog(t, through, "d", o)
			var s script
			s.run(t, l, 6, true)
			durable, batches := s.promised()
			caught := 0
			for seed := range uint64(20) {
				l, err := Open(disk.Crash(0.5, seed), "d", small)
				if err != nil {
					caught++
					continue
				}
				if _, err := checkPrefix(replayAll(t, l, 0), durable, batches); err != nil {
					caught++
				}
				closeLog(t, l)
			}
			if caught == 0 {
				t.Error("no crash showed the missing sync")
			}
			closeLog(t, l)
		})
	}
}
