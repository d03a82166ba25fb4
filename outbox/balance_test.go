package outbox

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
)

func slotsOf(owners ...string) (slots []dialect.Slot) {
	for i, o := range owners {
		slots = append(slots, dialect.Slot{ID: i, Owner: o, Token: 1})
	}
	return slots
}

func TestBalanceTakesFromTheDeadOnlyAfterALease(t *testing.T) {
	t.Parallel()
	w, relays := watch{}, []dialect.Relay{{Owner: "other", Beat: 5}, {Owner: "self", Beat: 1}}
	slots := slotsOf("other", "other", "self", "self")
	for _, c := range []struct {
		at         clock.Mono
		beat       int64
		dead, take int
	}{{0, 5, 0, 0}, {9 * time.Second, 5, 0, 0}, {9500 * time.Millisecond, 6, 0, 0}, {19 * time.Second, 6, 0, 0}, {20 * time.Second, 6, 1, 2}} {
		relays[0].Beat = c.beat
		p := balance(c.at, "self", relays, slots, w, 10*time.Second)
		if len(p.dead) != c.dead || len(p.take) != c.take {
			t.Errorf("at %v: %+v, want %d dead and %d taken", c.at, p, c.dead, c.take)
		}
	}
}

// Any number of relays that survey in any order end with all slots taken and nobody above its share.
func TestBalanceSettlesAtFairShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "relays")
		slots := make([]dialect.Slot, dialect.Slots)
		var relays []dialect.Relay
		for i := range n {
			relays = append(relays, dialect.Relay{Owner: fmt.Sprint("r", i), Beat: 1})
		}
		for i := range slots {
			slots[i].ID = i
			if k := rapid.IntRange(-1, n-1).Draw(t, "owner"); k >= 0 {
				slots[i].Owner = relays[k].Owner
			}
		}
		for range 3 {
			for i := range n {
				p := balance(0, relays[i].Owner, relays, slots, watch{}, time.Second)
				for _, s := range p.take {
					slots[s.ID].Owner = relays[i].Owner
				}
				for _, id := range p.give {
					slots[id].Owner = ""
				}
			}
		}
		share := map[string]int{}
		for _, s := range slots {
			share[s.Owner]++
		}
		for owner, count := range share {
			if owner == "" || count > (dialect.Slots+n-1)/n {
				t.Fatalf("%q has %d of %d slots among %d relays", owner, count, dialect.Slots, n)
			}
		}
	})
}
