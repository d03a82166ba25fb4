package history

// The rows that are read back after a run. Each kind ends with one ReadBack call, which proves that it is complete.

// Effect is a row of the business change, in commit order; d.Token is the token it was committed under.
func (w *Worker) Effect(d Delivery) { w.put(w.delivery(Effect, d)) }

// Inbox is a row that marks an event as processed.
func (w *Worker) Inbox(d Delivery) { w.put(w.delivery(Inbox, d)) }

// State is the version at which the consumer's aggregate d.Key stands.
func (w *Worker) State(d Delivery) { w.put(w.delivery(State, d)) }

// Outbox is a committed event, in commit order per key.
func (w *Worker) Outbox(m Message) {
	e := w.event(Outbox)
	e.Topic, e.Key, e.ID, e.Version, e.Sum = m.Topic, m.Key, m.ID, m.Version, m.Sum
	w.put(e)
}

// Log is a stored message, every queue in offset order. seq is its place in the topic's order across queues, -1 if not known.
func (w *Worker) Log(m Message, queue int32, offset, seq int64) {
	e := w.event(Log)
	e.Topic, e.Key, e.ID, e.Version, e.Sum = m.Topic, m.Key, m.ID, m.Version, m.Sum
	e.Queue, e.Offset, e.Seq = queue, offset, seq
	w.put(e)
}

// Durable is from the store's trace: the sync that covers the offset returned now.
func (w *Worker) Durable(topic string, queue int32, offset int64) {
	e := w.event(Durable)
	e.Topic, e.Queue, e.Offset = topic, queue, offset
	w.put(e)
}

// ReadBack proves that all rows of a kind were read back: rows of them, of the topic or group named (empty: all).
func (w *Worker) ReadBack(kind Kind, topic, group string, rows int) {
	e := w.event(ReadBack)
	e.What, e.Topic, e.Group, e.Count = kind.String(), topic, group, int64(rows)
	w.put(e)
}

// Subscribe says how a group reads a topic; without it: ordered, from the earliest message.
func (w *Worker) Subscribe(group, topic string, ordered bool, from string) {
	e := w.event(Subscribe)
	e.Group, e.Topic, e.What = group, topic, "ordered "+from
	if !ordered {
		e.What = "unordered " + from
	}
	w.put(e)
}

// Epoch: the offsets of the group on the topic were reset; deliveries from now on carry epoch.
func (w *Worker) Epoch(group, topic string, epoch uint32) {
	e := w.event(Epoch)
	e.Group, e.Topic, e.Epoch = group, topic, epoch
	w.put(e)
}

// FaultBegin and FaultEnd enclose a fault; what is its kind, then its parameters.
func (w *Worker) FaultBegin(what string) { w.about(FaultBegin, 0, what) }

// FaultEnd ends what FaultBegin began, by the same text.
func (w *Worker) FaultEnd(what string) { w.about(FaultEnd, 0, what) }

// Kill: process (its recorder's number) died or is about to be killed. Role "broker" explains repeats of every strand.
func (w *Worker) Kill(process uint32, role string) { w.about(Kill, process, role) }

// Boot: process started.
func (w *Worker) Boot(process uint32, role string) { w.about(Boot, process, role) }

// DrainBegin: all faults ended, nothing new is sent.
func (w *Worker) DrainBegin() { w.about(DrainBegin, 0, "") }

// DrainEnd: everything that can move has moved. Without it a run is reported as not drained.
func (w *Worker) DrainEnd() { w.about(DrainEnd, 0, "") }

// Mark: a point that must be reached sometimes was reached.
func (w *Worker) Mark(name string) { w.about(Mark, 0, name) }

// WantMark: without this mark the run fails (V19).
func (w *Worker) WantMark(name string) { w.about(WantMark, 0, name) }

func (w *Worker) about(kind Kind, process uint32, what string) {
	e := w.event(kind)
	e.Who, e.What = process, cut(what)
	w.put(e)
}
