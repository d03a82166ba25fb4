package store

// windowBytes is how much of a segment is read at a time when it is read from front to back.
const windowBytes = 1 << 18

// window reads a segment from front to back.
type window struct {
	s    *segment
	buf  []byte
	from int64 // offset of buf[0]
}

func newWindow(s *segment, off int64) *window { return &window{s: s, from: off} }

// bytes returns at least n bytes from off on, or as many as the segment has. They are valid until the next call.
func (w *window) bytes(off, n int64) ([]byte, error) {
	n = min(n, w.s.size-off)
	if off >= w.from && off+n <= w.from+int64(len(w.buf)) {
		return w.buf[off-w.from:], nil
	}
	want := min(max(n, windowBytes), w.s.size-off)
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	w.buf, w.from = w.buf[:want], off
	if err := readFull(w.s.file, w.buf, off); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf, nil
}

// record decodes the record at off. Its body is valid until the next call.
func (w *window) record(off int64, seed uint32) (frame, error) {
	place := at(w.s.id, off)
	b, err := w.bytes(off, frameHeaderBytes)
	if err != nil {
		return frame{}, err
	}
	if len(b) < frameHeaderBytes {
		return frame{}, errNoRecord
	}
	n, err := frameLength(b, place, w.s.size-off)
	if err != nil {
		return frame{}, err
	}
	if b, err = w.bytes(off, frameHeaderBytes+int64(n)); err != nil {
		return frame{}, err
	}
	return decodeFrame(b, seed, place)
}
