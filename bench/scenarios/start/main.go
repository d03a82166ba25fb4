// Command start measures G22: from the launch of `keystrand serve` until the first message is accepted, on a fresh data
// directory and on one that was closed, and the memory of an idle server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/keystrand/keystrand/bench/internal/floor"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/page"
	"github.com/keystrand/keystrand/bench/internal/process"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/table"
)

type options struct {
	repeat int
	idle   time.Duration
	dir    string
	page   string
	binary string
	short  bool
	quiet  float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		stop()
		os.Exit(1)
	}
}

func readFlags() (options, error) {
	var o options
	flag.IntVar(&o.repeat, "repeat", 20, "launches of each kind")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long the server idles before its memory is read")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where data directories are made; must be on the disk that is measured")
	flag.StringVar(&o.page, "page", "", "write the page to this file")
	flag.StringVar(&o.binary, "keystrand", "", "the keystrand program; built if empty")
	flag.Float64Var(&o.quiet, "quiet", 1, "before each launch wait, at most two minutes, until others use less than this share of all cores")
	flag.BoolVar(&o.short, "short", false, "a smoke run of seconds; its figures mean nothing")
	flag.Parse()
	if o.short {
		o.repeat, o.idle = 2, 500*time.Millisecond
	}
	if o.repeat < 1 {
		return o, errors.New("-repeat: at least 1")
	}
	return o, nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// session is everything that was measured; times in milliseconds, memory in MiB.
type session struct {
	machine       machine.Machine
	before, after floor.Probe
	loads         spread.Of
	fresh, again  launches
	idle          spread.Of
	binaryMiB     float64
}

// launches are those on one kind of data directory.
type launches struct{ ready, accepted, memory spread.Of }

func run(ctx context.Context) error {
	o, err := readFlags()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "keystrand-start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what is left there is of no use to anyone
	s, err := measure(ctx, dir, o)
	if err != nil {
		return err
	}
	p := s.page(o)
	return errors.Join(p.Print(os.Stdout), p.Write(o.page))
}

func measure(ctx context.Context, dir string, o options) (*session, error) {
	s := &session{machine: machine.Describe(ctx, o.dir)}
	if o.binary == "" {
		var err error
		if o.binary, err = process.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	if info, err := os.Stat(o.binary); err == nil {
		s.binaryMiB = float64(info.Size()) / (1 << 20)
	}
	probe := 2 * time.Second
	if o.short {
		probe = 500 * time.Millisecond
	}
	var err error
	if s.before, err = floor.Measure(ctx, dir, probe); err != nil {
		return nil, err
	}
	progress("%s", s.machine)
	for i := range o.repeat {
		machine.WaitQuiet(ctx, o.quiet)
		stretch, own := machine.Begin(), machine.OwnCPU()+machine.ChildrenCPU()
		data := filepath.Join(dir, fmt.Sprintf("data-%d", i))
		idle := time.Duration(0)
		if i < 5 {
			idle = o.idle
		}
		if err := s.launch(ctx, &s.fresh, data, idle, o); err != nil {
			return nil, fmt.Errorf("launch %d on a fresh directory: %w", i+1, err)
		}
		if err := s.launch(ctx, &s.again, data, 0, o); err != nil {
			return nil, fmt.Errorf("launch %d on a closed directory: %w", i+1, err)
		}
		s.loads.Add(stretch.Others(machine.OwnCPU() + machine.ChildrenCPU() - own))
		progress("launch %d: fresh %.0f ms, again %.0f ms until accepted", i+1, s.fresh.accepted[i], s.again.accepted[i])
	}
	s.after, err = floor.Measure(ctx, dir, probe)
	return s, err
}

// launch starts a server, sends one message as soon as it says that it is ready, and stops it in order.
func (s *session) launch(ctx context.Context, into *launches, data string, idle time.Duration, o options) (err error) {
	server, err := process.Start(ctx, o.binary, "serve", "--data", data, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--topic", "first:fifo:8", "--log-level", "warn")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	ready := time.Since(server.Launched)
	if err := sendFirst(ctx, server.GRPCAddr); err != nil {
		return err
	}
	accepted := time.Since(server.Launched)
	into.ready.Add(float64(ready) / 1e6)
	into.accepted.Add(float64(accepted) / 1e6)
	into.memory.Add(machine.ResidentMiB(server.PID))
	if idle > 0 {
		select {
		case <-time.After(idle):
		case <-ctx.Done():
			return ctx.Err()
		}
		s.idle.Add(machine.ResidentMiB(server.PID))
	}
	return nil
}

// sendFirst sends one message by the raw stub, on a connection of its own; nil means that it is on disk.
func sendFirst(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close() // nothing is under way
	ctx = metadata.AppendToOutgoingContext(ctx, "x-mq-client-id", "bench@start")
	group := "first-key"
	answer, err := v2.NewMessagingServiceClient(connection).SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{{
		Topic: &v2.Resource{Name: "first"},
		SystemProperties: &v2.SystemProperties{
			MessageId: fmt.Sprintf("01%032X", time.Now().UnixNano()), MessageGroup: &group, MessageType: v2.MessageType_FIFO,
			BornTimestamp: timestamppb.Now(), BornHost: "localhost", BodyEncoding: v2.Encoding_IDENTITY,
		},
		Body: make([]byte, 1024),
	}}})
	if err != nil {
		return err
	}
	if code := answer.GetStatus().GetCode(); code != v2.Code_OK {
		return fmt.Errorf("first message refused: %v %s", code, answer.GetStatus().GetMessage())
	}
	return nil
}

// What G22 asks.
const (
	mustMs  = 150
	mustMiB = 30
)

func (s *session) page(o options) *page.Page {
	t := table.New("keystrand serve", "launches", "ready, ms: median (min-max)", "first message accepted, ms", "must, ms", "RSS then, MiB", "durability")
	t.Add("fresh directory", len(s.fresh.ready), s.fresh.ready.Format("%.0f"), s.fresh.accepted.Format("%.0f"), mustMs, s.fresh.memory.Format("%.1f"), "sync always")
	t.Add("closed directory of one message", len(s.again.ready), s.again.ready.Format("%.0f"), s.again.accepted.Format("%.0f"), mustMs, s.again.memory.Format("%.1f"), "sync always")
	return &page.Page{
		Title:    "Start and idle memory",
		Question: "How long from the launch of `keystrand serve` until the first message is accepted, on disk, from a raw gRPC stub on a new connection; and how much memory does an idle server hold (G22)?",
		Tables:   []*table.Table{t},
		Results:  []string{fmt.Sprintf("Idle memory %v after the first message: %s MiB resident; must %d. The program file has %.1f MiB.", o.idle, s.idle.Format("%.1f"), mustMiB, s.binaryMiB)},
		Method:   []string{"The time starts just before the process is started and ends when the answer to the first send is read. One topic of 8 queues is made at the start. Plaintext, loopback."},
		Machine:  s.machine, Before: s.before, After: s.after, Loads: s.loads, Command: "go run ./scenarios/start " + strings.Join(os.Args[1:], " "),
	}
}
