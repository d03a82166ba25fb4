package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/dialect"
)

// known is what has been read so far of an aggregate. What costs a query of its own is read only when decide asks.
type known struct {
	exists bool
	row    dialect.InboxRow
	seen   *dialect.InboxEvent // the applied event with this event's id

	atRead bool
	at     *dialect.InboxEvent // the applied event of this version

	waitingRead bool
	waitingSum  []byte // of the parked event of this version; nil: none

	allRead bool
	all     int // parked events of the whole inbox
}

// verb is what to do with an event.
type verb uint8

const (
	doApply verb = iota + 1
	doPark
	doAside
	doNothing // the outcome says why
	doRefuse  // err says why
	readAt    // read known.at and ask again
	readWaiting
	readAll
)

// decision is the answer of decide.
type decision struct {
	do      verb
	outcome Outcome
	next    dialect.InboxRow // the row to set: doApply, doPark, doAside
	reason  string           // doAside
	err     error            // doRefuse
}

// rules are the settings that decide looks at.
type rules struct {
	gap                     GapPolicy
	maxPerAggregate, maxAll int
	transitions             Transitions
}

// decide says what becomes of an event, from what is known. It reads and writes nothing.
//
// Invariant: doApply sets exactly the version after the applied one; no decision lowers a version or a token of one broker.
func decide(r rules, e keystrand.Event, sum []byte, token keystrand.Token, k known) decision {
	stale := k.row.Token.Supersedes(token) && !token.IsZero()
	if stale && !acceptStaleTokens {
		return decision{do: doRefuse, outcome: Superseded, err: &TokenError{Aggregate: e.Aggregate, Stored: k.row.Token, Got: token}}
	}
	next := k.row
	if !token.IsZero() && !stale {
		next.Token = token
	}
	if k.seen != nil {
		if k.seen.Aggregate == e.Aggregate && bytes.Equal(k.seen.Sum, sum) {
			return decision{do: doNothing, outcome: Duplicate}
		}
		return aside(next, fmt.Sprintf("its event id was applied with other content, as version %d of %q", k.seen.Version, k.seen.Aggregate))
	}
	switch {
	case e.Version <= k.row.Version:
		return decideLate(e, sum, k, next)
	case e.Version == k.row.Version+1:
		return decideNext(r, e, k, next)
	}
	return decideEarly(r, e, sum, k, next)
}

func aside(next dialect.InboxRow, reason string) decision {
	return decision{do: doAside, outcome: SetAside, next: next, reason: reason}
}

// decideLate: the version was applied, under another event id.
func decideLate(e keystrand.Event, sum []byte, k known, next dialect.InboxRow) decision {
	switch {
	case !k.atRead:
		return decision{do: readAt}
	case k.at == nil:
		return aside(next, fmt.Sprintf("version %d was applied before, and what was applied is not kept to compare with", e.Version))
	case bytes.Equal(k.at.Sum, sum):
		return decision{do: doNothing, outcome: Stale}
	}
	return aside(next, fmt.Sprintf("version %d was applied with other content, as event %q", e.Version, k.at.EventID))
}

// decideNext: the version that is due.
func decideNext(r rules, e keystrand.Event, k known, next dialect.InboxRow) decision {
	next.Version = e.Version
	if r.transitions != nil {
		state, ok := r.transitions.Next(k.row.State, e.Type)
		if !ok {
			return decision{do: doRefuse, err: &TransitionError{Aggregate: e.Aggregate, State: k.row.State, EventType: e.Type, Version: e.Version}}
		}
		next.State = state
	}
	return decision{do: doApply, outcome: Applied, next: next}
}

// decideEarly: a gap.
func decideEarly(r rules, e keystrand.Event, sum []byte, k known, next dialect.InboxRow) decision {
	gap := &GapError{Aggregate: e.Aggregate, Applied: k.row.Version, Got: e.Version}
	if r.gap == GapReject {
		return decision{do: doRefuse, err: gap}
	}
	switch {
	case !k.waitingRead:
		return decision{do: readWaiting}
	case k.waitingSum != nil && bytes.Equal(k.waitingSum, sum):
		return decision{do: doNothing, outcome: Parked}
	case k.waitingSum != nil:
		return aside(next, fmt.Sprintf("another event waits in the gap buffer as version %d, with other content", e.Version))
	case k.row.Pending >= r.maxPerAggregate:
		gap.Full = fmt.Sprintf("%d events of this aggregate wait, the limit", k.row.Pending)
		return decision{do: doRefuse, err: gap}
	case !k.allRead:
		return decision{do: readAll}
	case k.all >= r.maxAll:
		gap.Full = fmt.Sprintf("%d events of this inbox wait, the limit", k.all)
		return decision{do: doRefuse, err: gap}
	}
	next.Pending++
	return decision{do: doPark, outcome: Parked, next: next}
}

// sumOf is the check sum of what an event says: aggregate, version, type and payload. Times and trace id may differ
// between two sends of the same event.
func sumOf(e keystrand.Event) []byte {
	h := sha256.New()
	var n [8]byte
	for _, part := range [][]byte{[]byte(e.Aggregate), []byte(e.Type), e.Payload} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	binary.BigEndian.PutUint64(n[:], uint64(e.Version))
	h.Write(n[:])
	return h.Sum(nil)
}
