package server

import (
	"log/slog"
	"time"
)

// Options of a Server. Only Sequencer is required.
type Options struct {
	// Sequencer is the broker's core.
	Sequencer Sequencer
	// Logger takes state changes and faults, never messages; default: nothing is logged.
	Logger *slog.Logger
	// BrokerName is the name of this broker in routes; clients key their queues by it, so it must not change while they run.
	// Default "keystrand".
	BrokerName string
	// MaxConnections bounds open connections; default 4096. Above it a new one is closed at once, and clients dial again later.
	MaxConnections int
	// MaxStreams bounds open calls per connection; default 4096. Above it the client's library waits.
	MaxStreams uint32
	// MaxHeldBytes bounds what requests that are still arriving hold in memory, all connections together; default 256 MiB.
	// Above it new calls are refused as exhausted until it has fallen.
	MaxHeldBytes int64
	// HandshakeTimeout bounds the time from accept to the end of the TLS and HTTP/2 handshakes; default 10 s.
	HandshakeTimeout time.Duration
	// CallTimeout bounds a call that names no deadline of its own or a longer one, so that a request that trickles in byte
	// by byte ends; default 2 min, above the longest poll. The telemetry stream has no end.
	CallTimeout time.Duration
	// IdleTimeout ends a connection without calls, gracefully; default 5 min.
	IdleTimeout time.Duration
}

func (o Options) complete() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BrokerName == "" {
		o.BrokerName = "keystrand"
	}
	setDefault(&o.MaxConnections, 4096)
	setDefault(&o.MaxStreams, 4096)
	setDefault(&o.MaxHeldBytes, 256<<20)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.CallTimeout, 2*time.Minute)
	setDefault(&o.IdleTimeout, 5*time.Minute)
	return o
}

func setDefault[T int | int64 | uint32 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
