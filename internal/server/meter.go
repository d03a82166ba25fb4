package server

import (
	"errors"
	"net"
	"sync"
	"time"
)

// HTTP/2 as far as the meter reads it: each frame begins with a header of 9 bytes. Source: RFC 9113, section 4.1.
//
//	length (3) | type (1) | flags (1) | stream id (4, top bit reserved) | payload (length)
const (
	prefaceBytes     = 24 // "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", before the first frame
	frameHeaderBytes = 9

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	framePing         = 6
	frameWindowUpdate = 8
	flagEndStream     = 1
)

const (
	// maxCheapFrames bounds, per connection and second, the frames that cost their sender nothing: resets, settings,
	// priorities, continuations, empty data. Pings are left out: the Go client measures with one per round trip, and the transport
	// bounds them itself.
	maxCheapFrames = 2000
	// sweepEvery is how often streams that are over for the server are forgotten.
	sweepEvery = 10 * time.Second
)

var (
	errFrameFlood = errors.New("connection cut: too many resets, settings or empty frames")
	errHolds      = errors.New("connection cut: its unfinished requests hold more memory than their share")
)

// meter counts the frames that a connection receives, below the HTTP/2 transport and above TLS. It cuts a connection that
// floods the server with cheap frames (SEC-45), and, when requests that have not arrived whole hold more than
// Options.MaxHeldBytes in all, the connections that hold more than the average (SEC-40). It reads frame headers only.
//
// Invariant: held is the sum of streams; the server's counter of arriving bytes is the sum of all open meters' held.
type meter struct {
	net.Conn
	server *Server

	// Used by Read alone.
	header [frameHeaderBytes]byte
	have   int    // bytes of header that are there
	skip   uint32 // bytes of payload, or of the preface, that are still to come
	window time.Time
	cheap  int // cheap frames since window

	mu      sync.Mutex // guards those below
	streams map[uint32]arriving
	held    int64
	swept   time.Time
	closed  bool
}

// arriving is a request of which at least one frame is still to come.
type arriving struct {
	bytes int64
	since time.Time
}

func newMeter(c net.Conn, s *Server) *meter {
	return &meter{Conn: c, server: s, skip: prefaceBytes}
}

// Read implements net.Conn.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if fault := m.feed(p[:n]); fault != nil {
		m.server.counters.cut.Add(1)
		return 0, errors.Join(fault, m.Close())
	}
	return n, err
}

// Close implements net.Conn.
func (m *meter) Close() error {
	m.mu.Lock()
	m.closed = true
	m.changeLocked(-m.held)
	m.streams = nil
	m.mu.Unlock()
	return m.Conn.Close()
}

func (m *meter) feed(p []byte) error {
	for len(p) > 0 {
		if m.skip > 0 {
			n := min(uint32(len(p)), m.skip)
			m.skip -= n
			p = p[n:]
			continue
		}
		n := copy(m.header[m.have:], p)
		m.have += n
		p = p[n:]
		if m.have < frameHeaderBytes {
			return nil
		}
		m.have = 0
		if err := m.frame(); err != nil {
			return err
		}
	}
	return nil
}

// frame takes one frame whose header is complete.
func (m *meter) frame() error {
	h := &m.header
	m.skip = uint32(h[0])<<16 | uint32(h[1])<<8 | uint32(h[2])
	stream := (uint32(h[5])<<24 | uint32(h[6])<<16 | uint32(h[7])<<8 | uint32(h[8])) & (1<<31 - 1)
	ends := h[4]&flagEndStream != 0
	switch h[3] {
	case frameHeaders, framePing, frameWindowUpdate:
		return nil
	case frameData:
		if m.skip > 0 || ends {
			return m.data(stream, m.skip, ends)
		}
	case frameReset:
		m.over(stream)
	}
	return m.countCheap()
}

func (m *meter) countCheap() error {
	now := time.Now()
	if now.Sub(m.window) >= time.Second {
		m.window, m.cheap = now, 0
	}
	m.cheap++
	if m.cheap > maxCheapFrames {
		return errFrameFlood
	}
	return nil
}

// data notes a frame of a request. The usual request is one frame, which is its last: nothing is noted for it.
func (m *meter) data(stream, size uint32, ends bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ends {
		m.overLocked(stream)
		return nil
	}
	now := time.Now()
	m.sweepLocked(now)
	if m.closed {
		return net.ErrClosed
	}
	if m.streams == nil {
		m.streams = make(map[uint32]arriving)
	}
	a, known := m.streams[stream]
	if !known {
		a.since = now
	}
	a.bytes += int64(size)
	m.streams[stream] = a
	m.changeLocked(int64(size))
	return m.shareLocked()
}

func (m *meter) over(stream uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overLocked(stream)
}

func (m *meter) overLocked(stream uint32) {
	if a, known := m.streams[stream]; known {
		delete(m.streams, stream)
		m.changeLocked(-a.bytes)
	}
}

// sweepLocked forgets streams that began longer ago than a call may last: the server has ended them. Telemetry streams
// go on, but their requests are small and have been read.
func (m *meter) sweepLocked(now time.Time) {
	if len(m.streams) == 0 || now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for id, a := range m.streams {
		if now.Sub(a.since) > m.server.options.CallTimeout {
			m.overLocked(id)
		}
	}
}

// changeLocked keeps the server's sums in step with held.
func (m *meter) changeLocked(by int64) {
	c := &m.server.counters
	switch before := m.held; {
	case before == 0 && by > 0:
		c.holders.Add(1)
	case before > 0 && before+by == 0:
		c.holders.Add(-1)
	}
	m.held += by
	c.arrivingBytes.Add(by)
}

// shareLocked cuts the connection when all together hold too much and this one more than the average: at least one does.
func (m *meter) shareLocked() error {
	c := &m.server.counters
	all := c.arrivingBytes.Load()
	if all > m.server.options.MaxHeldBytes && m.held*max(1, c.holders.Load()) >= all {
		return errHolds
	}
	return nil
}
