package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/keystrand/keystrand/internal/task"
)

// stopGrace is how long a child may take to drain before it is killed.
const stopGrace = 15 * time.Second

// process is a child as the parent sees it. Its notes are read by a task of its own until its output ends.
type process struct {
	name    string
	config  childConfig
	command *exec.Cmd
	input   io.WriteCloser
	ready   chan note
	ended   chan struct{} // closed when the output ended and the exit was taken
	exit    error         // visible once ended is closed
	log     string
}

// start runs this binary again in the given role. notes is called for each note but "ready", from one goroutine.
func start(ctx context.Context, tasks *task.Group, config childConfig, notes func(*process, note)) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the binary to start again: %w", err)
	}
	p := &process{name: config.Role + "-" + strconv.Itoa(config.Process), config: config, ready: make(chan note, 1), ended: make(chan struct{})}
	p.log = filepath.Join(config.Dir, "logs", p.name+".log")
	logs, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", p.name, err)
	}
	defer logs.Close() // the child has its own descriptor
	p.command = exec.Command(binary, "demo", "child")
	p.command.Env = append(os.Environ(), childEnvironment+"=1")
	p.command.Stderr = logs
	ownGroup(p.command)
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	tasks.Go("demo."+p.name, func(context.Context) error { p.read(output, notes); return nil })
	line, err := json.Marshal(config)
	if err == nil {
		err = p.say(string(line))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), p.kill())
	}
	return p, p.awaitReady(ctx)
}

// childEnvironment marks a child, so that nobody starts one by hand and waits for it.
const childEnvironment = "KEYSTRAND_DEMO_CHILD"

// maxNoteBytes bounds a line of a child.
const maxNoteBytes = 64 << 10

func (p *process) read(output io.Reader, notes func(*process, note)) {
	defer close(p.ended)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxNoteBytes)
	for lines.Scan() {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			continue // the torn last line of a killed child
		}
		if n.Kind == "ready" {
			p.ready <- n // buffered; a child is ready once
			continue
		}
		notes(p, n)
	}
	p.exit = p.command.Wait()
}

func (p *process) awaitReady(ctx context.Context) error {
	const patience = 30 * time.Second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case n := <-p.ready:
		p.ready <- n // for who asks later
		return nil
	case <-p.ended:
		return fmt.Errorf("%s ended before it was ready: %w; its log: %s", p.name, errors.Join(p.exit, errEnded), p.log)
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s was not ready after %v; its log: %s", p.name, patience, p.log), p.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.kill())
	}
}

var errEnded = errors.New("its output ended")

// told is the ready note.
func (p *process) told() note {
	n := <-p.ready
	p.ready <- n
	return n
}

// say writes one line to the child.
func (p *process) say(line string) error {
	_, err := io.WriteString(p.input, line+"\n")
	return err
}

// finish asks the child to drain and end, and waits; it is killed when it does not end in time.
func (p *process) finish() error {
	if err := p.input.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return errors.Join(fmt.Errorf("end %s: %w", p.name, err), p.kill())
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.ended:
		if p.exit != nil {
			return fmt.Errorf("%s: %w; its log: %s", p.name, p.exit, p.log)
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not drain in %v; its log: %s", p.name, stopGrace, p.log), p.kill())
	}
}

// kill ends the child with SIGKILL and waits for it. An error means that it did not end so.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	_ = p.input.Close() // its reader is gone
	if !killed(p.exit) {
		return fmt.Errorf("%s ended by itself before it was killed: %w", p.name, errors.Join(p.exit, errEnded))
	}
	return nil
}
