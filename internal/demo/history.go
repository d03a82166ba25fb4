package demo

import (
	"path/filepath"
	"strconv"

	"github.com/keystrand/keystrand/internal/history"
)

// Numbers of the processes in the history. Restarts of a role get the next numbers.
const (
	parentProcess   = 1
	relayProcess    = 2
	rogueProducer   = 9 // sends of the parent that no outbox row asked for; its ids are not the outbox's
	consumerProcess = 10
	brokerProcess   = 100 // keeps no history of its own; kills and boots name it
)

func historyDir(dir string) string { return filepath.Join(dir, "history") }

func newRecorder(dir, role string, process int) (*history.Recorder, error) {
	return history.NewRecorder(filepath.Join(historyDir(dir), role+"-"+strconv.Itoa(process)+".jsonl"), uint32(process))
}
