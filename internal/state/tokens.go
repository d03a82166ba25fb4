package state

// tokenMemory remembers recently finished tokens, at most 65,536 of them, in a table indexed by the token's low bits. The
// grant counter is dense, so a newer token takes the place of the one 65,536 grants older; other clashes only forget early.
// It begins small, since most groups finish little.
type tokenMemory struct {
	table []uint64 // length a power of two
}

const (
	tokenMemoryStart = 256
	tokenMemoryMax   = 1 << 16
)

func (m *tokenMemory) has(token uint64) bool {
	return len(m.table) > 0 && m.table[token&uint64(len(m.table)-1)] == token
}

func (m *tokenMemory) add(token uint64) {
	if m.table == nil {
		m.table = make([]uint64, tokenMemoryStart)
	}
	for {
		at := &m.table[token&uint64(len(m.table)-1)]
		if *at == 0 || *at == token || len(m.table) == tokenMemoryMax {
			*at = token
			return
		}
		m.grow()
	}
}

func (m *tokenMemory) grow() {
	old := m.table
	m.table = make([]uint64, 4*len(old))
	for _, t := range old {
		if at := &m.table[t&uint64(len(m.table)-1)]; t > *at {
			*at = t
		}
	}
}
