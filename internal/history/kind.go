package history

// Kind says what an event tells.
type Kind uint8

// The events. An operation has an invoke (Inv) and one outcome: OK happened, Fail surely did not, Info unknown.
const (
	SendInv Kind = iota + 1
	SendOK
	SendFail
	SendInfo
	Recv  // handed to the client
	Start // the handler begins
	End   // the handler returned; Err says how
	AckInv
	AckOK
	AckFail
	AckInfo
	NackInv
	NackOK
	NackFail
	NackInfo
	RenewInv
	RenewOK
	RenewFail
	RenewInfo
	LeaseEnd  // as told by the broker
	DLQ       // the message stands in the dead-letter queue of the group
	Skip      // an operator's decision, or a filter, passed the message
	Park      // the strand waits for an operator
	Resume    // the parked strand goes on
	Redrive   // an operator sent the message to its strand's head again
	Aside     // the consumer set the message aside for a person
	Effect    // row read back: the business change, in commit order
	Inbox     // row read back: the event is marked as processed
	State     // row read back: the version an aggregate stands at
	Outbox    // row read back: a committed event, in commit order
	Log       // row read back: a stored message, every queue in offset order
	Durable   // store trace: the sync that covers this offset returned
	Subscribe // the group reads the topic; What: "ordered" or "unordered", then "earliest" or "latest"
	Epoch     // the group's offsets were reset
	ExpandInv
	ExpandOK
	FaultBegin
	FaultEnd
	Kill // process Who died; What names its role
	Boot // process Who started; What names its role
	DrainBegin
	DrainEnd
	Mark     // a point that must be reached sometimes was reached
	WantMark // the run is not worth a pass unless this mark is reached
	ReadBack // a read-back is complete: What is a row kind, Count its rows
	kindCount
)

var kindNames = [kindCount]string{
	SendInv: "send.inv", SendOK: "send.ok", SendFail: "send.fail", SendInfo: "send.info",
	Recv: "recv", Start: "start", End: "end",
	AckInv: "ack.inv", AckOK: "ack.ok", AckFail: "ack.fail", AckInfo: "ack.info",
	NackInv: "nack.inv", NackOK: "nack.ok", NackFail: "nack.fail", NackInfo: "nack.info",
	RenewInv: "renew.inv", RenewOK: "renew.ok", RenewFail: "renew.fail", RenewInfo: "renew.info",
	LeaseEnd: "lease.end", DLQ: "dlq", Skip: "skip", Park: "park", Resume: "resume", Redrive: "redrive", Aside: "aside",
	Effect: "effect", Inbox: "inbox", State: "state", Outbox: "outbox", Log: "log", Durable: "durable",
	Subscribe: "subscribe", Epoch: "epoch", ExpandInv: "expand.inv", ExpandOK: "expand.ok",
	FaultBegin: "fault.begin", FaultEnd: "fault.end", Kill: "kill", Boot: "boot",
	DrainBegin: "drain.begin", DrainEnd: "drain.end", Mark: "mark", WantMark: "mark.want", ReadBack: "readback",
}

var kindByName = func() map[string]Kind {
	m := make(map[string]Kind, kindCount)
	for k, name := range kindNames {
		if name != "" {
			m[name] = Kind(k)
		}
	}
	return m
}()

// String is the name in the file.
func (k Kind) String() string {
	if k == 0 || k >= kindCount {
		return "unknown"
	}
	return kindNames[k]
}
