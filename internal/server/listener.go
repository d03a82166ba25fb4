package server

import (
	"fmt"
	"net"
	"sync"

	"github.com/keystrand/keystrand"
)

// checkLoopback refuses every address that another machine could reach (SEC-01): there is no access control yet.
func checkLoopback(addr net.Addr) error {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("gRPC edge: %s is not a loopback address, and there is no access control to protect it; listen on 127.0.0.1 or ::1: %w",
		addr, keystrand.ErrRejected)
}

// boundedListener hands out connections up to Options.MaxConnections and closes those above at once, so that a flood
// takes no memory and clients hear of it at once and dial again later.
type boundedListener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	c := &l.server.counters
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.connections.Add(1) <= int64(l.server.options.MaxConnections) {
			c.accepted.Add(1)
			return &connection{Conn: raw, server: l.server}, nil
		}
		c.connections.Add(-1)
		c.refused.Add(1)
		_ = raw.Close() // nothing was read or written on it
	}
}

// maxClientsPerConnection bounds the client ids that one connection may speak for.
const maxClientsPerConnection = 256

// connection is an accepted connection and the clients that use it.
//
// Invariant: each client in clients counts this connection once, until Close.
type connection struct {
	net.Conn
	server *Server

	// peeked is the first byte, already read to tell TLS from plaintext; read by Read alone, before which it is set.
	peeked    byte
	hasPeeked bool

	mu      sync.Mutex // guards clients and closed
	clients map[string]*client
	closed  bool
	last    lastClient
}

// peek reads the first byte and keeps it for Read.
func (c *connection) peek() (byte, error) {
	var first [1]byte
	if _, err := c.Conn.Read(first[:]); err != nil {
		return 0, err
	}
	c.peeked, c.hasPeeked = first[0], true
	return c.peeked, nil
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if c.hasPeeked && len(p) > 0 {
		p[0], c.hasPeeked = c.peeked, false
		return 1, nil
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn and tells the registry which clients lost this connection.
func (c *connection) Close() error {
	c.mu.Lock()
	clients, again := c.clients, c.closed
	c.clients, c.closed = nil, true
	c.mu.Unlock()
	err := c.Conn.Close()
	if again {
		return err
	}
	c.server.counters.connections.Add(-1)
	for _, client := range clients {
		c.server.clients.leave(client)
	}
	return err
}

// client returns the client of that id, noting that it uses this connection. False: the connection speaks for too many.
func (c *connection) client(id string) (*client, bool) {
	if known := c.last.Load(); known != nil && known.id == id {
		return known, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.clients[id]
	switch {
	case known != nil:
	case c.closed:
		return &client{id: id}, true // the call dies with its connection; nobody may count on it
	case len(c.clients) >= maxClientsPerConnection:
		return nil, false
	default:
		if c.clients == nil {
			c.clients = make(map[string]*client)
		}
		known = c.server.clients.join(id)
		c.clients[id] = known
	}
	c.last.Store(known)
	return known, true
}
