package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keystrand/keystrand/bench/internal/inside"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/process"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/tape"
	"github.com/keystrand/keystrand/bench/internal/workload"
)

// sdkTopic exists on both sides.
const sdkTopic = "sends"

// sdkFigures are those of one number of senders.
type sdkFigures struct {
	ours, bare       spread.Of // messages per second
	ratio            spread.Of // one for each pair
	oursP50, oursP99 spread.Of // milliseconds
	oursCPU, bareCPU spread.Of // seconds of the server's process per million messages
	clientCPU        spread.Of // of this process, against keystrand
}

// side is a server with the clients that are connected to it.
type side struct {
	name    string
	server  *process.Server
	clients *clients
	ladder  ladder
}

func (x *side) close() error {
	var errs []error
	if x.clients != nil {
		errs = append(errs, x.clients.close())
	}
	return errors.Join(append(errs, x.server.Stop())...)
}

// throughSDK measures pairs of runs, one against keystrand and one against the bare server, in turn first.
func (s *session) throughSDK(ctx context.Context, dir string, o options) (err error) {
	data := filepath.Join(dir, "data")
	sides, err := startSides(ctx, dir, data, o)
	defer func() {
		for _, x := range sides {
			err = errors.Join(err, x.close())
		}
		if err == nil {
			err = s.readBack(ctx, data, sides[0].ladder.tape, o)
		}
	}()
	if err != nil {
		return err
	}
	for pair := range o.pairs {
		for _, n := range o.senders {
			if s.sdk[n] == nil {
				s.sdk[n] = &sdkFigures{}
			}
			if err := s.quietPair(ctx, sides, pair, n, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxTries bounds how often a pair is measured again because others used too much of the machine meanwhile.
const maxTries = 10

// quietPair measures one pair, and again while others used more than o.quiet of the cores meanwhile. The rates play no part in that.
func (s *session) quietPair(ctx context.Context, sides []*side, pair, n int, o options) error {
	for try := 1; ; try++ {
		var got [2]sdkRun
		for turn := range 2 {
			which := (pair + turn) % 2
			machine.WaitQuiet(ctx, o.quiet)
			var err error
			if got[which], err = sides[which].measure(ctx, n, o); err != nil {
				return fmt.Errorf("%s, %d senders: %w", sides[which].name, n, err)
			}
		}
		others := max(got[0].others, got[1].others)
		progress("pair %d, %d senders: keystrand %.0f/s, bare server %.0f/s, ratio %.2f, others used %.2f of the cores", pair+1, n, got[0].rate, got[1].rate, got[0].rate/got[1].rate, others)
		if others > o.quiet && try < maxTries {
			s.discarded++
			continue
		}
		s.loads.Add(got[0].others)
		s.loads.Add(got[1].others)
		s.sdk[n].add(got[0], got[1])
		return nil
	}
}

func startSides(ctx context.Context, dir, data string, o options) ([]*side, error) {
	binary := o.binary
	var err error
	serve := []string{"serve", "--data", data, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--topic", sdkTopic + ":fifo:8", "--log-level", "warn"}
	if binary == "" && o.profile == "" {
		if binary, err = process.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if o.profile != "" {
		binary, serve = self, []string{serveProfiledFlag + dir}
	}
	bodies := workload.NewBodies(o.bytes, o.seed)
	var sides []*side
	for i, start := range []struct {
		name, program string
		args          []string
	}{
		{"keystrand serve", binary, serve},
		{"bare server", self, []string{serveBareFlag + dir}},
	} {
		server, err := process.Start(ctx, start.program, start.args...)
		if err != nil {
			return sides, err
		}
		x := &side{name: start.name, server: server, ladder: ladder{topic: sdkTopic, bodies: bodies, keys: o.keys, seed: o.seed, tape: tape.New(uint32(i + 1))}}
		sides = append(sides, x)
		if x.clients, err = dial(server.GRPCAddr, sdkTopic, o.connections); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// sdkRun is one run against one side.
type sdkRun struct {
	sent
	serverCPU, clientCPU float64 // seconds per million messages
	others               float64 // share of all cores
}

func (x *side) measure(ctx context.Context, n int, o options) (sdkRun, error) {
	serverCPU, ownCPU, stretch := machine.CPUOf(x.server.PID), machine.OwnCPU(), machine.Begin()
	got, err := x.ladder.run(ctx, n, o.warm, o.time, x.clients.sender)
	if err != nil {
		return sdkRun{}, err
	}
	// The processor time covers the warm-up too; its messages are as many as the rate says.
	million := got.rate * (o.warm + o.time).Seconds() / 1e6
	serverCPU, ownCPU = machine.CPUOf(x.server.PID)-serverCPU, machine.OwnCPU()-ownCPU
	return sdkRun{got, serverCPU.Seconds() / million, ownCPU.Seconds() / million, stretch.Others(serverCPU + ownCPU)}, nil
}

func (f *sdkFigures) add(ours, bare sdkRun) {
	f.ours.Add(ours.rate)
	f.bare.Add(bare.rate)
	f.ratio.Add(ours.rate / bare.rate)
	f.oursP50.Add(float64(ours.p50) / 1e6)
	f.oursP99.Add(float64(ours.p99) / 1e6)
	f.oursCPU.Add(ours.serverCPU)
	f.bareCPU.Add(bare.serverCPU)
	f.clientCPU.Add(ours.clientCPU)
}

// readBack opens what keystrand stored, reads all of it, and judges the run.
func (s *session) readBack(ctx context.Context, data string, to *tape.Tape, o options) (err error) {
	e, err := inside.Open(ctx, data, 0)
	if err != nil {
		return err
	}
	n, err := inside.Drain(ctx, e, sdkTopic, to)
	if err := errors.Join(err, e.Close()); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	return s.judge(to, "send-sdk", n, data, o)
}

func (s *session) judge(to *tape.Tape, name string, n int, dir string, o options) error {
	path := filepath.Join(dir, name+".jsonl")
	if o.keep != "" {
		path = filepath.Join(o.keep, name+".jsonl")
	}
	report, err := to.Judge(path)
	if err != nil {
		return err
	}
	s.stored += n
	progress("history of %s: %d sends, %d read back, %s", name, report.Summary.SendsOK, n, report.Verdict)
	return nil
}
