package store

import "fmt"

// repair makes the disk say what the judge decided: what is kept above the known mark is written again, because after
// a failed sync the system may hold pages as clean that never reached the disk; everything from the end on is zeroed. Then all of
// it is synced, and only then it counts.
func (l *Log) repair(segments int, j *judge) error {
	first := max(min(j.known.segment(), j.end.segment()), 1)
	for id := first; int(id) <= segments; id++ {
		if err := l.repairSegment(id, j); err != nil {
			return err
		}
	}
	if l.report.CutBytes > 0 && j.why != nil {
		l.report.CutWhy = fmt.Sprintf("%v at %v", j.why, j.broken)
	}
	return nil
}

func (l *Log) repairSegment(id uint32, j *judge) error {
	s, err := l.segs.acquire(id)
	if err != nil {
		return err
	}
	defer l.segs.release(s)
	keepFrom, keepTo := int64(segmentStart), int64(segmentStart)
	switch {
	case id < j.end.segment():
		keepTo = s.size
	case id == j.end.segment():
		keepTo = j.end.offset()
	}
	if id == j.known.segment() {
		keepFrom = max(j.known.offset(), keepFrom)
	}
	if err := rewrite(s, keepFrom, keepTo); err != nil {
		return err
	}
	cut, err := zero(s, keepTo)
	if err != nil {
		return err
	}
	l.report.CutBytes += cut
	return s.file.Sync()
}

func rewrite(s *segment, from, to int64) error {
	w := newWindow(s, from)
	for from < to {
		b, err := w.bytes(from, 1)
		if err != nil {
			return err
		}
		b = b[:min(int64(len(b)), to-from)]
		if _, err := writeFull(s.file, b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}

// zero clears a segment from an offset on, touching only what is not zero, and returns how many bytes that was.
func zero(s *segment, from int64) (int64, error) {
	w := newWindow(s, from)
	var cut int64
	for from < s.size {
		b, err := w.bytes(from, 1)
		if err != nil {
			return cut, err
		}
		last := len(b)
		for last > 0 && b[last-1] == 0 {
			last--
		}
		if last > 0 {
			if err := writeZeros(s.file, from, int64(last)); err != nil {
				return cut, err
			}
			cut += int64(last)
		}
		from += int64(len(b))
	}
	return cut, nil
}
