package history

// effect takes a row of the business change in commit order: V12 (versions) and V10 (tokens of effects never fall).
func (j *judge) effect(e *Event) {
	j.sum.Effects++
	s, k := j.at(e)
	j.applied[readerOf{k.topic, s.group}] = true
	if e.Token != 0 {
		if s.effectTok.broker == e.Broker && e.Token < s.effectTok.token {
			j.add(V10, e, k, "an effect was committed under token %d after one under token %d", e.Token, s.effectTok.token)
		}
		s.effectTok = tokenMark{e.Broker, e.Token, e.T}
	}
	if e.Version == 0 {
		if s.effects == nil {
			s.effects = map[ID]int32{}
		}
		if s.effects[e.ID]++; s.effects[e.ID] > 1 {
			j.sum.DuplicateEffects++
			j.add(V12, e, k, "applied twice")
		}
		return
	}
	last := s.versions.last
	switch count := s.versions.add(e.Version); {
	case count > 1:
		j.sum.DuplicateEffects++
		j.add(V12, e, k, "version %d was applied %d times", e.Version, count)
	case e.Version != last+1 && !j.brokenVersions[k]:
		j.brokenVersions[k] = true // one case a key: the rest follows from it
		j.add(V12, e, k, "version %d was applied after version %d", e.Version, last)
	}
}

func (j *judge) inboxRow(e *Event) {
	s, k := j.at(e)
	j.joined[readerOf{k.topic, s.group}] = true
	if e.E == State {
		s.state, s.hasState = e.Version, true
		return
	}
	if e.Version != 0 {
		s.inbox.add(e.Version)
		return
	}
	if s.inboxIDs == nil {
		s.inboxIDs = map[ID]int32{}
	}
	s.inboxIDs[e.ID]++
}

// effectRules is V12 (nothing delivered is without its effect), V13 and V15 at the end of the run.
func (j *judge) effectRules(k *key, s *strand) {
	if j.applied[readerOf{k.topic, s.group}] {
		for p := range k.places {
			j.effectOf(k, s, int32(p))
		}
	}
	for id := range s.dlq {
		if i := k.find(id); i >= 0 && j.hasEffect(s, &k.messages[i]) && !s.again.has(id) {
			m := &k.messages[i]
			j.add(V13, &Event{N: m.n, T: m.inv, Topic: k.topic.name, Group: j.truth.names[s.group], Key: k.name, ID: id}, k,
				"has an effect and a dead letter, and nobody redrove it")
		}
	}
	if j.joined[readerOf{k.topic, s.group}] {
		j.oneTransaction(k, s)
	}
}

func (j *judge) hasEffect(s *strand, m *message) bool {
	if m.version != 0 {
		return s.versions.of(m.version) > 0
	}
	return s.effects[m.id] > 0
}

func (j *judge) effectOf(k *key, s *strand, p int32) {
	m := &k.messages[k.places[p].m]
	if !s.delivered.has(p) || m.first != p || s.parked && p >= s.parkedAt || s.named.has(m.id) || s.aside.has(m.id) || j.hasEffect(s, m) {
		return
	}
	if !j.truth.drained {
		return // it may still come; the run is reported as not drained
	}
	j.add(V12, &Event{N: k.places[p].n, T: m.inv, Topic: k.topic.name, Group: j.truth.names[s.group], Key: k.name, ID: m.id, Version: m.version}, k,
		"delivered, and neither applied nor dead-lettered, parked or set aside")
}

// oneTransaction is V15: effect rows, inbox rows and the aggregate's version tell the same.
func (j *judge) oneTransaction(k *key, s *strand) {
	e := Event{Topic: k.topic.name, Group: j.truth.names[s.group], Key: k.name}
	for v := uint64(1); v <= max(s.versions.high, s.inbox.high) && v < 1<<20; v++ {
		if effects, rows := s.versions.of(v), s.inbox.of(v); (effects > 0) != (rows > 0) {
			e.Version = v
			j.add(V15, &e, k, "version %d has %d effect rows and %d inbox rows", v, effects, rows)
		}
	}
	for id, n := range s.effects {
		if s.inboxIDs[id] == 0 {
			e.ID = id
			j.add(V15, &e, k, "has %d effect rows and no inbox row", n)
		}
	}
	for id := range s.inboxIDs {
		if s.effects[id] == 0 {
			e.ID = id
			j.add(V15, &e, k, "has an inbox row and no effect row")
		}
	}
	if e.ID = (ID{}); s.hasState && s.state != s.versions.high {
		e.Version = s.state
		j.add(V15, &e, k, "the aggregate stands at version %d, its last effect is version %d", s.state, s.versions.high)
	}
}

// outboxRules is V14.
func (j *judge) outboxRules(k *key) {
	last := uint64(0)
	for _, row := range k.rows {
		e := Event{N: row.n, Topic: k.topic.name, Key: k.name, Version: row.version}
		if row.version != last+1 {
			j.add(V14, &e, k, "outbox rows in commit order go from version %d to %d", last, row.version)
		}
		last = row.version
		if row.m < 0 {
			continue
		}
		if m := &k.messages[row.m]; !m.ok && m.first < 0 {
			e.ID = m.id
			j.add(V14, &e, k, "committed in the outbox, and neither answered ok nor stored")
		}
	}
}
