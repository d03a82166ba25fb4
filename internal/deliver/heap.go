package deliver

// heap is a binary heap whose items know their place, so that any of them can be removed. Keys stand beside the items: a
// comparison touches no item.
//
// Invariant: *place(entries[i].item) == i, and -1 for whatever is not in the heap.
type heap[T any] struct {
	entries []heapEntry[T]
	place   func(T) *int32
}

// heapEntry is ordered by key, then by tie.
type heapEntry[T any] struct {
	key, tie int64
	item     T
}

func (e *heapEntry[T]) less(o *heapEntry[T]) bool {
	return e.key < o.key || e.key == o.key && e.tie < o.tie
}

func (h *heap[T]) len() int { return len(h.entries) }

// min is the smallest item, first its key. Requires: len() > 0.
func (h *heap[T]) min() T       { return h.entries[0].item }
func (h *heap[T]) first() int64 { return h.entries[0].key }

// set adds x, or moves it to its new key.
func (h *heap[T]) set(x T, key, tie int64) {
	at := *h.place(x)
	if at < 0 {
		at = int32(len(h.entries))
		h.entries = append(h.entries, heapEntry[T]{key, tie, x})
		*h.place(x) = at
		h.up(int(at))
		return
	}
	h.entries[at].key, h.entries[at].tie = key, tie
	if !h.down(int(at)) {
		h.up(int(at))
	}
}

// remove takes x out, if it is in.
func (h *heap[T]) remove(x T) {
	at := int(*h.place(x))
	if at < 0 {
		return
	}
	*h.place(x) = -1
	last := len(h.entries) - 1
	moved := h.entries[last]
	h.entries[last] = heapEntry[T]{}
	h.entries = h.entries[:last]
	if at < last {
		h.entries[at] = moved
		*h.place(moved.item) = int32(at)
		if !h.down(at) {
			h.up(at)
		}
	}
	if cap(h.entries) > 1024 && last < cap(h.entries)/8 { // a burst does not keep its memory
		h.entries = append(make([]heapEntry[T], 0, 2*last), h.entries...)
	}
}

func (h *heap[T]) up(i int) {
	e := h.entries[i]
	start := i
	for i > 0 {
		parent := (i - 1) / 2
		if !e.less(&h.entries[parent]) {
			break
		}
		h.entries[i] = h.entries[parent]
		*h.place(h.entries[i].item) = int32(i)
		i = parent
	}
	if i != start {
		h.entries[i] = e
		*h.place(e.item) = int32(i)
	}
}

func (h *heap[T]) down(i int) (moved bool) {
	e := h.entries[i]
	for {
		child := 2*i + 1
		if child >= len(h.entries) {
			break
		}
		if child+1 < len(h.entries) && h.entries[child+1].less(&h.entries[child]) {
			child++
		}
		if !h.entries[child].less(&e) {
			break
		}
		h.entries[i] = h.entries[child]
		*h.place(h.entries[i].item) = int32(i)
		i, moved = child, true
	}
	if moved {
		h.entries[i] = e
		*h.place(e.item) = int32(i)
	}
	return moved
}
