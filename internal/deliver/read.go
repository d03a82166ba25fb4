package deliver

import (
	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/state"
)

// reader is the machine's standing with the index.
type reader struct {
	budget int  // entries that this step may still read
	more   bool // the budget ended before the work did
	full   bool // the alarm about MaxStrands was given
	// seeking are strands whose head is done and whose successor was not found yet; stalled those among them whose entries
	// cannot be read, until retrySeek. retryCursor is when the cursor tries an unreadable entry again. 0: no need.
	seeking, stalled       []*slot
	retrySeek, retryCursor clock.Mono
}

// read looks for successors and moves the cursor, until enough strands are ready, nothing more is visible, or this step's
// budget is used up; then the next Tick goes on.
func (m *Machine) read() {
	if m.retrySeek > 0 && m.retrySeek <= m.now {
		m.seeking, m.stalled, m.retrySeek = append(m.seeking, m.stalled...), nil, 0
	}
	if m.retryCursor <= m.now {
		m.retryCursor = 0
	}
	if m.broken != nil {
		return
	}
	m.seek()
	for m.progress.Cursor < m.visible && m.ready.len()+m.held < m.maxReady && m.retryCursor == 0 {
		if len(m.progress.Strands) >= m.maxStrands {
			m.alarmFull()
			return
		}
		m.full = false
		if m.budget <= 0 {
			m.more = true
			return
		}
		m.budget--
		s, err := m.progress.Advance(m.index)
		if err != nil {
			m.retryCursor = m.indexFailed(m.progress.Cursor, err)
			return
		}
		if s != nil {
			m.arrive(s)
		}
	}
}

// arrive gives a new strand its slot. A slot that is still there has an unsettled finish: the new head waits for it.
func (m *Machine) arrive(s *state.Strand) {
	x := m.slots[s.Key]
	fresh := x == nil
	if fresh {
		x = &slot{key: s.Key, readyAt: -1, dueAt: -1}
		m.slots[s.Key] = x
	}
	m.counts[statusOf(x.strand)]--
	m.counts[s.Status]++
	x.strand = s
	if fresh {
		m.hold(x)
	}
	m.place(x)
}

// seek continues the successor searches that one record's step could not finish. A strand whose entries cannot be read
// waits by itself.
func (m *Machine) seek() {
	for len(m.seeking) > 0 {
		if m.budget <= 0 {
			m.more = true
			return
		}
		x := m.seeking[0]
		old := statusOf(x.strand)
		if s := m.progress.Strands[x.key]; s != nil && s.Seeking {
			n, err := m.progress.Seek(s, m.index, m.budget)
			m.budget -= n
			if err != nil {
				m.retrySeek = m.indexFailed(s.Head, err)
				m.stalled = append(m.stalled, x)
				m.nextSeeking()
				continue
			}
			if s.Seeking && m.progress.Strands[x.key] == s {
				continue // the budget is used up
			}
		}
		m.nextSeeking()
		x.seeking = false
		m.follow(x, old)
		m.place(x)
	}
	m.seeking = nil
}

func (m *Machine) nextSeeking() {
	m.seeking[0] = nil
	m.seeking = m.seeking[1:]
}

// indexFailed returns when to try again. One alarm a step is enough.
func (m *Machine) indexFailed(entry int64, err error) clock.Mono {
	for _, a := range m.actions.Alarms {
		if a.What == AlarmIndex {
			return m.now + indexRetry
		}
	}
	m.actions.Alarms = append(m.actions.Alarms, Alarm{What: AlarmIndex, Entry: entry, Reason: err.Error()})
	return m.now + indexRetry
}

func (m *Machine) alarmFull() {
	if !m.full {
		m.full = true
		m.actions.Alarms = append(m.actions.Alarms, Alarm{What: AlarmFull, Entry: m.progress.Cursor})
	}
}
