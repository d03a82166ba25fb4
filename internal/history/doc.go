// Package history is the one judge of any run: processes record what they do and see, and [Check] decides from the
// records about order, loss, duplicates and gaps. Simulation, integration tests, benchmarks, `keystrand demo` and the
// user's `keystrand check` use it. It starts nothing, talks to no broker, and believes only what was recorded.
//
// # Recording
//
// Each process opens a [Recorder] on a file of its own, and a [Worker] for each goroutine that does one operation at a time:
//
//	rec, err := history.NewRecorder(filepath.Join(dir, "consumer-1.jsonl"), 1) // a number no other process of the run has
//	w := rec.Worker(0)
//	op := w.Send(history.Message{Topic: "orders", Key: "o-1", ID: history.ID{Producer: 1, Counter: 1}, Sum: history.Sum(body)})
//	receipt, err := producer.Send(ctx, m)
//	switch { // exactly one outcome
//	case err == nil:                            op.Stored(receipt.Queue, int64(receipt.Offset))
//	case errors.Is(err, keystrand.ErrUnknown):  op.Info("timeout")
//	default:                                    op.Fail("refused")
//	}
//
// An invoke is written before the act, everything else after it and before what depends on it. [Watch] does all of this
// around a [keystrand.Engine]. A consumer of an official client records Recv first thing, Start and End around its
// handler, and Ack around the ack; the id of a message travels in its property history_id ([PropertyID], or (0, version)
// for events of an outbox).
//
// Whoever kills a process records Kill with its number, so that what it left open is not held against the run. At the end,
// one process records DrainEnd once nothing moves any more, and reads back every stored message (Log), and the rows of
// the database (Effect, Inbox, State, Outbox), each kind closed by ReadBack with the number of rows. Without any Log row of
// a topic its order is taken from what was answered and delivered: enough for a benchmark, not for a claim about loss.
// Without DrainEnd the verdict is unknown.
//
// # Judging
//
//	report, err := history.Check(files, history.Options{})
//	report.Verdict            // pass, fail or unknown
//	report.Violations         // []string{"V7"}
//	report.WriteText(os.Stdout)
//
// The files are merged by time and read twice: the first pass learns what was sent and where it stands, the second
// follows each strand. A third pass, only after a violation, fetches the lines around it. The format and the checks are
// described in docs/formats/history.md.
//
// # What is no violation
//
// A client may note a hand-out late, after a newer owner noted its own: the token tells, and Delivery.Since bounds it. The
// next message of a strand may arrive before the client of the former has read the answer to its ack. An ack whose answer
// was lost may be repeated under its token. A killed client leaves operations open. None of these alarm.
package history
