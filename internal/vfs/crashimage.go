package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns what the disk holds after a power loss now: all that was synced, and each unsynced block and each
// unsynced name change with probability p, by seed. 0 keeps nothing unsynced, 1 keeps everything. In between, a block that
// reached the disk did so as its newest version, as an older unsynced one, or torn: the first bytes of one and the last of another.
// This world goes on; Stop it when it should not.
func (c *CrashFS) Crash(p float64, seed uint64) *CrashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := rand.New(rand.NewPCG(seed, 0x6b657973))
	names := maps.Clone(c.durable)
	for _, n := range c.pending {
		if r.Float64() < p {
			n.apply(names)
		}
	}
	image := NewCrashFS()
	image.free, image.inodes = c.free, c.inodes
	image.dirs = maps.Clone(c.dirs)
	made := map[*inode]*inode{} // one file may have two names when a rename was half kept
	for _, name := range sortedKeys(names) {
		node := names[name]
		if made[node] == nil {
			made[node] = node.crash(p, r)
		}
		image.names[name] = made[node]
	}
	image.durable = maps.Clone(image.names)
	return image
}

func (n *inode) crash(p float64, r *rand.Rand) *inode {
	next := newInode(n.id)
	next.size = n.durableSize
	if n.size != n.durableSize && r.Float64() < p {
		next.size = n.size
	}
	next.cur = maps.Clone(n.durable)
	unsynced := maps.Clone(n.limbo)
	maps.Copy(unsynced, n.dirty)
	for _, b := range slices.Sorted(maps.Keys(unsynced)) {
		if r.Float64() >= p {
			continue
		}
		versions := append([]*block{n.durable[b]}, unsynced[b]...)
		v := versions[len(versions)-1]
		if p < 1 {
			v = survivor(versions, r)
		}
		if v == nil {
			delete(next.cur, b)
		} else {
			next.cur[b] = v
		}
	}
	for b := range next.cur {
		switch at := next.size - b*crashBlockBytes; {
		case at <= 0:
			delete(next.cur, b)
		case at < crashBlockBytes: // what a file had beyond its end reads as zeros when it grows again
			cut := *next.cur[b]
			clear(cut[at:])
			next.cur[b] = &cut
		}
	}
	next.durable, next.durableSize = maps.Clone(next.cur), next.size
	return next
}

// survivor picks what one block became: mostly its newest version.
func survivor(versions []*block, r *rand.Rand) *block {
	newest := len(versions) - 1
	switch pick := r.IntN(8); {
	case pick == 0 && newest > 1:
		return versions[1+r.IntN(newest-1)]
	case pick <= 2:
		first, last := versions[newest], versions[newest-1]
		if r.IntN(4) == 0 {
			first, last = last, first
		}
		return torn(first, last, r.IntN(crashBlockBytes+1))
	}
	return versions[newest]
}

// torn has the first n bytes of one block and the rest of another.
func torn(first, last *block, n int) *block {
	var b block
	if first != nil {
		copy(b[:n], first[:n])
	}
	if last != nil {
		copy(b[n:], last[n:])
	}
	return &b
}
