package history

import (
	"time"

	"github.com/keystrand/keystrand"
)

// Worker records the events of one logical process. A worker does one operation at a time; use one per goroutine.
type Worker struct {
	recorder *Recorder
	p        uint32
}

// Message is what a send is about.
type Message struct {
	Topic, Key string
	ID         ID
	Version    uint64 // of the aggregate; 0: none
	Sum        uint64 // Sum of the body; 0: not known
}

// Delivery is one hand-out of a message.
type Delivery struct {
	Topic, Group, Key string
	ID                ID
	Queue             int32 // Queue and Offset are -1 when not known
	Offset            int64
	Token             uint64
	Broker            string
	Attempt           int
	Epoch             uint32
	Version           uint64
	Sum               uint64
	// Since is Now() before the receive call began: the hand-out lies between it and the event's stamp. A client whose
	// answer waited in a socket is judged fairly only with it. 0: the hand-out is taken to be at the stamp.
	Since int64
	// Lease is how long the delivery is the client's. 0: not known; then a repeat that only its end explains cannot be judged.
	Lease time.Duration
}

// FromDelivery describes a delivery of an engine. Its id is the property history_id, else (0, version of the event).
func FromDelivery(group string, d keystrand.Delivery, since int64) Delivery {
	m := FromMessage(d.Message)
	return Delivery{Topic: d.Topic, Group: group, Key: d.MessageGroup, ID: m.ID, Queue: d.Queue, Offset: int64(d.Offset), Token: d.Token.Value,
		Broker: d.Token.Broker, Attempt: d.Attempt, Version: m.Version, Sum: m.Sum, Since: since, Lease: d.Lease}
}

// FromMessage describes a message; ids as in FromDelivery.
func FromMessage(m keystrand.Message) Message {
	version := versionOf(m.Properties)
	id, err := ParseID(m.Properties[PropertyID])
	if err != nil && version > 0 {
		id = OutboxID(int64(version))
	}
	return Message{Topic: m.Topic, Key: m.MessageGroup, ID: id, Version: version, Sum: Sum(m.Body)}
}

func versionOf(properties map[string]string) uint64 {
	text, ok := properties[keystrand.PropertyVersion]
	if !ok {
		text = properties[keystrand.PropertyAggregateVersion]
	}
	d := decoder{line: []byte(text)}
	if v, err := d.number(1<<32 - 1); err == nil && d.at == len(text) {
		return v
	}
	return 0
}

func (w *Worker) event(e Kind) Event {
	v := newEvent(e)
	v.P = w.p
	return v
}

func (w *Worker) delivery(e Kind, d Delivery) Event {
	v := w.event(e)
	v.Topic, v.Group, v.Key, v.ID, v.Queue, v.Offset = d.Topic, d.Group, d.Key, d.ID, d.Queue, d.Offset
	v.Token, v.Broker, v.Attempt, v.Epoch, v.Version = d.Token, d.Broker, uint32(d.Attempt), d.Epoch, d.Version
	return v
}

func (w *Worker) put(e Event) int64 { return w.recorder.write(&e) }

// Operation is a send, ack, nack or renewal that was invoked. Exactly one of OK, Fail and Info ends it; a process that
// dies in between leaves it open, and its Kill is recorded by whoever killed it.
type Operation struct {
	worker *Worker
	event  Event
}

func (w *Worker) invoke(e Event) *Operation {
	e.Op = w.recorder.nextOp()
	w.put(e)
	e.Since, e.Dur, e.Sum = 0, 0, 0
	return &Operation{w, e}
}

func (o *Operation) end(step Kind, code string) {
	o.event.E += step
	o.event.Err = cut(code)
	o.worker.put(o.event)
}

// OK: it happened.
func (o *Operation) OK() { o.end(1, "") }

// Stored is OK for a send whose answer names the place.
func (o *Operation) Stored(queue int32, offset int64) {
	o.event.Queue, o.event.Offset = queue, offset
	o.end(1, "")
}

// Fail: it surely did not happen.
func (o *Operation) Fail(code string) { o.end(2, code) }

// Info: nobody knows yet; it may still happen.
func (o *Operation) Info(code string) { o.end(3, code) }

// cut bounds a text of a line.
func cut(s string) string {
	const limit = 200
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

// Send begins a send; call it before the act.
func (w *Worker) Send(m Message) *Operation {
	e := w.event(SendInv)
	e.Topic, e.Key, e.ID, e.Version, e.Sum = m.Topic, m.Key, m.ID, m.Version, m.Sum
	return w.invoke(e)
}

// Recv: the client has the message; call it before anything is done with it.
func (w *Worker) Recv(d Delivery) {
	e := w.delivery(Recv, d)
	e.Sum, e.Since, e.Dur = d.Sum, d.Since, int64(d.Lease)
	w.put(e)
}

// Start: the handler is about to begin.
func (w *Worker) Start(d Delivery) { w.put(w.delivery(Start, d)) }

// End: the handler returned; err is empty for success.
func (w *Worker) End(d Delivery, err string) {
	e := w.delivery(End, d)
	e.Err = cut(err)
	w.put(e)
}

// Ack begins an ack.
func (w *Worker) Ack(d Delivery) *Operation { return w.invoke(w.delivery(AckInv, d)) }

// Nack begins the report of a failed attempt.
func (w *Worker) Nack(d Delivery) *Operation { return w.invoke(w.delivery(NackInv, d)) }

// Renew begins a renewal: the lease shall end length after it.
func (w *Worker) Renew(d Delivery, length time.Duration) *Operation {
	e := w.delivery(RenewInv, d)
	e.Dur = int64(length)
	return w.invoke(e)
}

// LeaseEnd: the broker ended the lease, or the client gave it back; why says how.
func (w *Worker) LeaseEnd(d Delivery, why string) {
	e := w.delivery(LeaseEnd, d)
	e.What = cut(why)
	w.put(e)
}

// DeadLetter: the message stands in the group's dead-letter queue after d.Attempt attempts; limit is the group's, 0 not known.
func (w *Worker) DeadLetter(d Delivery, limit int) {
	e := w.delivery(DLQ, d)
	e.Count = int64(limit)
	w.put(e)
}

// Skip: the message was passed by decision or filter.
func (w *Worker) Skip(d Delivery, why string) {
	e := w.delivery(Skip, d)
	e.What = cut(why)
	w.put(e)
}

// Park: the strand of d.Key waits at message d.ID.
func (w *Worker) Park(d Delivery, why string) {
	e := w.delivery(Park, d)
	e.What = cut(why)
	w.put(e)
}

// Resume: the strand of d.Key goes on.
func (w *Worker) Resume(d Delivery) { w.put(w.delivery(Resume, d)) }

// Redrive: an operator sent d.ID to the head of its strand.
func (w *Worker) Redrive(d Delivery) { w.put(w.delivery(Redrive, d)) }

// Aside: the consumer set the message aside for a person.
func (w *Worker) Aside(d Delivery, why string) {
	e := w.delivery(Aside, d)
	e.What = cut(why)
	w.put(e)
}

// EndAs is End with what became of the event, such as "applied" or "duplicate".
func (w *Worker) EndAs(d Delivery, outcome, err string) {
	e := w.delivery(End, d)
	e.What, e.Err = cut(outcome), cut(err)
	w.put(e)
}
