package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
)

// First bytes of what may come: a TLS handshake record, or HTTP/2's preface "PRI * HTTP/2.0".
const (
	firstOfTLS  = 0x16
	firstOfHTTP = 'P'
)

// handshake lets TLS and plaintext share one port: the Go, Java and C# clients dial TLS, the others do not. It runs in a
// goroutine per connection, under the connection's handshake deadline, so a silent peer holds up nobody.
type handshake struct {
	server *Server
	tls    credentials.TransportCredentials
}

func newHandshake(s *Server) (*handshake, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	return &handshake{server: s, tls: credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
	})}, nil
}

// connectionInfo hands a call its connection.
type connectionInfo struct {
	credentials.CommonAuthInfo
	connection *connection
}

// AuthType implements credentials.AuthInfo.
func (connectionInfo) AuthType() string { return "none" }

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := raw.(*connection)
	if !ok {
		return nil, nil, fmt.Errorf("connection of unexpected type %T", raw)
	}
	conn, err := h.shake(c)
	if err != nil {
		h.server.counters.unshaken.Add(1)
		return nil, nil, err
	}
	return newMeter(conn, h.server), connectionInfo{connection: c}, nil
}

func (h *handshake) shake(c *connection) (net.Conn, error) {
	first, err := c.peek()
	if err != nil {
		return nil, fmt.Errorf("first byte: %w", err)
	}
	switch first {
	case firstOfHTTP:
		return c, nil
	case firstOfTLS:
		conn, _, err := h.tls.ServerHandshake(c)
		return conn, err
	}
	return nil, fmt.Errorf("first byte 0x%02x is neither TLS nor HTTP/2", first)
}

// ClientHandshake implements credentials.TransportCredentials; this side is never a client.
func (h *handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("server credentials used by a client")
}

// Info implements credentials.TransportCredentials.
func (h *handshake) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls or plaintext"}
}

// Clone implements credentials.TransportCredentials.
func (h *handshake) Clone() credentials.TransportCredentials { c := *h; return &c }

// OverrideServerName implements credentials.TransportCredentials; servers have no use for it.
func (h *handshake) OverrideServerName(string) error { return nil }
