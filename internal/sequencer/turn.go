package sequencer

import (
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// turn gathers what one pass of the loop wants appended and answered.
type turn struct {
	commands []command // taken from the queue; reused
	records  []store.Record
	sends    []*sendCommand
	bytes    int
	answers  []deliver.Answer
	touched  []*machine
	// synced are told when everything appended by this turn is durable.
	synced []syncedFunc
	copies []*deadLetterCopy
	// after run once everything of the turn is appended: what they see of the state is what the log holds.
	after []func()
	arena []byte // record bodies of this turn, one after the other; reused
}

// syncedFunc is told nil when its turn is durable, or why that is unknown.
type syncedFunc interface{ synced(err error) }

// syncing is a turn that waits for the durable mark.
type syncing struct {
	end      store.Position
	synced   []syncedFunc
	machines []*machine
	visible  []topicMark
}

type topicMark struct {
	topic *topicState
	count int64
}

// runTurn is one pass: act on the durable mark, run what is queued and due, append, answer.
func (s *Sequencer) runTurn() {
	l := &s.loop
	l.now = s.clock.Mono()
	s.mu.Lock()
	n := min(len(s.queue), maxTurnCommands)
	l.turn.commands = append(l.turn.commands[:0], s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.mu.Unlock()

	if err := s.Err(); err != nil {
		s.refuseAll(err)
		return
	}
	s.actOnDurable()
	for i, c := range l.turn.commands {
		if l.turn.bytes > maxTurnSendBytes {
			s.putBack(l.turn.commands[i:])
			break
		}
		c.run(s)
	}
	clear(l.turn.commands)
	for len(l.timers) > 0 && l.timers[0].due <= l.now {
		m := l.timers[0]
		s.perform(m, m.Tick(l.now))
	}
	s.endTurn()
}

// putBack returns commands that did not fit this turn to the front of the queue.
func (s *Sequencer) putBack(commands []command) {
	s.mu.Lock()
	s.queue = append(append(make([]command, 0, len(commands)+len(s.queue)), commands...), s.queue...)
	s.mu.Unlock()
}

// actOnDurable gives the news of the durable mark to whoever waits for it.
func (s *Sequencer) actOnDurable() {
	l := &s.loop
	mark := store.Position(s.durable.Load())
	l.seen = mark
	for l.syncing.len() > 0 && l.syncing.front().end <= mark {
		done := l.syncing.pop()
		for _, f := range done.synced {
			f.synced(nil)
		}
		for _, v := range done.visible {
			s.makeVisible(v.topic, v.count)
		}
		for _, m := range done.machines {
			s.perform(m, m.Durable(l.now, uint64(mark)))
		}
	}
}

func (s *Sequencer) makeVisible(t *topicState, count int64) {
	t.visible = count
	for _, m := range t.machines {
		s.perform(m, m.Visible(s.loop.now, count))
	}
}

// perform takes a step's actions into the turn.
func (s *Sequencer) perform(m *machine, a deliver.Actions) {
	t := &s.loop.turn
	for _, r := range a.Records {
		s.record(r)
	}
	t.answers = append(t.answers, a.Answers...)
	for _, d := range a.DeadLetters {
		s.loop.moves.ask(m, d)
	}
	for _, alarm := range a.Alarms {
		s.alarm(m, alarm)
	}
	if len(a.Records) > 0 && !m.inTurn {
		m.inTurn = true
		t.touched = append(t.touched, m)
	}
	s.retime(m)
}

// record encodes r into the turn's arena.
func (s *Sequencer) record(r state.Record) {
	if s.dropRecord != nil && s.dropRecord(r) {
		return
	}
	t := &s.loop.turn
	from := len(t.arena)
	t.arena = state.Encode(t.arena, r)
	t.records = append(t.records, store.Record{Kind: store.Kind(r.Kind()), Body: t.arena[from:len(t.arena):len(t.arena)]})
}

// endTurn appends what the turn gathered, then answers: receives at once (a grant is not waited for), the others when durable.
//
// Two appends: sends may be refused for lack of space while finishes, grants and admin records go into the reserve.
func (s *Sequencer) endTurn() {
	l := &s.loop
	t := &l.turn
	waits := syncing{synced: t.synced}
	if len(t.records) > 0 {
		first, end, err := s.log.Append(t.records, true)
		if err != nil {
			s.fail(fmt.Errorf("broker: append of %d state records: %w", len(t.records), err))
			s.refuseAll(s.Err())
			return
		}
		waits.end = end
		s.indexCopies(first, &waits)
	}
	for _, m := range t.touched {
		m.inTurn = false
		m.Appended(uint64(waits.end))
	}
	waits.machines = t.touched
	if len(t.sends) > 0 {
		s.appendSends(&waits)
	}
	if waits.end == 0 && len(waits.synced) > 0 {
		waits.end = s.log.Appended() // "already done": due when what did it is durable
	}
	if s.Err() != nil {
		return
	}
	for _, a := range t.answers {
		s.answer(a)
	}
	for _, f := range t.after {
		f()
	}
	if waits.end != 0 {
		l.syncing.push(waits)
	}
	s.resetTurn(len(waits.synced) > 0, len(waits.machines) > 0)
	if s.o.Store.SyncInterval > 0 && waits.end != 0 {
		s.onDurable(waits.end) // visible and answered when appended: the loss window that the interval names
	}
}

// resetTurn empties the turn; slices that a syncing entry took over are not reused.
func (s *Sequencer) resetTurn(syncedTaken, touchedTaken bool) {
	t := &s.loop.turn
	if syncedTaken {
		t.synced = nil
	}
	if touchedTaken {
		t.touched = nil
	} else {
		t.touched = t.touched[:0]
	}
	clear(t.records)
	clear(t.answers)
	clear(t.sends)
	clear(t.copies)
	clear(t.after)
	t.after = t.after[:0]
	t.records, t.answers, t.sends, t.copies = t.records[:0], t.answers[:0], t.sends[:0], t.copies[:0]
	t.bytes = 0
	const keepArena = 1 << 20
	if cap(t.arena) > keepArena {
		t.arena = nil
	}
	t.arena = t.arena[:0]
}

// fail makes the broker take nothing more. What is appended but not durable has an unknown outcome. The cause goes to the
// log; callers, who may be remote, are told the class and what to do.
func (s *Sequencer) fail(cause error) {
	err := fmt.Errorf("broker: %w; its log tells the cause; it must be restarted to verify the data from disk", keystrand.ErrReadOnly)
	if s.failed.CompareAndSwap(nil, &err) {
		s.logger.Error("broker stopped taking work: stop it, check the disk, start it again to verify the data", "error", cause)
	}
	s.poke()
}

// refuseAll answers everything that waits, after the log failed.
func (s *Sequencer) refuseAll(err error) {
	l := &s.loop
	for _, c := range l.turn.commands {
		if r, ok := c.(refuser); ok {
			r.refuse(err)
		}
	}
	for _, c := range l.turn.sends {
		c.refuse(err)
	}
	unknown := fmt.Errorf("broker: %w: appended, but not known to be on disk: %w", keystrand.ErrUnknown, err)
	for _, f := range l.turn.synced {
		f.synced(unknown)
	}
	for l.syncing.len() > 0 {
		for _, f := range l.syncing.pop().synced {
			f.synced(unknown)
		}
	}
	for id, r := range l.waiting {
		delete(l.waiting, id)
		r.refuse(err)
	}
	l.turn = turn{}
}
