package outbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/keystrand/keystrand/dialect"
	"github.com/keystrand/keystrand/internal/clock"
)

// relayRun is one Run: its loop owns the lines and performs what they decide. Database work is one job at a time, by one
// goroutine, so that a page of rows never misses a stamp that was reported before it was read.
type relayRun struct {
	*Relay
	lines   *lines
	watch   watch
	work    chan []dialect.OutboxEvent
	results chan sendResult
	jobs    chan job
	done    chan jobResult

	free    int  // idle senders
	busy    bool // a job is under way
	owned   int
	sweep   sweep
	nextAt  clock.Mono // when the next beat is due
	goodFor clock.Mono // our slots are ours at least until then
	wait    clock.Mono // after a database fault: no job before then
}

// sweep walks once over the unsent rows of our slots. Its place is never kept for the next sweep: a row that commits late
// stands anywhere.
type sweep struct {
	active bool
	asked  bool // the busy slots are known
	slots  []dialect.Slot
	after  string
}

// pageGroups is how many message groups one page holds.
const pageGroups = 256

// loop runs until ctx ended and everything out came back.
func (r *relayRun) loop(ctx context.Context) {
	poll := time.NewTicker(r.options.Poll)
	defer poll.Stop()
	stopping := ctx.Done()
	for {
		now := r.options.Clock.Mono()
		if ctx.Err() != nil {
			stopping = nil
			if r.drained(ctx) {
				return
			}
		} else {
			r.lines.tick(now)
			r.startSends(now)
			r.startJob(ctx, now)
		}
		select {
		case <-stopping:
		case <-r.wake:
			r.lines.again = true
		case <-poll.C:
			r.lines.again = true
		case res := <-r.results:
			r.sendReturned(res)
		case res := <-r.done:
			r.jobReturned(ctx, res)
		}
	}
}

// startSends gives the idle senders their batches, while the slots are surely ours.
func (r *relayRun) startSends(now clock.Mono) {
	for r.free > 0 && now < r.goodFor {
		batch := r.lines.batch()
		if batch == nil {
			return
		}
		r.free--
		r.work <- batch // an idle sender takes it at once
	}
}

func (r *relayRun) sendReturned(res sendResult) {
	r.free++
	if res.err != nil {
		for _, row := range r.lines.failed(r.options.Clock.Mono(), res.batch, res.err) {
			if f := r.options.Events.Held; f != nil {
				f(row.Event, fmt.Errorf("relay message group %q version %d to topic %q: %w", row.Aggregate, row.Version, row.Topic, res.err))
			}
		}
		return
	}
	r.lines.confirmed(res.batch)
	for i, row := range res.batch {
		if f := r.options.Events.Sent; f != nil && i < len(res.receipts) {
			f(row.Event, res.receipts[i])
		}
	}
}

// startJob begins the next database job when none is under way: stamps, and the beat or the next step of a sweep.
func (r *relayRun) startJob(ctx context.Context, now clock.Mono) {
	if r.busy || now < r.wait {
		return
	}
	var j job
	switch {
	case now >= r.nextAt:
		j.beat, j.idle = true, r.lines.idle()
		r.nextAt = now + r.options.Lease/3
	case r.sweep.active && !r.sweep.asked:
		j.busySlots = true
	case r.sweep.active && !r.lines.full():
		j.page = &dialect.Unsent{Slot: r.sweep.slots[0].ID, After: r.sweep.after, Groups: pageGroups, PerGroup: r.options.PerGroup}
	case !r.sweep.active && r.lines.again && r.owned > 0:
		r.lines.again, r.sweep = false, sweep{active: true}
		j.busySlots = true
	}
	j.marks = r.lines.takeMarks()
	if j.empty() {
		return
	}
	j.ctx, j.begun = ctx, now
	r.busy = true
	r.jobs <- j
}

func (r *relayRun) jobReturned(ctx context.Context, res jobResult) {
	r.busy = false
	r.lines.marks = append(res.unmarked, r.lines.marks...) // the stamps of a group stay in order
	if err := cmp.Or(res.err, res.markErr); err != nil {
		r.wait = r.options.Clock.Mono() + r.options.Poll
		if res.err != nil && res.beat {
			r.nextAt = 0
		}
		if ctx.Err() == nil {
			r.fault(err)
		}
	}
	r.lines.marked(res.marked)
	if res.lost {
		r.nextAt = 0 // someone has a slot of ours: look
	}
	if res.surveyed {
		r.goodFor = res.begun + r.options.Lease
		r.apply(res)
	}
	if res.err != nil {
		return
	}
	if res.busySlots {
		r.sweep.asked, r.sweep.slots, r.sweep.after = true, res.slots, ""
		r.sweep.active = len(res.slots) > 0
	}
	if res.page != nil && r.sweep.active {
		r.pageLoaded(res)
	}
}

// pageLoaded takes a page's rows and moves the sweep on.
func (r *relayRun) pageLoaded(res jobResult) {
	r.lines.loaded(res.rows)
	groups := 0
	for i, row := range res.rows {
		if i == 0 || row.Aggregate != res.rows[i-1].Aggregate {
			groups++
		}
	}
	if groups == res.page.Groups {
		r.sweep.after = res.rows[len(res.rows)-1].Aggregate
		return
	}
	r.sweep.slots, r.sweep.after = r.sweep.slots[1:], ""
	r.sweep.active = len(r.sweep.slots) > 0
}

// apply takes the outcome of a survey: which slots are ours, and which to give up.
func (r *relayRun) apply(res jobResult) {
	r.lines.giveUp(res.give)
	if sameSlots(res.owned, r.lines.slots) {
		return
	}
	r.lines.own(res.owned)
	r.owned = len(res.owned)
	if f := r.options.Events.Slots; f != nil {
		f(r.owned)
	}
}

func sameSlots(slots []dialect.Slot, have map[int]int64) bool {
	if len(slots) != len(have) {
		return false
	}
	for _, s := range slots {
		if token, ok := have[s.ID]; !ok || token != s.Token {
			return false
		}
	}
	return true
}

// drained performs the stop: senders come back, stamps are written, slots given up. It reports when all is done.
func (r *relayRun) drained(ctx context.Context) bool {
	if r.busy || r.free < r.options.Senders {
		return false
	}
	var slots []dialect.Slot
	for id, token := range r.lines.slots {
		slots = append(slots, dialect.Slot{ID: id, Token: token})
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout) // ctx has ended; giving the slots back spares the others a lease
	defer cancel()
	if marks := r.lines.takeMarks(); len(marks) > 0 {
		if _, err := r.dialect.MarkSent(last, r.db, marks, r.options.Clock.Wall().UnixNano()); err != nil {
			r.fault(fmt.Errorf("relay stops: %d confirmed rows are not stamped and will be sent again: %w", len(marks), err))
		}
	}
	if err := r.dialect.ReleaseSlots(last, r.db, r.options.Name, slots, true); err != nil {
		r.fault(fmt.Errorf("relay stops: its slots stay taken for a lease: %w", err))
	}
	return true
}

// leaveTimeout bounds the database work of a stop.
const leaveTimeout = 5 * time.Second

func (r *relayRun) fault(err error) {
	if f := r.options.Events.Fault; f != nil {
		f(err)
	}
}
