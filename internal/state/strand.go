package state

// Status is where a strand's head stands.
type Status uint8

// The statuses. Numbers are on disk.
const (
	StatusReady      Status = 1 // to be handed out
	StatusLeased     Status = 2 // with a client
	StatusBackingOff Status = 3 // an attempt failed; the next one waits for the back-off
	StatusParked     Status = 4 // waits for an operator
)

func (s Status) String() string {
	switch s {
	case StatusReady:
		return "ready"
	case StatusLeased:
		return "leased"
	case StatusBackingOff:
		return "backing off"
	case StatusParked:
		return "parked"
	}
	return "unknown"
}

// Strand is one strand with an unfinished message below the cursor.
//
// Invariant: Head < Cursor. Everything of the strand below Head is finished or filtered out; of what stands behind Head
// nothing was handed out. With Seeking, Head itself is finished or filtered out, Status is ready and Attempt 0.
type Strand struct {
	Key  StrandKey
	Head int64
	// Attempt counts deliveries of Head so far; Failures the reported failures among them, which set the back-off.
	Attempt, Failures int32
	Status            Status
	// Seeking: the successor of Head is still to be found; see Progress.Seek.
	Seeking bool
	// AutoRenew, Token, LeaseMs and ClientID are of the last grant of Head; the lease holds only while Status is leased.
	AutoRenew bool
	Token     uint64
	LeaseMs   int64
	ClientID  string
	// BackOffMs is the delay after the last failure.
	BackOffMs int64
	// LastError is what the last failure, or the parking, was explained with.
	LastError string
}

// holds reports whether token is the strand's open lease on entry.
func (s *Strand) holds(entry int64, token uint64) bool {
	return s.Status == StatusLeased && !s.Seeking && s.Head == entry && s.Token == token
}

// close ends the open lease, if any; the token stays, so that its repeats are recognised.
func (s *Strand) close(to Status) {
	s.Status, s.AutoRenew, s.LeaseMs, s.ClientID, s.BackOffMs = to, false, 0, "", 0
}
