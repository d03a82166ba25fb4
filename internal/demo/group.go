package demo

import (
	"time"

	"github.com/keystrand/keystrand"
)

// groupSpec: the poison order is parked after its last attempt, with what waits behind it; the back-off is short so that
// this happens while one watches.
func groupSpec() keystrand.GroupSpec {
	return keystrand.GroupSpec{Name: groupName, Ordered: true, MaxAttempts: maxAttempts, AtLimit: keystrand.AtLimitPark,
		BackOffMin: 200 * time.Millisecond, BackOffMax: time.Second}
}
