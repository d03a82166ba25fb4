package consumer

// lanes decides which delivery may run: one at a time per message group, at most so many in all, lanes in the order in
// which they got work. It starts nothing itself.
//
// Invariant: a lane with a running item is not in ready; one with waiting items and none running is in ready or its head is
// handed out; running <= workers; an empty lane is forgotten.
type lanes struct {
	workers int
	running int
	count   int // items here: waiting and running
	byGroup map[string]*lane
	ready   fifo[*lane]
	spare   []*lane
}

// lane is the queue of one message group. A delivery without a message group has a lane of its own.
type lane struct {
	group string
	queue fifo[*item]
	busy  bool
}

// maxSpareLanes bounds the empty lanes kept for reuse.
const maxSpareLanes = 4096

func newLanes(workers int) *lanes {
	return &lanes{workers: workers, byGroup: map[string]*lane{}}
}

// add takes a delivery. Call next for what may start.
func (s *lanes) add(i *item) {
	l := s.lane(i.delivery.MessageGroup)
	i.lane = l
	l.queue.push(i)
	s.count++
	if !l.busy && l.queue.len() == 1 {
		s.ready.push(l)
	}
}

func (s *lanes) lane(group string) *lane {
	if l := s.byGroup[group]; l != nil && group != "" {
		return l
	}
	var l *lane
	if n := len(s.spare); n > 0 {
		l, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		l = &lane{}
	}
	l.group = group
	if group != "" {
		s.byGroup[group] = l
	}
	return l
}

// next hands out an item to run, or nil: nothing is ready, or all workers are taken.
func (s *lanes) next() *item {
	if s.running == s.workers {
		return nil
	}
	l, ok := s.ready.pop()
	if !ok {
		return nil
	}
	i, _ := l.queue.pop()
	l.busy = true
	s.running++
	i.stage = running
	return i
}

// done takes back an item that next handed out.
func (s *lanes) done(i *item) {
	l := i.lane
	i.stage, i.lane, l.busy = finished, nil, false
	s.running--
	s.count--
	s.settle(l)
}

// drop removes an item that waits.
func (s *lanes) drop(i *item) {
	l := i.lane
	l.queue.remove(i)
	i.stage, i.lane = finished, nil
	s.count--
	if l.queue.len() == 0 && !l.busy {
		s.ready.remove(l)
		s.forget(l)
	}
}

// settle puts a lane that has just become free at the end of the ready lanes, or forgets it.
func (s *lanes) settle(l *lane) {
	if l.queue.len() > 0 {
		s.ready.push(l)
		return
	}
	s.forget(l)
}

func (s *lanes) forget(l *lane) {
	if l.group != "" {
		delete(s.byGroup, l.group)
	}
	l.group = ""
	if len(s.spare) < maxSpareLanes {
		s.spare = append(s.spare, l)
	}
}

// fifo is a queue on a ring that grows.
type fifo[T comparable] struct {
	ring []T
	head int
	size int
}

func (q *fifo[T]) len() int { return q.size }

func (q *fifo[T]) push(v T) {
	if q.size == len(q.ring) {
		grown := make([]T, max(2, 2*len(q.ring)))
		for i := range q.size {
			grown[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.size)%len(q.ring)] = v
	q.size++
}

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.size == 0 {
		return v, false
	}
	var none T
	v, q.ring[q.head] = q.ring[q.head], none
	q.head = (q.head + 1) % len(q.ring)
	q.size--
	return v, true
}

// remove takes v out, wherever it stands. It costs the length of the queue.
func (q *fifo[T]) remove(v T) {
	for n := q.size; n > 0; n-- {
		if x, _ := q.pop(); x != v {
			q.push(x)
		}
	}
}
