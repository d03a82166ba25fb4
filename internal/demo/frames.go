package demo

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames looks at the HTTP/2 frames of one connection as they pass.
type frames struct {
	proxy *proxy

	mu     sync.Mutex // guards doomed: both directions look at it
	doomed uint32     // the stream whose answer shall be lost; 0: none
}

const (
	frameHeaderBytes = 9
	maxFrameBytes    = 1 << 24
)

// errLost ends a connection because the loss was done.
var errLost = errors.New("lost on purpose")

// frame is one frame, header included.
type frame struct {
	kind   http2.FrameType
	flags  http2.Flags
	stream uint32
	bytes  []byte
}

func (f *frame) payload() []byte { return f.bytes[frameHeaderBytes:] }

// readFrame reads into buf and returns the frame, which aliases it.
func readFrame(r io.Reader, buf []byte) (frame, []byte, error) {
	buf = grow(buf, frameHeaderBytes)
	if _, err := io.ReadFull(r, buf[:frameHeaderBytes]); err != nil {
		return frame{}, buf, err
	}
	length := int(buf[0])<<16 | int(buf[1])<<8 | int(buf[2])
	if length > maxFrameBytes {
		return frame{}, buf, errors.New("frame too large")
	}
	buf = grow(buf, frameHeaderBytes+length)
	if _, err := io.ReadFull(r, buf[frameHeaderBytes:frameHeaderBytes+length]); err != nil {
		return frame{}, buf, err
	}
	f := frame{http2.FrameType(buf[3]), http2.Flags(buf[4]), binary.BigEndian.Uint32(buf[5:9]) & 0x7fffffff, buf[:frameHeaderBytes+length]}
	return f, buf, nil
}

func grow(buf []byte, n int) []byte {
	if cap(buf) < n {
		bigger := make([]byte, n)
		copy(bigger, buf)
		return bigger
	}
	return buf[:cap(buf)]
}

// requests forwards the client's frames. A send whose request shall be lost is read to its end, and nothing more is
// forwarded: the broker never sees it.
func (x *frames) requests(to io.Writer, from io.Reader) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(from, preface); err != nil {
		return err
	}
	if _, err := to.Write(preface); err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		_, err := io.Copy(to, from) // not plain HTTP/2: carried, never lost
		return err
	}
	var buf []byte
	decoder := hpack.NewDecoder(1<<16, nil)
	losing := uint32(0)
	for {
		f, grown, err := readFrame(from, buf)
		buf = grown
		if err != nil {
			return err
		}
		if losing == 0 && f.kind == http2.FrameHeaders {
			losing = x.request(&f, decoder)
		}
		if losing == 0 {
			if _, err := to.Write(f.bytes); err != nil {
				return err
			}
			continue
		}
		if f.stream == losing && f.flags.Has(http2.FlagDataEndStream) && (f.kind == http2.FrameData || f.kind == http2.FrameHeaders) {
			x.proxy.lost <- loseRequest // buffered; one loss is armed at a time
			return errLost
		}
	}
}

// request notes a new call, and says whether it is one to lose.
func (x *frames) request(f *frame, decoder *hpack.Decoder) (losing uint32) {
	if path(f, decoder) != sendPath {
		return 0
	}
	if x.proxy.claim(loseRequest) {
		return f.stream
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doomed == 0 && x.proxy.claim(loseAnswer) {
		x.doomed = f.stream
	}
	return 0
}

// path is the call of a HEADERS frame. The decoder must see every one, since later ones refer to earlier ones. A request's
// headers of this protocol fit one frame; one that continues is carried and not known.
func path(f *frame, decoder *hpack.Decoder) string {
	block := f.payload()
	if f.flags.Has(http2.FlagHeadersPadded) && len(block) > 0 {
		pad := int(block[0])
		if pad+1 > len(block) {
			return ""
		}
		block = block[1 : len(block)-pad]
	}
	if f.flags.Has(http2.FlagHeadersPriority) {
		if len(block) < 5 {
			return ""
		}
		block = block[5:]
	}
	fields, err := decoder.DecodeFull(block)
	if err != nil || !f.flags.Has(http2.FlagHeadersEndHeaders) {
		return ""
	}
	for _, field := range fields {
		if field.Name == ":path" {
			return field.Value
		}
	}
	return ""
}

// answers forwards the broker's frames. When the answer of a doomed send begins, the broker has stored the message and
// said so: from there on nothing is forwarded.
func (x *frames) answers(to io.Writer, from io.Reader) error {
	var buf []byte
	for {
		f, grown, err := readFrame(from, buf)
		buf = grown
		if err != nil {
			return err
		}
		x.mu.Lock()
		doomed := x.doomed
		x.mu.Unlock()
		if doomed != 0 && f.stream == doomed && f.kind == http2.FrameHeaders {
			x.proxy.lost <- loseAnswer // buffered; one loss is armed at a time
			return errLost
		}
		if _, err := to.Write(f.bytes); err != nil {
			return err
		}
	}
}
