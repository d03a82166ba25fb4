package state

import "github.com/dchest/siphash"

// reservedKeys are the strand keys below which no message group's hash may fall: they name the strands of queues.
const reservedKeys = 1 << 12

// GroupHash is the keyed hash of a message group: 0 for "no group", never a reserved key for any other. The key is the
// data directory's secret (store.Log.HashKey), so nobody can make up groups that share a strand.
func GroupHash(k0, k1 uint64, group string) uint64 {
	if group == "" {
		return 0
	}
	h := siphash.Hash(k0, k1, []byte(group))
	if h < reservedKeys {
		h |= 1 << 63
	}
	return h
}

// QueueStrand is the strand of a queue: of its messages without a group, or at order level queue of all of them.
func QueueStrand(queue int32) StrandKey { return StrandKey(uint32(queue)%(reservedKeys-1)) + 1 }

// TagHash is the hash of a tag that the index keeps: FNV-1a, 0 for "no tag" and for nothing else. Two tags may share it,
// so whoever has the message compares the text.
func TagHash(tag string) uint32 {
	if tag == "" {
		return 0
	}
	h := uint32(2166136261)
	for i := 0; i < len(tag); i++ {
		h = (h ^ uint32(tag[i])) * 16777619
	}
	return max(h, 1)
}
