// Command send measures durable sends: through the official Go SDK against `keystrand serve` beside a server that only
// answers (G7, W0b), and in one process against the disk alone (G5, G6, G8, G9).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/bench/internal/floor"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/spread"
)

type options struct {
	senders     []int // through the SDK
	embedded    []int
	pairs       int
	warm, time  time.Duration
	bytes       int
	keys        int
	connections int
	seed        uint64
	dir         string
	keep        string
	page        string
	binary      string
	profile     string
	quiet       float64
	short       bool
	sdk, inside bool
}

const (
	serveBareFlag     = "-serve-bare="
	serveProfiledFlag = "-serve-profiled="
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "send:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) == 2 { // this program starts itself as a server
		for prefix, serve := range map[string]func(context.Context, string) error{serveBareFlag: serveBare, serveProfiledFlag: serveProfiled} {
			if dir, ok := strings.CutPrefix(os.Args[1], prefix); ok {
				return serve(ctx, dir)
			}
		}
	}
	o, err := readFlags()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "keystrand-send-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what is left there is of no use to anyone
	s, err := measure(ctx, dir, o)
	if err != nil {
		return err
	}
	p := s.page(o, "go run ./scenarios/send "+strings.Join(os.Args[1:], " "))
	return errors.Join(p.Print(os.Stdout), p.Write(o.page))
}

func readFlags() (options, error) {
	var o options
	var senders, embedded string
	flag.StringVar(&senders, "senders", "1,16,256", "closed-loop senders through the official SDK")
	flag.StringVar(&embedded, "embedded-senders", "1,4,16,64,256", "closed-loop senders in the broker's process")
	flag.IntVar(&o.pairs, "pairs", 5, "alternating pairs")
	flag.DurationVar(&o.warm, "warm", time.Second, "warm-up of each run")
	flag.DurationVar(&o.time, "time", 3*time.Second, "measured time of each run")
	flag.IntVar(&o.bytes, "bytes", 1024, "size of a body")
	flag.IntVar(&o.keys, "keys", 10_000, "message groups")
	flag.IntVar(&o.connections, "connections", 1, "producers of the SDK, each with its own connection")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "seed of bodies and keys")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where data directories are made; must be on the disk that is measured")
	flag.StringVar(&o.keep, "keep-history", "", "directory that keeps the judged histories")
	flag.StringVar(&o.page, "page", "", "write the page to this file")
	flag.StringVar(&o.binary, "keystrand", "", "the keystrand program; built if empty")
	flag.StringVar(&o.profile, "profile", "", "write a processor profile of the broker to this file; this program then stands in for keystrand serve")
	flag.Float64Var(&o.quiet, "quiet", 1, "make a run again, at most 9 times, when others used more than this share of all cores meanwhile; wait up to two minutes for a quiet moment before each")
	flag.BoolVar(&o.short, "short", false, "a smoke run of seconds; its figures mean nothing")
	flag.BoolVar(&o.sdk, "sdk", true, "measure through the official SDK")
	flag.BoolVar(&o.inside, "embedded", true, "measure in the broker's process")
	flag.Parse()
	var err error
	if o.senders, err = numbers("-senders", senders); err != nil {
		return o, err
	}
	if o.embedded, err = numbers("-embedded-senders", embedded); err != nil {
		return o, err
	}
	if o.short {
		o.pairs, o.warm, o.time = 1, 100*time.Millisecond, 300*time.Millisecond
	}
	if o.pairs < 1 || o.time <= 0 || o.connections < 1 {
		return o, errors.New("-pairs, -time, -connections: must be above 0")
	}
	return o, nil
}

func numbers(name, text string) ([]int, error) {
	var list []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 4096 {
			return nil, fmt.Errorf("%s: %q is not a number from 1 to 4096", name, word)
		}
		list = append(list, n)
	}
	return list, nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// session is everything that was measured.
type session struct {
	machine       machine.Machine
	before, after floor.Probe
	loads         spread.Of // share of all cores that others used during each run
	sdk           map[int]*sdkFigures
	embedded      map[int]*embeddedFigures
	async         spread.Of // embedded, most senders, answered when appended
	syncToAsync   spread.Of
	stored        int // messages read back and judged
	discarded     int // pairs not counted because others used too much of the machine
}

func measure(ctx context.Context, dir string, o options) (*session, error) {
	// The official client writes its log below the home directory unless told otherwise, and dials TLS.
	for name, value := range map[string]string{"rocketmq.client.logRoot": filepath.Join(dir, "sdk-log"), "rocketmq.client.logLevel": "warn"} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	rmq.ResetLogger()
	rmq.EnableSsl = false
	s := &session{machine: machine.Describe(ctx, o.dir), sdk: map[int]*sdkFigures{}, embedded: map[int]*embeddedFigures{}}
	probe := 5 * time.Second
	if o.short {
		probe = 500 * time.Millisecond
	}
	var err error
	if s.before, err = floor.Measure(ctx, dir, probe); err != nil {
		return nil, err
	}
	progress("%s", s.machine)
	progress("floor before: %s", s.before)
	if o.sdk {
		if err := s.throughSDK(ctx, dir, o); err != nil {
			return nil, err
		}
	}
	if o.inside {
		if err := s.embeddedRuns(ctx, dir, o); err != nil {
			return nil, err
		}
	}
	if o.profile != "" {
		if err := os.Rename(filepath.Join(dir, "serve.prof"), o.profile); err != nil {
			return nil, err
		}
	}
	s.after, err = floor.Measure(ctx, dir, probe)
	progress("floor after: %s", s.after)
	return s, err
}
