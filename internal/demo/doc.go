// Package demo is the main job of Keystrand in one command: business transactions write orders and their events, a relay
// sends the events, a broker delivers them, two consumers apply them, all in processes of their own that share a SQLite
// file, while duplicates, early versions, lost requests and answers, a poison order, a killed and a stopped consumer and a
// killed broker are thrown at them. Each fault counts only when it is proved to have struck. At the end package history
// judges the run.
//
// The parent ([Run]) holds the writers, the proxy, the fault plan and the judge. It starts its own binary again for each
// child ([RunChild]): broker, relay, consumer. A child reads its settings as one line of JSON on standard input, tells
// the parent what it does as lines of JSON on standard output, logs on standard error (a file), and ends when its input ends,
// so that no child outlives the parent. Each process appends to a history file of its own.
package demo
