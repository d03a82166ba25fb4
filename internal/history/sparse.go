package history

// sparse is an array that grows with use and keeps far outliers in a map, so that one wild number in a file cannot ask
// for memory.
type sparse[T any] struct {
	near []T
	far  map[int64]*T
}

// at returns the element i, made as the zero value. The pointer holds until the next call.
func (s *sparse[T]) at(i int64) *T {
	if i >= 0 && i < int64(2*len(s.near)+1024) {
		for i >= int64(len(s.near)) {
			var zero T
			s.near = append(s.near, zero)
		}
		if p, ok := s.far[i]; ok { // it was far when it came
			s.near[i] = *p
			delete(s.far, i)
		}
		return &s.near[i]
	}
	if p, ok := s.far[i]; ok {
		return p
	}
	if s.far == nil {
		s.far = make(map[int64]*T)
	}
	p := new(T)
	s.far[i] = p
	return p
}

// get returns the element i, or nil if at was never asked for it.
func (s *sparse[T]) get(i int64) *T {
	if i >= 0 && i < int64(len(s.near)) {
		return &s.near[i]
	}
	return s.far[i]
}

// bits is a set of small numbers.
type bits []uint64

func (b *bits) set(i int32) {
	for int(i>>6) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func (b bits) has(i int32) bool { return int(i>>6) < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

func (b bits) clear(i int32) {
	if int(i>>6) < len(b) {
		b[i>>6] &^= 1 << (i & 63)
	}
}
