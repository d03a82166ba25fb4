package demo

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/keystrand/keystrand"
)

// Options of a run. The zero value of each field but the writers means its default.
type Options struct {
	// Orders is how many orders there are, each with five events; default 2,000, bounds 20 to 200,000.
	Orders int
	// Workers is how many orders one consumer process handles at a time; default 8, bounds 1 to 256.
	Workers int
	// Handler is how long a consumer works on an event before its transaction; default 0, at most 1 s.
	Handler time.Duration
	// Queues of the topic; default 8, bounds 1 to 1024.
	Queues int
	// Seed decides which orders meet a fault and in which order the writers change the orders; 0 means 1.
	Seed uint64
	// NoFaults runs the same way undisturbed.
	NoFaults bool
	// History is where the merged history goes; empty: nowhere.
	History string
	// Keep is a directory, new or empty, that keeps database, broker data, histories and logs; empty: a temporary one that is removed.
	Keep string
	// Break names what to break on purpose; only a build for fault injection knows any.
	Break string
	// Stderr takes live progress; Terminal says that it may be redrawn.
	Stderr   io.Writer
	Terminal bool
}

func (o Options) complete() Options {
	def := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	def(&o.Orders, 2000)
	def(&o.Workers, 8)
	def(&o.Queues, 8)
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	return o
}

// Validate reports all faults at once.
func (o Options) Validate() error {
	o = o.complete()
	var faults []error
	within := func(name string, v, least, most int) {
		if v < least || v > most {
			faults = append(faults, fmt.Errorf("--%s %d: choose %d to %d", name, v, least, most))
		}
	}
	within("orders", o.Orders, 20, 200_000)
	within("workers", o.Workers, 1, 256)
	within("queues", o.Queues, 1, 1024)
	if o.Handler < 0 || o.Handler > time.Second {
		faults = append(faults, fmt.Errorf("--handler %v: choose 0s to 1s", o.Handler))
	}
	if o.Break != "" {
		if err := checkBreak(o.Break); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("demo: %w: %w", errors.Join(faults...), keystrand.ErrRejected)
	}
	return nil
}

// The names that the demo uses. Short leases let the faults be over in seconds: a lease must outlast a busy moment of the
// machine, and its end is what the stopped and the killed consumer wait for.
const (
	topicName   = "orders"
	groupName   = "order-view"
	inboxName   = topicName + "/" + groupName
	leaseLength = 3 * time.Second
	maxAttempts = 3
)
