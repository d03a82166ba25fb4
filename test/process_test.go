package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Bounds of what a test waits for.
const (
	readyTimeout = 20 * time.Second
	stopTimeout  = 20 * time.Second
	buildTimeout = 5 * time.Minute
)

// binary is keystrand, built once for the whole run.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "keystrand-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// The official client writes its log below the home directory unless told otherwise.
	if err := os.Setenv("rocketmq.client.logRoot", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "keystrand")
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/keystrand")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build keystrand: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// brokerProcess is a running `keystrand serve`.
type brokerProcess struct {
	GRPCAddr string `json:"grpc_addr"`
	HTTPAddr string `json:"http_addr"`
	Data     string `json:"data"`

	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{} // closed when the process has ended
	err  error         // how; read after done
	once sync.Once
}

// startBroker runs `keystrand serve` on free ports with these further arguments until the test ends.
func startBroker(t testing.TB, args ...string) *brokerProcess {
	t.Helper()
	b := &brokerProcess{log: &lockedBuffer{}, done: make(chan struct{})}
	args = append([]string{"serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, args...)
	b.cmd = exec.CommandContext(context.Background(), binary, args...) // ended by Stop or Kill
	b.cmd.Stderr = b.log
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make(chan []byte, 1)
	go func() {
		defer close(b.done)
		scanner := bufio.NewScanner(stdout)
		if scanner.Scan() {
			line <- bytes.Clone(scanner.Bytes())
		}
		for scanner.Scan() { // a second line would be a fault, but must not block the process
		}
		b.err = b.cmd.Wait()
	}()
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("broker: %v\n%s", err, b.log)
		}
	})
	select {
	case text := <-line:
		if err := json.Unmarshal(text, b); err != nil {
			t.Fatalf("ready line %q: %v", text, err)
		}
	case <-b.done:
		t.Fatalf("broker ended before it was ready: %v\n%s", b.err, b.log)
	case <-time.After(readyTimeout):
		t.Fatalf("broker not ready within %v\n%s", readyTimeout, b.log)
	}
	return b
}

// Stop drains the broker with SIGTERM and returns how it ended; nil when it was killed or stopped before.
func (b *brokerProcess) Stop() (err error) {
	b.once.Do(func() {
		err = b.signal(syscall.SIGTERM)
		select {
		case <-b.done:
			err = errors.Join(err, b.err)
		case <-time.After(stopTimeout):
			err = errors.Join(err, fmt.Errorf("did not drain within %v", stopTimeout), b.cmd.Process.Kill())
			<-b.done
		}
	})
	return err
}

// Kill ends the broker as a power cut of its process would.
func (b *brokerProcess) Kill(t testing.TB) {
	t.Helper()
	b.once.Do(func() {
		if err := b.signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-b.done
	})
}

func (b *brokerProcess) signal(s syscall.Signal) error {
	if err := b.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v: %w", s, err)
	}
	return nil
}

// keystrand runs one command line against the broker and returns its standard output.
func (b *brokerProcess) keystrand(t testing.TB, args ...string) string {
	t.Helper()
	return runCommand(t, "", []string{"KEYSTRAND_SERVER=http://" + b.HTTPAddr}, binary, args...).stdout
}

// output is what a command printed.
type output struct{ stdout, stderr string }

// runCommand runs a program that must end well, bounded by the test's time.
func runCommand(t testing.TB, dir string, env []string, name string, args ...string) output {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(name), args, err, &stdout, &stderr)
	}
	return output{stdout.String(), stderr.String()}
}

// lockedBuffer takes a process's output while a test reads it.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
