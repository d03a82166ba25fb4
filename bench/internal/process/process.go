// Package process builds and runs servers as processes of their own, as users run them.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/keystrand/keystrand/internal/task"
)

// Bounds of what is waited for.
const (
	readyTimeout = 20 * time.Second
	stopTimeout  = 20 * time.Second
)

// Build makes the keystrand binary in dir, with the flags of the Makefile, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/keystrand/keystrand").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of keystrand: %w; run this inside bench/", err)
	}
	path := filepath.Join(dir, "keystrand")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/keystrand")
	build.Dir, build.Env = strings.TrimSpace(string(root)), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build keystrand: %w\n%s", err, out)
	}
	return path, nil
}

// Server is a running server process.
type Server struct {
	// GRPCAddr is where it takes RocketMQ 5 clients.
	GRPCAddr string
	PID      int
	// Launched is just before the process was started.
	Launched time.Time

	command *exec.Cmd
	tasks   *task.Group
	ended   chan struct{} // closed when the process has ended
	err     error         // how; read after ended
	once    sync.Once
}

// Start runs a program that prints one JSON line with grpc_addr when it is ready. Its standard error goes to ours.
func Start(ctx context.Context, program string, args ...string) (*Server, error) {
	s := &Server{command: exec.CommandContext(context.WithoutCancel(ctx), program, args...), ended: make(chan struct{})} // ended by Stop alone, so that it drains
	s.command.Stderr = os.Stderr
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.Launched = time.Now()
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	s.PID = s.command.Process.Pid
	lines := make(chan string, 1)
	s.tasks = task.NewGroup(context.WithoutCancel(ctx))
	s.tasks.Go("server process", func(context.Context) error {
		defer close(s.ended)
		scanner := bufio.NewScanner(stdout)
		if scanner.Scan() {
			lines <- scanner.Text()
		}
		for scanner.Scan() { // a second line would be a fault, but must not block the process
		}
		s.err = s.command.Wait()
		return nil
	})
	select {
	case line := <-lines:
		var ready struct {
			GRPCAddr string `json:"grpc_addr"`
		}
		if err := json.Unmarshal([]byte(line), &ready); err != nil || ready.GRPCAddr == "" {
			return nil, errors.Join(fmt.Errorf("%s: ready line %q: no grpc_addr: %w", program, line, err), s.Stop())
		}
		s.GRPCAddr = ready.GRPCAddr
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("%s ended before it was ready: %w", program, s.err)
	case <-time.After(readyTimeout):
		return nil, errors.Join(fmt.Errorf("%s: not ready within %v", program, readyTimeout), s.Stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), s.Stop())
	}
}

// Stop drains the process with SIGTERM and returns how it ended. Safe twice.
func (s *Server) Stop() (err error) {
	s.once.Do(func() {
		err = s.command.Process.Signal(syscall.SIGTERM)
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		select {
		case <-s.ended:
		case <-time.After(stopTimeout):
			err = errors.Join(err, fmt.Errorf("process %d did not drain within %v", s.PID, stopTimeout), s.command.Process.Kill())
			<-s.ended
		}
		err = errors.Join(err, s.err, s.tasks.Wait())
	})
	return err
}
