package state

import "github.com/keystrand/keystrand/internal/store"

// Index is what the fold and delivery need of a topic's index; *store.Index is one. Entry n must exist for every n below
// the number of stored messages that the caller told of.
type Index interface {
	Entry(n int64) (store.Entry, error)
}

// Mode is how a group's strands are cut out of a topic. It is fixed when the group first reads the topic.
type Mode uint8

// The modes. Numbers are on disk.
const (
	ModeGroup     Mode = 1 // a strand per message group; per queue for messages without one
	ModeQueue     Mode = 2 // a strand per queue
	ModeUnordered Mode = 3 // each message is a strand of its own
)

// keyOf names the strand of entry n.
func (m Mode) keyOf(n int64, e *store.Entry) StrandKey {
	switch {
	case m == ModeUnordered:
		return StrandKey(n)
	case m == ModeQueue || e.GroupHash == 0:
		return QueueStrand(e.Queue)
	default:
		return StrandKey(e.GroupHash)
	}
}

// nextOf is the entry after e in its strand, store.NoEntry if there is none yet.
func (m Mode) nextOf(e *store.Entry) int64 {
	switch m {
	case ModeQueue:
		return e.QueueNext
	case ModeUnordered:
		return store.NoEntry
	default:
		return e.Next
	}
}
