// Command keyed measures goals G1 and G2: consumption of many keys, each in order, all in parallel, against the bound
// min(keys, workers) / handler time; and against the order level that blocks a whole queue.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

type options struct {
	keys    []int
	repeat  int
	handler time.Duration
	bytes   int
	seed    uint64
	dir     string
	keep    string
	page    string
	profile string
	short   bool
	queue   bool
	quiet   float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "keyed:", err)
		stop()
		os.Exit(1)
	}
}

func readFlags() (options, error) {
	var o options
	var keys string
	flag.StringVar(&keys, "keys", "1,10,100,1000", "numbers of keys; as many workers each time")
	flag.IntVar(&o.repeat, "repeat", 5, "repetitions")
	flag.DurationVar(&o.handler, "handler", 40*time.Millisecond, "time a handler holds a message")
	flag.IntVar(&o.bytes, "bytes", 1024, "size of a body")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "seed of bodies and keys")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where data directories are made; must be on the disk that is measured")
	flag.StringVar(&o.keep, "keep-history", "", "directory that keeps the judged histories")
	flag.StringVar(&o.page, "page", "", "write the page to this file")
	flag.StringVar(&o.profile, "profile", "", "write a processor profile to this file")
	flag.Float64Var(&o.quiet, "quiet", 1, "make a run again, at most 9 times, when others used more than this share of all cores meanwhile; wait up to two minutes for a quiet moment before each")
	flag.BoolVar(&o.short, "short", false, "a smoke run of seconds; its figures mean nothing")
	flag.BoolVar(&o.queue, "queue", true, "measure order level queue too (G2, W5a; 40 s each)")
	flag.Parse()
	for _, text := range strings.Split(keys, ",") {
		k, err := strconv.Atoi(text)
		if err != nil || k < 1 || k > 2000 {
			return o, fmt.Errorf("-keys: %q is not a number from 1 to 2000", text)
		}
		o.keys = append(o.keys, k)
	}
	slices.Sort(o.keys)
	if o.repeat < 1 {
		return o, errors.New("-repeat: at least 1")
	}
	if o.short {
		o.repeat = 1
	}
	return o, nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

func run(ctx context.Context) error {
	o, err := readFlags()
	if err != nil {
		return err
	}
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer file.Close() // a profile cut short is seen by its reader
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	s, err := measure(ctx, o)
	if err != nil {
		return err
	}
	p := s.page(o, "go run ./scenarios/keyed "+strings.Join(os.Args[1:], " "))
	return errors.Join(p.Print(os.Stdout), p.Write(o.page))
}
