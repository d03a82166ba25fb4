package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// childConfig is the first line that a child reads.
type childConfig struct {
	Role    string `json:"role"` // broker, relay, consumer
	Dir     string `json:"dir"`
	Process int    `json:"process"`
	// Endpoint is the proxy's address, for relay and consumer.
	Endpoint string `json:"endpoint,omitempty"`
	Queues   int    `json:"queues,omitempty"`
	Workers  int    `json:"workers,omitempty"`
	// HandlerNs is the work before each transaction.
	HandlerNs int64  `json:"handler_ns,omitempty"`
	Break     string `json:"break,omitempty"`
	// Holds name the events at which a consumer stops and waits for the parent's word.
	Holds []hold `json:"holds,omitempty"`
}

// hold is a place in one event's way. A consumer meets it at the first attempt only.
type hold struct {
	At      string `json:"at"` // holdBefore or holdInside
	Order   string `json:"order"`
	Version int64  `json:"version"`
}

const (
	holdBefore = "received, before its transaction"
	holdInside = "inside its transaction"
)

// note is one line that a child tells its parent.
type note struct {
	Kind string `json:"kind"` // ready, hold, stats, error
	// ready
	GRPC     string `json:"grpc,omitempty"`
	HTTP     string `json:"http,omitempty"`
	BrokerID string `json:"broker_id,omitempty"`
	// hold
	Hold  hold   `json:"hold,omitzero"`
	Token uint64 `json:"token,omitempty"`
	// stats, since the child's start
	Stats stats  `json:"stats,omitzero"`
	Text  string `json:"text,omitempty"`
}

// stats are a child's counts for the live progress; the figures at the end come from the histories and the database.
type stats struct {
	Sent       int `json:"sent,omitempty"`
	Applied    int `json:"applied,omitempty"`
	Duplicates int `json:"duplicates,omitempty"`
	Gaps       int `json:"gaps,omitempty"`
	Fenced     int `json:"fenced,omitempty"`
	Failed     int `json:"failed,omitempty"`
}

func (s *stats) add(o stats) {
	s.Sent += o.Sent
	s.Applied += o.Applied
	s.Duplicates += o.Duplicates
	s.Gaps += o.Gaps
	s.Fenced += o.Fenced
	s.Failed += o.Failed
}

// wire is a child's end of the two pipes.
type wire struct {
	in *bufio.Scanner

	mu  sync.Mutex // guards out: one line at a time
	out io.Writer
}

func (w *wire) tell(n note) error {
	line, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n')) // under the lock: it orders whole lines; the parent always reads
	return err
}

// words hands on the parent's lines until the input ends, which is the parent's word to end, or its death.
func (w *wire) words(ctx context.Context, into chan<- string) {
	for w.in.Scan() {
		select {
		case into <- w.in.Text():
		case <-ctx.Done():
			return
		}
	}
}
