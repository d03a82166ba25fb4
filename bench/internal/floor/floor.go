// Package floor measures what the machine itself can do at this moment (W0): how fast a small append becomes durable, and
// how fast bytes go around on the loopback. Ratios to the floor travel between machines; absolute figures do not.
package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Probe is one measurement of the floor.
type Probe struct {
	// Sync1 is the time of a write of 1 KiB and its fdatasync, Sync64 that of 64 KiB, in a zero-written file.
	Sync1, Sync64 time.Duration // medians
	Sync1P99      time.Duration
	// Syncs are 1 KiB appends with fdatasync per second, one after the other.
	Syncs float64
	// Echo is the round trip of 1 KiB on a loopback connection, median.
	Echo time.Duration
}

// String is one line for people.
func (p Probe) String() string {
	return fmt.Sprintf("1 KiB + fdatasync %v (p99 %v, %.0f/s), 64 KiB + fdatasync %v, loopback echo 1 KiB %v",
		round(p.Sync1), round(p.Sync1P99), p.Syncs, round(p.Sync64), round(p.Echo))
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// Measure probes for about d in all. Its file is made in dir and removed.
func Measure(ctx context.Context, dir string, d time.Duration) (Probe, error) {
	var p Probe
	one, err := syncs(ctx, dir, 1<<10, d*2/5)
	if err != nil {
		return p, err
	}
	var all time.Duration
	for _, t := range one {
		all += t
	}
	p.Syncs = float64(len(one)) / all.Seconds()
	p.Sync1, p.Sync1P99 = spread.Quantile(one, 0.5), spread.Quantile(one, 0.99)
	many, err := syncs(ctx, dir, 64<<10, d*2/5)
	if err != nil {
		return p, err
	}
	p.Sync64 = spread.Quantile(many, 0.5)
	trips, err := echoes(ctx, d/5)
	p.Echo = spread.Quantile(trips, 0.5)
	return p, err
}

// fileBytes is the size of the zero-written file; the writes go around in it, as a log's segments come one after the other.
const fileBytes = 64 << 20

// syncs writes size bytes and calls fdatasync until d is over, and returns the time of each.
func syncs(ctx context.Context, dir string, size int, d time.Duration) (times []time.Duration, err error) {
	path := filepath.Join(dir, "floor-probe")
	file, err := vfs.OS{}.Create(path)
	if err != nil {
		return nil, fmt.Errorf("floor probe: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < fileBytes; off += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros, off); err != nil {
			return nil, fmt.Errorf("floor probe: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return nil, fmt.Errorf("floor probe: %w", err)
	}
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i*7 + 1)
	}
	off := int64(0)
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; {
		from := time.Now()
		if _, err := file.WriteAt(block, off); err != nil {
			return nil, fmt.Errorf("floor probe: %w", err)
		}
		if err := file.Sync(); err != nil {
			return nil, fmt.Errorf("floor probe: %w", err)
		}
		times = append(times, time.Since(from))
		off = (off + int64(size)) % fileBytes
	}
	return times, ctx.Err()
}

// echoes sends 1 KiB to a loopback peer that sends it back, until d is over.
func echoes(ctx context.Context, d time.Duration) (times []time.Duration, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("floor probe: %w", err)
	}
	peer := task.NewGroup(ctx)
	peer.Go("echo", func(context.Context) error {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		defer c.Close() // the other side reports what is wrong
		buf := make([]byte, 1<<10)
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				return nil // the prober is done
			}
			if _, err := c.Write(buf); err != nil {
				return err
			}
		}
	})
	defer func() { err = errors.Join(err, l.Close(), peer.Wait()) }()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("floor probe: %w", err)
	}
	defer c.Close() // nothing is buffered
	buf := make([]byte, 1<<10)
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; {
		from := time.Now()
		if _, err := c.Write(buf); err != nil {
			return nil, fmt.Errorf("floor probe: %w", err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return nil, fmt.Errorf("floor probe: %w", err)
		}
		times = append(times, time.Since(from))
	}
	return times, ctx.Err()
}
