// Package clock is the seam to time: wall time for stamps that people read, monotonic time for everything that ends.
// Step functions take the monotonic time as an argument; only the shells that call them hold a Clock.
package clock

import "time"

// Mono is monotonic time since the clock's start. It never runs backwards and no change of the wall clock moves it.
type Mono = time.Duration

// Clock tells both times. Timers come from package time, which is monotonic and virtual under testing/synctest.
type Clock interface {
	Wall() time.Time
	Mono() Mono
}

// Real returns the clock of this process; its Mono is 0 now.
func Real() Clock { return realClock{time.Now()} }

type realClock struct{ start time.Time }

func (c realClock) Wall() time.Time { return time.Now() }
func (c realClock) Mono() Mono      { return time.Since(c.start) }
