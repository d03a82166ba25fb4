package history

import "math"

// sendRules is V1 to V5, at the end of the first pass.
func (j *judge) sendRules() {
	for _, t := range j.truth.order {
		for _, k := range t.order {
			j.lostAndPhantom(t, k)
			if k.name != "" {
				j.sendOrder(k)
			}
		}
		if t.logged {
			j.density(t)
		}
	}
}

// lostAndPhantom is V1 and V2, per id.
func (j *judge) lostAndPhantom(t *topic, k *key) {
	for i := range k.messages {
		m := &k.messages[i]
		stored := m.first >= 0
		e := Event{N: m.n, T: m.inv, Topic: t.name, Key: k.name, ID: m.id}
		switch {
		case m.ok && !stored:
			j.sum.Lost++
			j.add(V1, &e, k, "answered ok and not stored: %s", k.whereLost(m))
		case stored && !m.invoked:
			e.N = k.places[m.first].n
			j.add(V2, &e, k, "nobody sent it")
		case stored && m.may == 0:
			j.add(V2, &e, k, "every send of it was answered fail, yet it stands at queue %d offset %d", k.places[m.first].q, k.places[m.first].off)
		case m.copies > m.may && stored:
			j.add(V2, &e, k, "stored %d times, but only %d sends may have stored it", m.copies, m.may)
		}
	}
}

// whereLost says head, middle or tail of its producer's messages of the key: the middle is the worst, the tail hints at
// data that was not synced.
func (k *key) whereLost(lost *message) string {
	before, after := false, false
	for i := range k.messages {
		m := &k.messages[i]
		if m.id.Producer != lost.id.Producer || m.first < 0 {
			continue
		}
		before = before || m.id.Counter < lost.id.Counter
		after = after || m.id.Counter > lost.id.Counter
	}
	switch {
	case before && after:
		return "lost middle"
	case after:
		return "lost head"
	case before:
		return "lost tail"
	}
	return "lost, with everything of its producer and key"
}

// sendOrder is V4 and V5 on first copies.
func (j *judge) sendOrder(k *key) {
	least, who := int64(math.MaxInt64), int32(-1) // the earliest ok among those that stand later
	for p := len(k.places) - 1; p >= 0; p-- {
		m := &k.messages[k.places[p].m]
		if m.first != int32(p) || !m.invoked {
			continue
		}
		if least < m.inv {
			// The walk is backwards: who stands after m, yet it was answered before m began.
			other := &k.messages[who]
			j.add(V4, &Event{N: m.n, T: m.inv, Topic: k.topic.name, Key: k.name, ID: m.id}, k,
				"stands before %s, whose send was answered ok before this one began (line %d)", other.id, other.n)
		}
		if m.ret < least {
			least, who = m.ret, k.places[p].m
		}
	}
	j.programOrder(k)
}

func (j *judge) programOrder(k *key) {
	var high [4]uint32 // of the first few producers, so that the common case makes no map
	more := map[int]uint32{}
	for p := range k.places {
		m := &k.messages[k.places[p].m]
		if m.first != int32(p) || !m.invoked {
			continue
		}
		who := k.producerOf(m.id)
		last := more[who]
		if who < len(high) {
			last = high[who]
		}
		if m.id.Counter < last {
			j.add(V5, &Event{N: m.n, T: m.inv, Topic: k.topic.name, Key: k.name, ID: m.id}, k, "stands behind message %d of its own producer", last)
			continue
		}
		if who < len(high) {
			high[who] = m.id.Counter
		} else {
			more[who] = m.id.Counter
		}
	}
}

func (k *key) producerOf(id ID) int {
	for i := range k.producers {
		if k.producers[i].number == id.Producer {
			return i
		}
	}
	return 0
}

// density is the second half of V3: the offsets of a queue are dense. A hole where a lost send was answered is V1's.
func (j *judge) density(t *topic) {
	for number, q := range t.queues {
		for off := q.low; off < q.high; off++ {
			s := q.slots.get(off)
			if s != nil && (s.log || s.m != 0 && s.key.messages[s.m-1].first < 0) {
				continue
			}
			n := uint64(0)
			if s != nil {
				n = s.n
			}
			j.add(V3, &Event{N: n, Topic: t.name, Queue: number, Offset: off}, nil, "queue %d has no message at offset %d, which is below its last", number, off)
			if j.checks[V3].Count > maxHoles {
				return
			}
		}
	}
}

// maxHoles bounds the walk over a queue whose last offset is a wild number.
const maxHoles = 1000
