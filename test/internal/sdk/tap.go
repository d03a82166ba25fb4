package sdk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/keystrand/keystrand/internal/history"
)

// taps are the taps by broker address. The SDK offers no option for what it dials with, but a variable.
var taps sync.Map

func init() {
	// The SDK writes a line for each call, below the home directory, from its package's init on.
	setenv("rocketmq.client.logRoot", filepath.Join(os.TempDir(), "keystrand-test-rocketmq-log"))
	setenv("rocketmq.client.logLevel", "error")
	rmq.ResetLogger()
	dial := rmq.NewRpcClient
	rmq.NewRpcClient = func(target string, opts ...rmq.RpcClientOption) (rmq.RpcClient, error) {
		conn := []rmq.ConnOption{rmq.WithZapLogger(zap.NewNop())}
		if tap, ok := taps.Load(target[strings.LastIndexByte(target, '/')+1:]); ok {
			conn = append(conn, rmq.WithDialOptions(tap.(*Tap).DialOptions()...))
		}
		return dial(target, append(opts, rmq.WithRpcClientConnOption(conn...))...)
	}
}

func setenv(name, value string) {
	if os.Getenv(name) != "" {
		return
	}
	if err := os.Setenv(name, value); err != nil {
		panic(err) // the names are constants of this file
	}
}

// Tap writes the history of everything that clients of one broker do. Each client id counts as a process of its own, with
// a file of its own; the test itself is process 1.
type Tap struct {
	dir   string
	addr  string
	run   *history.Recorder
	main  *history.Worker
	open  atomic.Int64 // sends without an outcome
	sent  atomic.Int64 // sends answered ok
	tls   atomic.Int64 // calls over TLS
	plain atomic.Int64 // calls over plaintext

	mu       sync.Mutex // guards all below
	clients  map[string]*process
	handles  map[string]*handout
	answered map[message]int64
}

// message names a message of the run; places of its copies in the log are dense per queue.
type message struct {
	topic, key string
	id         history.ID
}

// NewTap makes a tap for clients of the broker at addr until the test ends.
func NewTap(t testing.TB, addr string) *Tap {
	t.Helper()
	x := &Tap{dir: t.TempDir(), addr: addr, clients: map[string]*process{}, handles: map[string]*handout{}, answered: map[message]int64{}}
	var err error
	if x.run, err = history.NewRecorder(x.file(1), 1); err != nil {
		t.Fatal(err)
	}
	x.main = x.run.Worker(0)
	if _, loaded := taps.LoadOrStore(addr, x); loaded {
		t.Fatalf("a second tap for %s", addr)
	}
	t.Cleanup(func() {
		taps.Delete(addr)
		if err := x.close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// Main records what the test itself does: faults, kills, read-backs.
func (t *Tap) Main() *history.Worker { return t.main }

// Open is how many sends are open now.
func (t *Tap) Open() int64 { return t.open.Load() }

// Sent is how many sends were answered ok so far.
func (t *Tap) Sent() int64 { return t.sent.Load() }

// Calls is how many calls were answered over TLS and over plaintext.
func (t *Tap) Calls() (tls, plain int64) { return t.tls.Load(), t.plain.Load() }

// DialOptions are for raw clients; the SDK's have them already.
func (t *Tap) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(t.unary), grpc.WithChainStreamInterceptor(t.stream)}
}

func (t *Tap) file(process uint32) string {
	return filepath.Join(t.dir, fmt.Sprintf("history-%04d.jsonl", process))
}

// process is a client as the history sees it: each of its calls under way is a worker of its own.
type process struct {
	recorder *history.Recorder

	mu   sync.Mutex // guards those below
	free []*history.Worker
	next int
}

// client finds the process of the client that calls.
func (t *Tap) client(ctx context.Context) (*process, error) {
	id := ""
	if m, ok := metadata.FromOutgoingContext(ctx); ok && len(m.Get("x-mq-client-id")) > 0 {
		id = m.Get("x-mq-client-id")[0]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.clients[id]; p != nil {
		return p, nil
	}
	number := uint32(len(t.clients)) + 2
	recorder, err := history.NewRecorder(t.file(number), number)
	if err != nil {
		return nil, fmt.Errorf("tap: %w", err)
	}
	p := &process{recorder: recorder}
	t.clients[id] = p
	return p, nil
}

func (p *process) take() *history.Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		w := p.free[n-1]
		p.free = p.free[:n-1]
		return w
	}
	p.next++
	return p.recorder.Worker(p.next)
}

func (p *process) give(w *history.Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, w)
}

// Judge ends the history and returns its report. All clients must be idle: what they do from now on is not written.
func (t *Tap) Judge(options history.Options) (*history.Report, error) {
	if err := t.close(); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(t.dir, "history-*.jsonl"))
	if err != nil {
		return nil, err
	}
	return history.Check(files, options)
}

func (t *Tap) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := []error{t.run.Close()}
	for _, p := range t.clients {
		errs = append(errs, p.recorder.Close())
	}
	return errors.Join(errs...)
}

// CheckJudged fails the test unless the history passes; the report is printed either way.
func (t *Tap) CheckJudged(tb testing.TB, options history.Options) *history.Report {
	tb.Helper()
	report, err := t.Judge(options)
	if err != nil {
		tb.Fatal(err)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		tb.Fatal(err)
	}
	tb.Log("\n" + text.String())
	if report.Verdict != history.Pass {
		tb.Errorf("verdict %s, want %s; violations %v, unknown %v", report.Verdict, history.Pass, report.Violations, report.Unknown)
	}
	return report
}
