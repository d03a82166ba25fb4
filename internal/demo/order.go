package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/inbox"
)

// steps are the life of an order: event number v is steps[v-1].
var steps = []struct{ event, state string }{
	{"OrderCreated", "CREATED"},
	{"PaymentSucceeded", "PAID"},
	{"StockDeducted", "STOCKED_OUT"},
	{"OrderShipped", "SHIPPED"},
	{"OrderSigned", "SIGNED"},
}

// transitions is the same as the inbox checks it.
func transitions() inbox.Transitions {
	t, state := inbox.Transitions{}, ""
	for _, s := range steps {
		t[state] = map[string]string{s.event: s.state}
		state = s.state
	}
	return t
}

func orderName(i int) string { return fmt.Sprintf("order-%06d", i) }

func eventID(order string, version int64) string { return fmt.Sprintf("%s/%d", order, version) }

// eventOf is the event number version of an order. It says the same whenever it is made, so that a copy sent early or twice
// is the event that the outbox holds. The poison order's payment has an amount that no handler accepts.
func eventOf(order string, version int64, poison bool) keystrand.Event {
	amount := 100 + int64(len(order))*version
	if poison && version == poisonVersion {
		amount = -1
	}
	return keystrand.Event{
		EventID: eventID(order, version), Aggregate: order, Version: version, Type: steps[version-1].event,
		OccurredAt: time.Unix(1_700_000_000+version, 0), Schema: "order/1",
		Payload: fmt.Appendf(nil, `{"order":%q,"version":%d,"amount":%d}`, order, version, amount),
	}
}

// poisonVersion is the event of the poison order that cannot be handled; the ones before it can, those behind it wait.
const poisonVersion = 2

// cast says which order plays which part, by seed. Ordinary orders are changed by the writers in any mix; the others are
// written when the fault plan wants them.
type cast struct {
	ordinary []string
	poison   string   // "" without faults
	stopped  string   // its version 2 is held by a consumer that is stopped past its lease
	killed   string   // its version 3 is in the transaction of a consumer that is killed
	early    []string // their version 3 is sent before version 2 exists
}

const (
	stoppedVersion = 2
	killedVersion  = 3
	earlyVersion   = 3
	earlyOrders    = 8
)

func castOf(o Options) cast {
	random := rand.New(rand.NewPCG(o.Seed, 0x5ca1ab1e))
	var names []string
	for _, i := range random.Perm(o.Orders) {
		names = append(names, orderName(i))
	}
	if o.NoFaults {
		return cast{ordinary: names}
	}
	return cast{poison: names[0], stopped: names[1], killed: names[2], early: names[3 : 3+earlyOrders], ordinary: names[3+earlyOrders:]}
}

// script is the order in which the writers advance the ordinary orders, each five times, and the poison order first.
func (c cast) script(seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0xc0ffee))
	list := make([]string, 0, len(c.ordinary)*len(steps))
	for range steps {
		list = append(list, c.ordinary...)
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if c.poison == "" {
		return list
	}
	first := make([]string, 0, len(list)+len(steps))
	for range steps {
		first = append(first, c.poison)
	}
	return append(first, list...)
}
