//go:build unix

package history

import "golang.org/x/sys/unix"

// Now is CLOCK_MONOTONIC in nanoseconds: one clock for all processes of a machine, moved by no change of the wall clock.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("history: CLOCK_MONOTONIC: " + err.Error()) // every unix has it; without it no history can be judged
	}
	return ts.Nano()
}
