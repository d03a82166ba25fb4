package deliver

import "github.com/keystrand/keystrand/internal/state"

// read looks for successors and moves the cursor, until enough strands are ready, nothing more is visible, or this step's
// budget is used up; then the next Tick goes on.
func (m *Machine) read() {
	if m.broken != nil || m.retryAt > m.now {
		return
	}
	m.retryAt = 0
	m.seek()
	for m.progress.Cursor < m.visible && m.ready.len()+m.held < m.maxReady {
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
			m.indexFailed(err)
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
	x.strand = s
	m.counts[s.Status]++
	if fresh {
		m.hold(x)
	}
	m.place(x)
}

// seek continues the successor searches that one record's step could not finish.
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
				m.indexFailed(err)
				return
			}
			if s.Seeking && m.progress.Strands[x.key] == s {
				continue // the budget is used up
			}
		}
		m.seeking[0] = nil
		m.seeking = m.seeking[1:]
		x.seeking = false
		m.follow(x, old)
		m.place(x)
	}
	m.seeking = nil
}

func (m *Machine) indexFailed(err error) {
	m.retryAt = m.now + indexRetry
	m.actions.Alarms = append(m.actions.Alarms, Alarm{What: AlarmIndex, Entry: m.progress.Cursor, Reason: err.Error()})
}

func (m *Machine) alarmFull() {
	if !m.full {
		m.full = true
		m.actions.Alarms = append(m.actions.Alarms, Alarm{What: AlarmFull, Entry: m.progress.Cursor})
	}
}
