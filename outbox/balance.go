package outbox

import (
	"time"

	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
)

// watch is what a relay has seen of the others' beats, on its own monotonic clock: a jump of a wall clock, here or there,
// ends no lease.
type watch map[string]seenBeat

type seenBeat struct {
	beat  int64
	since clock.Mono // when this beat was first seen
}

// plan is what a relay wants changed after a survey.
type plan struct {
	take []dialect.Slot  // free ones, as seen
	dead []dialect.Relay // whose beat has stood still for a lease
	give []int           // own slots beyond the fair share
}

// balance decides from a survey: relays whose beat stood still for a lease are dead, their slots and the free ones are
// shared so that nobody holds more than its part, rounded up. It updates w.
func balance(now clock.Mono, self string, relays []dialect.Relay, slots []dialect.Slot, w watch, lease time.Duration) plan {
	var p plan
	alive := map[string]bool{self: true}
	for _, r := range relays {
		if r.Owner == self {
			continue
		}
		if s, known := w[r.Owner]; !known || s.beat != r.Beat {
			w[r.Owner] = seenBeat{r.Beat, now}
		}
		if now-w[r.Owner].since >= lease {
			p.dead = append(p.dead, r)
			continue
		}
		alive[r.Owner] = true
	}
	fair := (len(slots) + len(alive) - 1) / len(alive)
	mine := 0
	for _, s := range slots {
		if s.Owner != self {
			continue
		}
		if mine++; mine > fair {
			p.give = append(p.give, s.ID)
		}
	}
	for _, s := range slots {
		if !alive[s.Owner] && mine < fair { // "" is never alive
			p.take = append(p.take, s)
			mine++
		}
	}
	w.keepOnly(relays)
	return p
}

func (w watch) keepOnly(relays []dialect.Relay) {
	present := make(map[string]bool, len(relays))
	for _, r := range relays {
		present[r.Owner] = true
	}
	for owner := range w {
		if !present[owner] {
			delete(w, owner)
		}
	}
}
