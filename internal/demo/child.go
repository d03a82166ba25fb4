package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/keystrand/keystrand/internal/task"
)

// RunChild is a child process: it reads its settings from in and works until in ends.
func RunChild(ctx context.Context, in io.Reader, out, logs io.Writer) error {
	if os.Getenv(childEnvironment) == "" {
		return errors.New("demo child is started by demo only; run `keystrand demo`")
	}
	w := &wire{in: bufio.NewScanner(in), out: out}
	w.in.Buffer(nil, maxNoteBytes)
	if !w.in.Scan() {
		return errors.New("demo child: no settings on standard input")
	}
	var config childConfig
	if err := json.Unmarshal(w.in.Bytes(), &config); err != nil {
		return fmt.Errorf("demo child: settings: %w", err)
	}
	breakHere(config.Break)
	c := &child{childConfig: config, wire: w, words: make(chan string), logger: slog.New(slog.NewTextHandler(logs, nil))}
	// The reader of the parent's words ends with the input, and its end is the word to drain. It is not waited for: a read
	// of a pipe cannot be called off, and the process ends with this function.
	tasks := task.NewGroup(ctx)
	drain, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks.Go("demo.words", func(ctx context.Context) error { w.words(drain, c.words); cancel(); return nil })
	run := map[string]func(context.Context) error{"broker": c.broker, "relay": c.relay, "consumer": c.consumer}[config.Role]
	if run == nil {
		return fmt.Errorf("demo child: no role %q", config.Role)
	}
	if err := run(drain); err != nil && !errors.Is(err, context.Canceled) {
		c.logger.Error("demo child failed", "role", config.Role, "error", err)
		return errors.Join(err, w.tell(note{Kind: "error", Text: err.Error()}))
	}
	return nil
}

// child is what the roles share.
type child struct {
	childConfig
	*wire
	words  chan string // the parent's lines behind the settings
	logger *slog.Logger
}
