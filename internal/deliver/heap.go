package deliver

// heap is a binary heap whose items know their place, so that any of them can be removed.
//
// Invariant: *place(items[i]) == i, and -1 for whatever is not in the heap.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(T) *int32
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	*h.place(x) = int32(len(h.items) - 1)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T {
	x := h.items[0]
	h.removeAt(0)
	return x
}

// remove takes x out, if it is in.
func (h *heap[T]) remove(x T) {
	if at := *h.place(x); at >= 0 {
		h.removeAt(int(at))
	}
}

// fix puts x where it belongs after its key changed, or adds it.
func (h *heap[T]) fix(x T) {
	at := *h.place(x)
	if at < 0 {
		h.push(x)
		return
	}
	if !h.down(int(at)) {
		h.up(int(at))
	}
}

func (h *heap[T]) removeAt(i int) {
	last := len(h.items) - 1
	x := h.items[i]
	h.swap(i, last)
	*h.place(x) = -1
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i < last && !h.down(i) {
		h.up(i)
	}
	if cap(h.items) > 1024 && last < cap(h.items)/8 { // a burst does not keep its memory
		h.items = append(make([]T, 0, 2*last), h.items...)
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.place(h.items[i]), *h.place(h.items[j]) = int32(i), int32(j)
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return moved
		}
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], h.items[i]) {
			return moved
		}
		h.swap(i, child)
		i, moved = child, true
	}
}
