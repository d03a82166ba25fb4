package history

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names one message of one key: the producer and its counter for that key, from 1, so that its order is program order.
// Events of an outbox have ID{0, version}, so that repeats share it. The zero ID means none.
type ID struct{ Producer, Counter uint32 }

// PropertyID is the message property that carries an ID from the producer to the consumer.
const PropertyID = "history_id"

// OutboxID is the id of version v of its aggregate.
func OutboxID(v int64) ID { return ID{0, uint32(v)} }

// IsZero reports whether there is no id.
func (i ID) IsZero() bool { return i == ID{} }

// String is the property's form: producer, dash, counter.
func (i ID) String() string {
	return strconv.FormatUint(uint64(i.Producer), 10) + "-" + strconv.FormatUint(uint64(i.Counter), 10)
}

// ParseID reads the form that String writes.
func ParseID(s string) (ID, error) {
	producer, counter, ok := strings.Cut(s, "-")
	p, err1 := strconv.ParseUint(producer, 10, 32)
	c, err2 := strconv.ParseUint(counter, 10, 32)
	if !ok || err1 != nil || err2 != nil || c == 0 {
		return ID{}, fmt.Errorf("history id %q: want PRODUCER-COUNTER, two decimal numbers, the counter from 1", s)
	}
	return ID{uint32(p), uint32(c)}, nil
}

// Sum is the checksum of a body (FNV-1a, 64 bits). It is never 0: 0 means not known.
func Sum(body []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range body {
		h = (h ^ uint64(c)) * 1099511628211
	}
	if h == 0 {
		return 1
	}
	return h
}

// WorkersPerProcess is how many logical processes one process has at most: P is process*WorkersPerProcess + worker.
const WorkersPerProcess = 10_000

// Event is one line of a history. The names of the JSON fields stand behind each field.
type Event struct {
	N       uint64 // n: number of the line after merging, from 1; 0 in the files of the processes
	T       int64  // t: nanoseconds of the machine's monotonic clock
	P       uint32 // p: logical process, one operation at a time
	E       Kind   // e
	Op      uint64 // op: joins an invoke with its outcome
	Topic   string // topic
	Group   string // g: consumer group
	Key     string // k: message group
	ID      ID     // id
	Queue   int32  // q: -1 when not known
	Offset  int64  // off: -1 when not known
	Seq     int64  // seq: place in the topic's order across queues, when the broker has one; -1 when not known
	Token   uint64 // lease: fencing token; 0: the engine has none
	Broker  string // b: tokens compare within one broker id only
	Attempt uint32 // att: delivery attempt as told by the broker
	Epoch   uint32 // ep: epoch of the group
	Version uint64 // ver: version of the aggregate; 0: none
	Sum     uint64 // sum: checksum of the body; 0: not known
	Since   int64  // since: when the call began that brought a recv; the hand-out lies between Since and T
	Dur     int64  // dur: length of the lease in nanoseconds; 0: not known
	Who     uint32 // who: the process that a kill or boot is about
	Count   int64  // cnt: rows of a read-back; limit of attempts of a dlq
	What    string // what: kind of fault, name of a mark, reason of a park, role of a process
	Err     string // err: code of a fail or info
}

func newEvent(e Kind) Event { return Event{E: e, Queue: -1, Offset: -1, Seq: -1} }
