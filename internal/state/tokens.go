package state

// tokenMemory remembers recently finished tokens, about the last 65,536 of them: buckets of eight, found by a hash, in
// which the newest take the place of the oldest. It begins small, since most groups finish little. A dead-lettered token
// is kept with its top bit set, which no token has.
type tokenMemory struct {
	table []uint64 // length a power of two; 0: free
	count int      // places taken
}

const (
	tokenMemoryStart = 64
	tokenMemoryMax   = 1 << 16
	tokenBucket      = 8

	deadToken = 1 << 63
)

func (m *tokenMemory) bucket(token uint64) []uint64 {
	// The high bits of the product depend on all bits of the token: counters of several epochs spread alike.
	const golden = 0x9E3779B97F4A7C15
	at := int((token*golden)>>40) & (len(m.table)/tokenBucket - 1) * tokenBucket
	return m.table[at : at+tokenBucket]
}

func (m *tokenMemory) has(token uint64) bool {
	if len(m.table) == 0 {
		return false
	}
	for _, t := range m.bucket(token) {
		if t == token {
			return true
		}
	}
	return false
}

func (m *tokenMemory) add(token uint64) {
	if m.table == nil {
		m.table = make([]uint64, tokenMemoryStart)
	}
	for !m.put(token) {
		m.grow()
	}
}

// put is false when the bucket is full and the table not yet as large as it may become.
func (m *tokenMemory) put(token uint64) bool {
	bucket := m.bucket(token)
	oldest := 0
	for i, t := range bucket {
		switch {
		case t == token:
			return true
		case t == 0:
			bucket[i] = token
			m.count++
			return true
		case t&^deadToken < bucket[oldest]&^deadToken:
			oldest = i
		}
	}
	if len(m.table) < tokenMemoryMax && m.count >= len(m.table)/4 {
		return false
	}
	bucket[oldest] = token
	return true
}

func (m *tokenMemory) grow() {
	old := m.table
	*m = tokenMemory{table: make([]uint64, 4*len(old))}
	for _, t := range old {
		if t != 0 {
			m.put(t)
		}
	}
}
