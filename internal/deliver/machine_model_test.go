package deliver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
)

// TestMachineDoesWhatThePlainModelSays runs random acts, with power losses and restarts, through the machine and the model
// and compares every answer and verdict; the judge holds the invariants I5-I8 against what was handed out; at the end all
// faults stop and everything must drain.
func TestMachineDoesWhatThePlainModelSays(t *testing.T) {
	t.Parallel()
	lives := 5
	if testing.Short() {
		lives = 1
	}
	for range lives {
		rapid.Check(t, live)
	}
}

// live is one random life and its end.
func live(t *rapid.T) {
	r := newRun(t)
	t.Repeat(map[string]func(*rapid.T){
		"send":        r.send,
		"receive":     r.receive,
		"cancel":      r.cancel,
		"ack":         r.ack,
		"fail":        r.fail,
		"change":      r.change,
		"undelivered": r.undelivered,
		"client":      r.clients,
		"operator":    r.operator,
		"wait":        r.wait,
		"sync":        func(*rapid.T) { r.sync() },
		"restart":     r.restart,
		"":            r.check,
	})
	r.drain()
}

// run is one random life of machine and model.
type run struct {
	t       *rapid.T
	w       *world
	d       *model
	judge   *judge
	clones  map[int]*model // by log length, at the ends of steps
	handles []Handle
	counts  map[string]int
	seen    int // world answers taken
}

func newRun(t *rapid.T) *run {
	spec := keystrand.GroupSpec{
		Ordered:     rapid.Bool().Draw(t, "ordered"),
		OrderLevel:  rapid.SampledFrom([]string{state.LevelGroup, state.LevelGroup, state.LevelQueue}).Draw(t, "level"),
		MaxAttempts: rapid.IntRange(1, 4).Draw(t, "max attempts"),
		AtLimit:     rapid.SampledFrom([]keystrand.AtLimit{keystrand.AtLimitPark, keystrand.AtLimitDeadLetter, keystrand.AtLimitBlock}).Draw(t, "at limit"),
		PushBatch:   rapid.SampledFrom([]string{state.PushOne, state.PushMany}).Draw(t, "push batch"),
		PushWindow:  rapid.IntRange(1, 3).Draw(t, "push window"),
		BackOffMax:  4 * time.Second, MaxProcessing: time.Minute,
	}
	w := newWorld(t, spec)
	w.options.MaxReady = rapid.IntRange(0, 3).Draw(t, "max ready")
	w.options.RestartHold = 5 * time.Second
	if w.options.MaxReady > 0 {
		w.options.RestartHold = -1 // held strands count as ready, so a small bound would hold others back too
	}
	r := &run{t: t, w: w, counts: map[string]int{}, clones: map[int]*model{}}
	w.manual = rapid.Bool().Draw(t, "manual sync")
	r.d = &model{
		spec: w.group.Spec, now: w.now, epoch: 1, strands: map[string]*modelStrand{}, acked: map[uint64]bool{}, buried: map[uint64]bool{}, clients: map[string]*modelClient{},
	}
	r.judge = newJudge(r)
	w.hook = r.judge.record
	w.start()
	if rapid.Bool().Draw(t, "filter") {
		r.d.tag = "x"
		w.subscribe("x")
		w.durable = len(w.log)
	}
	return r
}

// done ends an act: the model takes over what the world did about the disk, and both must have said the same.
func (r *run) done() {
	if r.w.manual {
		r.d.bury(false)
	} else {
		r.d.bury(true)
		r.d.sync(len(r.d.msgs))
	}
	for _, a := range r.w.answers[r.seen:] {
		for _, g := range a.Grants {
			h := Handle{g.Strand, g.Entry, g.Token}
			if !slices.Contains(r.handles, h) {
				r.handles = append(r.handles, h)
			}
		}
	}
	if diff := cmp.Diff(r.worldAnswers(), r.d.answers); diff != "" {
		r.t.Fatalf("answers of machine (-) and model (+):\n%s", diff)
	}
	r.d.answers = nil
	r.clones[len(r.w.log)] = r.d.clone()
}

func (r *run) worldAnswers() (texts []string) {
	for _, a := range r.w.answers[r.seen:] {
		var grants []string
		for _, g := range a.Grants {
			grants = append(grants, fmt.Sprintf("%s#%d t%x", r.w.names[g.Entry], g.Attempt, g.Token))
		}
		texts = append(texts, r.w.ids[a.ID]+": "+strings.Join(grants, " "))
	}
	r.seen = len(r.w.answers)
	return texts
}

func (r *run) check(t *rapid.T) {
	r.t = t
	r.w.t = t
	if r.judge.fault != "" {
		t.Fatal(r.judge.fault)
	}
}

func (r *run) strandName(group string, queue int32, name string) string {
	switch {
	case !r.w.group.Spec.Ordered:
		return name
	case group == "_" || r.w.group.Spec.OrderLevel == state.LevelQueue:
		return fmt.Sprintf("q%d", queue)
	}
	return group
}

func (r *run) send(t *rapid.T) {
	var names []string
	for range rapid.IntRange(1, 4).Draw(t, "count") {
		group := rapid.SampledFrom([]string{"A", "B", "C", "_"}).Draw(t, "group")
		tag := rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "tag")
		queue := int32(rapid.IntRange(0, 1).Draw(t, "queue"))
		r.counts[group]++
		name := fmt.Sprintf("%s%d", group, r.counts[group])
		names = append(names, fmt.Sprintf("%s@%d:%s", name, queue, tag))
		r.d.msgs = append(r.d.msgs, modelMsg{name: name, strand: r.strandName(group, queue, name), match: r.d.tag == "" || r.d.tag == tag})
	}
	r.w.send(names...)
	r.done()
}

func (r *run) receive(t *rapid.T) {
	rec := Receive{
		ClientID:  rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "client"),
		Max:       rapid.IntRange(1, 3).Draw(t, "max"),
		Lease:     time.Duration(rapid.IntRange(1, 40).Draw(t, "lease")) * time.Second,
		AutoRenew: rapid.Bool().Draw(t, "renew"),
		Push:      rapid.Bool().Draw(t, "push"),
		Slot:      int32(rapid.IntRange(0, 1).Draw(t, "slot")),
		AttemptID: rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "attempt"),
		Until:     time.Duration(rapid.SampledFrom([]int{-1, 5, 60}).Draw(t, "until")) * time.Second,
	}
	r.receiveOne(rec)
}

func (r *run) receiveOne(rec Receive) {
	r.w.nextID++
	rec.ID = r.w.nextID
	name := fmt.Sprintf("r%d", rec.ID)
	r.w.ids[rec.ID] = name
	rec.Until += r.w.now
	r.d.receive(name, rec)
	r.w.perform(r.w.m.Receive(r.w.now, rec))
	r.done()
}

func (r *run) cancel(t *rapid.T) {
	if r.w.nextID == 0 {
		t.Skip("no receive yet")
	}
	id := RequestID(rapid.Uint64Range(1, uint64(r.w.nextID)).Draw(t, "id"))
	r.d.step(func() {
		r.d.waiters = slices.DeleteFunc(r.d.waiters, func(w *modelWaiter) bool { return w.ID == id })
	})
	r.w.perform(r.w.m.Cancel(r.w.now, id))
	r.done()
}

func (r *run) handle(t *rapid.T) Handle {
	if len(r.handles) == 0 {
		t.Skip("nothing was handed out")
	}
	i := rapid.IntRange(0, min(5, len(r.handles)-1)).Draw(t, "handle from the newest")
	return r.handles[len(r.handles)-1-i]
}

func (r *run) verdict(got, want Verdict) {
	if got != want {
		r.t.Fatalf("machine says %v, model says %v", got, want)
	}
	r.done()
}

func (r *run) ack(t *rapid.T) {
	h := r.handle(t)
	want := r.d.ack(h)
	got, a := r.w.m.Ack(r.w.now, h)
	r.judge.acked(h, got)
	r.w.perform(a)
	r.verdict(got, want)
}

func (r *run) fail(t *rapid.T) {
	h := r.handle(t)
	delay := time.Duration(rapid.SampledFrom([]int{-1, -1, 0, 3}).Draw(t, "delay")) * time.Second
	want := r.d.fail(h, delay)
	got, a := r.w.m.Fail(r.w.now, h, "boom", delay)
	r.w.perform(a)
	r.verdict(got, want)
}

func (r *run) change(t *rapid.T) {
	h := r.handle(t)
	d := time.Duration(rapid.IntRange(0, 20).Draw(t, "length")) * time.Second
	want := r.d.change(h, d)
	got, a := r.w.m.Change(r.w.now, h, d)
	r.w.perform(a)
	r.verdict(got, want)
}

func (r *run) undelivered(t *rapid.T) {
	h := r.handle(t)
	r.d.undelivered([]Handle{h})
	r.w.perform(r.w.m.Undelivered(r.w.now, []Grant{{Strand: h.Strand, Entry: h.Entry, Token: h.Token}}))
	r.done()
}

func (r *run) clients(t *rapid.T) {
	id := rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "client")
	if rapid.Bool().Draw(t, "seen") {
		r.w.m.ClientSeen(r.w.now, id)
		if r.d.clients[id] != nil {
			*r.d.clients[id] = modelClient{seen: r.d.now}
		}
		return
	}
	after := time.Duration(rapid.SampledFrom([]int{0, 3}).Draw(t, "after")) * time.Second
	r.d.gone(id, after)
	r.w.gone(id, after)
	r.done()
}

func (r *run) operator(t *rapid.T) {
	if len(r.d.msgs) == 0 {
		t.Skip("no message yet")
	}
	i := rapid.IntRange(0, len(r.d.msgs)-1).Draw(t, "message")
	name := r.d.msgs[i].strand
	key := state.StrandKey(i)
	if r.w.group.Spec.Ordered {
		key = r.w.key(name)
	}
	if rapid.Bool().Draw(t, "resume") {
		want := r.d.resume(name)
		got, a := r.w.m.Resume(r.w.now, key)
		r.w.perform(a)
		if got != want {
			t.Fatalf("resume of %s: machine %v, model %v", name, got, want)
		}
		r.done()
		return
	}
	// Only what the cursor has read can be parked; how far it reads is the machine's own business.
	want := false
	if head := r.d.head(name); head >= 0 && int64(head) < r.w.p.Cursor {
		want = true
		r.d.park(name)
	} else {
		r.d.step(func() {})
	}
	got, a := r.w.m.Park(r.w.now, key, "by test")
	r.w.perform(a)
	if got != want {
		t.Fatalf("park of %s: machine %v, model %v", name, got, want)
	}
	r.done()
}

func (r *run) wait(t *rapid.T) {
	r.advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
}

// advance moves both from one due moment to the next, so that what one act does can be compared.
func (r *run) advance(d time.Duration) {
	end := r.w.now + d
	for r.w.now < end {
		at, due := r.d.nextDue(end)
		if !due {
			at = end
		}
		r.d.now = at
		r.d.step(func() {})
		r.w.advance(at - r.w.now)
		r.done()
		if at == end {
			break
		}
	}
}

func (r *run) sync() {
	r.d.sync(len(r.d.msgs))
	r.w.sync()
	r.done()
}

func (r *run) restart(t *rapid.T) {
	unclean := rapid.Bool().Draw(t, "unclean")
	cut := len(r.w.log)
	if unclean && r.w.manual {
		var ends []int
		for n := range r.clones {
			if n >= r.w.durable && n <= len(r.w.log) {
				ends = append(ends, n)
			}
		}
		slices.Sort(ends)
		if len(ends) > 0 {
			cut = rapid.SampledFrom(ends).Draw(t, "cut")
		}
	}
	d := r.clones[cut]
	if d == nil {
		t.Skip("nothing happened yet")
	}
	r.judge.restart(cut)
	d = d.clone()
	d.restart(r.w.now, r.w.epoch+1, unclean && r.w.options.RestartHold > 0)
	r.d = d
	for n := range r.clones {
		if n > cut {
			delete(r.clones, n)
		}
	}
	r.seen = len(r.w.answers)
	r.w.restart(unclean, len(r.w.log)-cut)
	r.done()
}

// drain ends all faults and finishes everything.
func (r *run) drain() {
	r.w.manual = false
	r.sync()
	r.advance(61 * time.Second) // every receive that waits is answered by then
	for round := 0; ; round++ {
		open := 0
		for i, m := range r.d.msgs {
			if !m.match || m.done {
				continue
			}
			open++
			key := state.StrandKey(i)
			if r.w.group.Spec.Ordered {
				key = r.w.key(m.strand)
			}
			r.d.resume(m.strand)
			_, a := r.w.m.Resume(r.w.now, key)
			r.w.perform(a)
			r.done()
		}
		if open == 0 {
			break
		}
		if round > 10*len(r.d.msgs)+200 {
			r.t.Fatalf("%d messages do not drain", open)
		}
		before := len(r.handles)
		r.receiveOne(Receive{ClientID: "drain", Max: 32, Lease: 10 * time.Second, Until: -1})
		for _, h := range r.handles[before:] {
			want := r.d.ack(h)
			got, a := r.w.m.Ack(r.w.now, h)
			r.judge.acked(h, got)
			r.w.perform(a)
			r.verdict(got, want)
		}
		if len(r.handles) == before {
			r.advance(time.Second)
		}
	}
	if r.judge.fault != "" {
		r.t.Fatal(r.judge.fault)
	}
	if s := r.w.m.Stats(); s.Strands != 0 || s.Finishing != 0 || s.Leased != 0 || s.Ready != 0 || s.Parked != 0 || s.BackingOff != 0 || len(r.w.m.attempts) != 0 {
		r.t.Fatalf("after the drain something is left: %+v, %d attempts", s, len(r.w.m.attempts))
	}
	if left := r.w.p.Unfinished(int64(len(r.w.index.Entries))); left != 0 {
		r.t.Fatalf("after the drain the progress counts %d unfinished", left)
	}
}

// judge checks what was handed out against I5-I8, from records and answers alone; it knows nothing of the model.
type judge struct {
	r        *run
	open     map[string]*state.Grant // by strand
	finished map[int64]int           // entry -> log index of its finish
	tokens   map[string]uint64       // by strand, the newest handed out
	lengths  map[uint64]time.Duration
	since    map[uint64]time.Duration
	fault    string
}

func newJudge(r *run) *judge {
	return &judge{
		r: r, open: map[string]*state.Grant{}, finished: map[int64]int{}, tokens: map[string]uint64{},
		lengths: map[uint64]time.Duration{}, since: map[uint64]time.Duration{},
	}
}

func (j *judge) fail(format string, args ...any) {
	if j.fault == "" {
		j.fault = fmt.Sprintf(format, args...)
	}
}

// record sees each record as it is appended.
func (j *judge) record(rec state.Record) {
	switch rec := rec.(type) {
	case *state.Grant:
		j.grant(rec)
	case *state.Finish:
		j.close(rec.Entry, rec.Token)
		j.finished[rec.Entry] = len(j.r.w.log)
	case *state.DeadLetter:
		j.close(rec.Entry, rec.Token)
		j.finished[rec.Entry] = len(j.r.w.log)
	case *state.Fail:
		j.close(rec.Entry, rec.Token)
	case *state.Release:
		j.close(rec.Entry, rec.Token)
	case *state.Park:
		delete(j.open, j.r.d.msgs[rec.Entry].strand)
	case *state.Lease:
		j.lengths[rec.Token], j.since[rec.Token] = time.Duration(rec.LeaseMs)*time.Millisecond, j.r.w.now
	}
}

func (j *judge) grant(g *state.Grant) {
	m := j.r.d.msgs[g.Entry]
	if old := j.open[m.strand]; old != nil {
		j.fail("I8: %s handed out while entry %d of its strand is out", m.name, old.Entry)
	}
	if g.Token <= j.tokens[m.strand] {
		j.fail("I8: token of %s is %x, not above %x", m.name, g.Token, j.tokens[m.strand])
	}
	if !m.match {
		j.fail("I2: %s does not match the filter", m.name)
	}
	if at, ok := j.finished[g.Entry]; ok {
		j.fail("I7: %s handed out after its finish at %d", m.name, at)
	}
	for i := range g.Entry {
		before := j.r.d.msgs[i]
		at, ok := j.finished[i]
		if before.strand == m.strand && before.match && (!ok || at >= j.r.w.durable) {
			j.fail("I5, I6: %s handed out before %s was finished durably", m.name, before.name)
		}
	}
	j.open[m.strand], j.tokens[m.strand] = g, g.Token
	j.lengths[g.Token], j.since[g.Token] = time.Duration(g.LeaseMs)*time.Millisecond, j.r.w.now
}

func (j *judge) close(entry int64, token uint64) {
	strand := j.r.d.msgs[entry].strand
	if g := j.open[strand]; g != nil && g.Token == token {
		delete(j.open, strand)
	}
}

// acked sees the verdict on an ack before its records.
func (j *judge) acked(h Handle, v Verdict) {
	if v != Done {
		return
	}
	if newest := j.tokens[j.r.d.msgs[h.Entry].strand]; h.Token < newest {
		j.fail("I8: ack with token %x done after %x was handed out", h.Token, newest)
	}
	if end := j.since[h.Token] + j.lengths[h.Token]; end <= j.r.w.now {
		j.fail("I8: ack done %v after the lease's end", j.r.w.now-end)
	}
}

// restart forgets what the power loss undid. Grants that survived run their whole length again.
func (j *judge) restart(cut int) {
	for entry, at := range j.finished {
		if at >= cut {
			delete(j.finished, entry)
		}
	}
	j.open = map[string]*state.Grant{}
	for _, rec := range j.r.w.log[:cut] {
		switch rec := rec.(type) {
		case *state.Grant:
			j.open[j.r.d.msgs[rec.Entry].strand] = rec
			j.lengths[rec.Token] = time.Duration(rec.LeaseMs) * time.Millisecond
		case *state.Lease:
			j.lengths[rec.Token] = time.Duration(rec.LeaseMs) * time.Millisecond
		case *state.Finish:
			j.close(rec.Entry, rec.Token)
		case *state.DeadLetter:
			j.close(rec.Entry, rec.Token)
		case *state.Fail:
			j.close(rec.Entry, rec.Token)
		case *state.Release:
			j.close(rec.Entry, rec.Token)
		case *state.Park:
			delete(j.open, j.r.d.msgs[rec.Entry].strand)
		}
	}
	for token := range j.since {
		j.since[token] = j.r.w.now
	}
}
