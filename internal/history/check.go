package history

import "fmt"

// CheckID names one rule of the judge.
type CheckID int

// The checks.
const (
	V1 CheckID = iota + 1
	V2
	V3
	V4
	V5
	V6
	V7
	V8
	V9
	V10
	V11
	V12
	V13
	V14
	V15
	V16
	V17
	V18
	V19
	checkCount
)

var checkNames = [checkCount]string{
	V1: "lost", V2: "phantom", V3: "offset", V4: "real-time order", V5: "program order", V6: "first delivery", V7: "one at a time", V8: "runs",
	V9: "resurrection", V10: "fencing", V11: "nothing before durable", V12: "effect", V13: "dead letter", V14: "outbox", V15: "transaction",
	V16: "delivered", V17: "faults", V18: "duplicates", V19: "marks",
}

// String is the check's id, "V7".
func (c CheckID) String() string { return fmt.Sprintf("V%d", int(c)) }

// Name is what the check is about.
func (c CheckID) Name() string { return checkNames[c] }

// Verdict is the judgement of a check or a run.
type Verdict string

// The verdicts. NoData is of a check whose events the history does not have, such as effects in a run without a database;
// it does not change the verdict of the run.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown"
	NoData  Verdict = "no data"
)

// ExitCode is 0 for pass, 1 for fail, 2 for unknown.
func (v Verdict) ExitCode() int {
	switch v {
	case Pass:
		return 0
	case Fail:
		return 1
	}
	return 2
}
