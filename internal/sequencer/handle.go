package sequencer

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/dchest/siphash"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/deliver"
	"github.com/keystrand/keystrand/internal/state"
)

// A receipt handle is these bytes in URL-safe base64, big endian:
//
//	0       1         5         9          17        25        33        41
//	version group u32 topic u32 strand u64 entry u64 token u64 check u64
//
// The check is a SipHash with the data directory's secret key over everything before it, so a handle cannot be made or
// bent by a client, and one of another group, topic or broker is refused.
const (
	handleVersion = 1
	handleBytes   = 41
)

type handleCodec struct{ k0, k1 uint64 }

func (c handleCodec) encode(group state.GroupID, topic state.TopicID, h deliver.Handle) string {
	var b [handleBytes]byte
	b[0] = handleVersion
	binary.BigEndian.PutUint32(b[1:], uint32(group))
	binary.BigEndian.PutUint32(b[5:], uint32(topic))
	binary.BigEndian.PutUint64(b[9:], uint64(h.Strand))
	binary.BigEndian.PutUint64(b[17:], uint64(h.Entry))
	binary.BigEndian.PutUint64(b[25:], h.Token)
	binary.BigEndian.PutUint64(b[33:], c.check(b[:33]))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// decode returns keystrand.ErrBadHandle for everything that encode did not make for this group and topic, without saying why.
func (c handleCodec) decode(group state.GroupID, topic state.TopicID, text string) (deliver.Handle, error) {
	p, h, ok := c.open(text)
	if !ok || p != (pair{group, topic}) {
		return deliver.Handle{}, fmt.Errorf("receipt handle: %w", keystrand.ErrBadHandle)
	}
	return h, nil
}

// open reads what encode made, for whatever group and topic. The check is compared first and as a whole: a wrong handle
// learns nothing about which part of it was wrong.
func (c handleCodec) open(text string) (pair, deliver.Handle, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(handleBytes) {
		return pair{}, deliver.Handle{}, false
	}
	var b [handleBytes]byte
	n, err := base64.RawURLEncoding.Strict().Decode(b[:], []byte(text))
	if err != nil || n != handleBytes || c.check(b[:33]) != binary.BigEndian.Uint64(b[33:]) || b[0] != handleVersion {
		return pair{}, deliver.Handle{}, false
	}
	p := pair{state.GroupID(binary.BigEndian.Uint32(b[1:])), state.TopicID(binary.BigEndian.Uint32(b[5:]))}
	return p, deliver.Handle{
		Strand: state.StrandKey(binary.BigEndian.Uint64(b[9:])),
		Entry:  int64(binary.BigEndian.Uint64(b[17:])),
		Token:  binary.BigEndian.Uint64(b[25:]),
	}, true
}

func (c handleCodec) check(b []byte) uint64 { return siphash.Hash(c.k0, ^c.k1, b) }

// groupHash is the keyed hash that names a message group in the index.
func (c handleCodec) groupHash(group string) uint64 { return state.GroupHash(c.k0, c.k1, group) }
