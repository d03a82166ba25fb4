package server

import "sync/atomic"

// counters are what Stats tells.
type counters struct {
	connections atomic.Int64
	// arrivingBytes are in requests that have not arrived whole, of as many connections as holders; storingBytes are bodies
	// that wait to be durable.
	arrivingBytes, holders, storingBytes atomic.Int64
	accepted, refused, unshaken, cut     atomic.Uint64
	calls, exhausted, panics             atomic.Uint64
}

func (c *counters) heldBytes() int64 { return c.arrivingBytes.Load() + c.storingBytes.Load() }

// Stats is a moment's view for metrics.
type Stats struct {
	// Connections are open now; Clients are the client ids that use them.
	Connections, Clients int
	// HeldBytes are in requests that have not arrived whole, and in bodies that wait to be durable.
	HeldBytes int64
	// Accepted connections since the start; Refused were closed at once because of MaxConnections; HandshakeFailures spoke
	// another protocol or were silent; Cut abused HTTP/2.
	Accepted, Refused, HandshakeFailures, Cut uint64
	// Calls since the start; Exhausted were refused because of MaxHeldBytes; Panics were answered INTERNAL.
	Calls, Exhausted, Panics uint64
}

// Stats tells of connections, calls and refusals.
func (s *Server) Stats() Stats {
	c := &s.counters
	return Stats{
		Connections: int(c.connections.Load()), Clients: s.clients.count(), HeldBytes: c.heldBytes(),
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), HandshakeFailures: c.unshaken.Load(), Cut: c.cut.Load(),
		Calls: c.calls.Load(), Exhausted: c.exhausted.Load(), Panics: c.panics.Load(),
	}
}
