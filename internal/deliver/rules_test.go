package deliver

import (
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

var ordered = keystrand.GroupSpec{Ordered: true}

func TestFirst(t *testing.T) {
	w := newWorld(t, ordered)
	w.send("A1", "B1", "A2")
	w.mustGet(Receive{Max: 5}, "A1", "B1")
	w.mustGet(Receive{Max: 5})
	w.mustAck("A1")
	w.mustGet(Receive{Max: 5}, "A2")
	w.advance(time.Minute)
	w.mustGet(Receive{Max: 5}, "B1", "A2")
	t.Log(w.takeEvents())
}
