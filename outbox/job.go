package outbox

import (
	"context"
	"fmt"

	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
)

// job is one piece of database work. Its ctx ends with the relay's, so a stop does not wait for a lock.
type job struct {
	ctx       context.Context
	begun     clock.Mono
	marks     []dialect.Sent
	beat      bool
	idle      []dialect.Slot // slots being given up that may go now
	busySlots bool
	page      *dialect.Unsent
}

func (j job) empty() bool { return len(j.marks) == 0 && !j.beat && !j.busySlots && j.page == nil }

type jobResult struct {
	job
	marked, unmarked []dialect.Sent
	lost             bool // a stamp was refused: its slot has another owner
	surveyed         bool
	owned            []dialect.Slot
	give             []int
	slots            []dialect.Slot
	rows             []dialect.OutboxEvent
	markErr          error // the stamps are not written; what else was asked is
	err              error
}

// database performs jobs until there are no more.
func (r *relayRun) database(context.Context) error {
	for j := range r.jobs {
		res := jobResult{job: j}
		res.err = r.perform(&res)
		r.done <- res
	}
	return nil
}

func (r *relayRun) perform(res *jobResult) error {
	ctx := res.ctx
	if res.beat {
		if err := r.survey(ctx, res); err != nil {
			res.unmarked = res.marks
			return err
		}
	}
	if len(res.marks) > 0 {
		n, err := r.dialect.MarkSent(ctx, r.db, res.marks, r.options.Clock.Wall().UnixNano())
		if err != nil {
			res.unmarked, res.markErr = res.marks, err
		} else {
			res.marked, res.lost = res.marks, n < len(res.marks)
		}
	}
	var err error
	if res.busySlots {
		res.slots, err = r.dialect.BusySlots(ctx, r.db, r.options.Name)
	}
	if res.page != nil && err == nil {
		res.rows, err = r.dialect.UnsentEvents(ctx, r.db, *res.page)
	}
	return err
}

// survey beats, gives up what may go, and takes the fair share.
func (r *relayRun) survey(ctx context.Context, res *jobResult) error {
	name := r.options.Name
	if err := r.dialect.Beat(ctx, r.db, name); err != nil {
		return err
	}
	if len(res.idle) > 0 {
		if err := r.dialect.ReleaseSlots(ctx, r.db, name, res.idle, false); err != nil {
			return err
		}
	}
	relays, slots, err := r.dialect.Survey(ctx, r.db)
	if err != nil {
		return fmt.Errorf("survey of relays: %w", err)
	}
	p := balance(r.options.Clock.Mono(), name, relays, slots, r.watch, r.options.Lease)
	for _, s := range slots {
		if s.Owner == name {
			res.owned = append(res.owned, s)
		}
	}
	if len(p.take) > 0 {
		took, err := r.dialect.TakeSlots(ctx, r.db, name, p.take, p.dead)
		if err != nil {
			return err
		}
		res.owned = append(res.owned, took...)
	}
	res.give, res.surveyed = p.give, true
	return nil
}
