package demo

// Names of the faults in the history, the table and the JSON.
const (
	faultDuplicateSend   = "duplicate_send"
	faultEarlyVersion    = "early_version"
	faultRequestLost     = "request_lost"
	faultAnswerLost      = "answer_lost"
	faultPoison          = "poison"
	faultConsumerKilled  = "consumer_killed"
	faultConsumerStopped = "consumer_stopped"
	faultBrokerKilled    = "broker_killed"
)

// faultList has the faults in the order of the table, with what proves that each struck.
var faultList = []struct{ name, text, proof string }{
	{faultDuplicateSend, "event sent again", "copies found in the log when it was read back"},
	{faultEarlyVersion, "event sent before its predecessors", "opened a gap when it was handled"},
	{faultRequestLost, "request of a send lost", "read whole by the proxy, not forwarded; sent again later"},
	{faultAnswerLost, "answer of a send lost", "begun by the broker, not forwarded; the log holds both copies"},
	{faultPoison, "poison order", "parked by the broker after its last attempt"},
	{faultConsumerKilled, "consumer killed inside its transaction", "ended by SIGKILL; the event was applied later by another"},
	{faultConsumerStopped, "consumer stopped past its lease", "the other applied the event; its own effect was refused"},
	{faultBrokerKilled, "broker killed and restarted", "ended by SIGKILL; the relay went on with the same data"},
}

// gateAt is the part of the events behind which the writers wait until the broker is about to be killed, so that it is
// killed under load.
const gateAt = 0.6
