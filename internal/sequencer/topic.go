package sequencer

import (
	"container/heap"

	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/store"
)

// topicState is the loop's view of a topic.
//
// Invariant: visible <= index.Count() == next; queueNext[q] is the next offset of queue q.
type topicState struct {
	state.Topic
	index     *store.Index
	recovered int64 // entries below it existed before this start
	visible   int64
	next      int64
	queueNext []int64
	roundTurn int32 // where the next message without a group goes
	machines  map[state.GroupID]*machine
}

// recount takes the counters from the index; all of it is visible.
func (t *topicState) recount() {
	t.next, t.visible = t.index.Count(), t.index.Count()
	t.queueNext = make([]int64, t.Queues)
	for q := range t.queueNext {
		t.queueNext[q] = t.index.QueueCount(int32(q))
	}
}

// pickQueue maps a message group to its queue, or spreads what has none. The mapping is the broker's alone: clients'
// hash functions differ between languages (Source: protocol notes on the official SDKs), so none is trusted.
func (t *topicState) pickQueue(groupHash uint64) int32 {
	if groupHash != 0 {
		return int32(groupHash % uint64(t.Queues))
	}
	t.roundTurn = (t.roundTurn + 1) % t.Queues
	return t.roundTurn
}

// machine is the delivery of one (consumer group, topic) with what the loop needs around it.
type machine struct {
	*deliver.Machine
	group      state.GroupID
	topic      *topicState
	progress   *state.Progress
	expression string // of the present subscription
	inTurn     bool
	due        clock.Mono
	heapAt     int // index in the timer heap, -1 when not in it
}

// machineHeap orders machines by when their next tick is due.
type machineHeap []*machine

func (h machineHeap) Len() int           { return len(h) }
func (h machineHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h machineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}
func (h *machineHeap) Push(x any) {
	m := x.(*machine)
	m.heapAt = len(*h)
	*h = append(*h, m)
}
func (h *machineHeap) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	m.heapAt = -1
	return m
}

// retime puts m where its next tick belongs. Called after every step of m.
func (s *Sequencer) retime(m *machine) {
	due, ok := m.Next()
	switch {
	case !ok && m.heapAt >= 0:
		heap.Remove(&s.loop.timers, m.heapAt)
	case ok && m.heapAt < 0:
		m.due = due
		heap.Push(&s.loop.timers, m)
	case ok && m.due != due:
		m.due = due
		heap.Fix(&s.loop.timers, m.heapAt)
	}
}
