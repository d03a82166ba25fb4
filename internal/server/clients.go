package server

import (
	"sync"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	// seenEvery is the least time between two signs of life of one client told to the core, whose patience is 30 s.
	seenEvery = time.Second
	// goneAfter is how long a client without a connection may take to come back.
	goneAfter = 3 * time.Second
)

// client is one client id with at least one open connection. What is known of it is learnt from its calls and forgotten
// with its last connection; nothing essential depends on it.
type client struct {
	id          string
	connections int // guarded by registry.mu

	push  atomic.Bool // it asked for auto-renewed leases, or called itself a push consumer
	group atomic.Pointer[string]
	seen  atomic.Int64 // time of the last sign of life told to the core, in ns since the registry's start; 0: never
}

type lastClient = atomic.Pointer[client]

// registry knows the clients that have a connection. Lock order: connection.mu before registry.mu.
type registry struct {
	core  delivering
	start time.Time

	mu      sync.Mutex // guards clients and client.connections
	clients map[string]*client
}

func newRegistry(core delivering) *registry {
	return &registry{core: core, start: time.Now(), clients: make(map[string]*client)}
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.clients)
}

// join counts one more connection of the client.
func (r *registry) join(id string) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clients[id]
	if c == nil {
		c = &client{id: id}
		r.clients[id] = c
	}
	c.connections++
	return c
}

// leave counts one connection less. After the last one the core is told; its leases end soon unless it comes back.
func (r *registry) leave(c *client) {
	if !r.drop(c) {
		return
	}
	r.core.ClientGone(c.id, goneAfter)
	// It may have come back between drop and ClientGone, and its sign of life may have been told before our farewell.
	r.mu.Lock()
	back := r.clients[c.id]
	r.mu.Unlock()
	if back != nil {
		r.core.ClientSeen(c.id, back.groupName())
	}
}

func (r *registry) drop(c *client) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.connections--
	if c.connections > 0 {
		return false
	}
	delete(r.clients, c.id)
	return true
}

// terminated tells the core that the client said good-bye.
func (r *registry) terminated(c *client) {
	r.core.ClientGone(c.id, 0)
	c.seen.Store(0)
}

// seenIn tells the core of a sign of life, at most once in seenEvery. group "" means the client's known one.
func (r *registry) seenIn(c *client, group string) {
	now := int64(time.Since(r.start)) + 1
	known := c.groupName()
	if group == "" {
		group = known
	}
	last := c.seen.Load()
	if last != 0 && now-last < int64(seenEvery) && group == known {
		return
	}
	if group != known {
		c.group.Store(&group)
	}
	if c.seen.CompareAndSwap(last, now) {
		r.core.ClientSeen(c.id, group)
	}
}

func (c *client) groupName() string {
	if g := c.group.Load(); g != nil {
		return *g
	}
	return ""
}

// learn notes what kind of client it says it is.
func (c *client) learn(kind v2.ClientType) {
	switch kind {
	case v2.ClientType_PUSH_CONSUMER:
		c.push.Store(true)
	case v2.ClientType_SIMPLE_CONSUMER:
		c.push.Store(false)
	}
}
