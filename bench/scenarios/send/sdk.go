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
			s.loads.Add(machine.WaitQuiet(ctx, o.quiet))
			var rates [2]float64
			for turn := range 2 {
				which := (pair + turn) % 2
				rates[which], err = s.sdk[n].measure(ctx, sides[which], n, which == 0, o)
				if err != nil {
					return fmt.Errorf("%s, %d senders: %w", sides[which].name, n, err)
				}
			}
			s.sdk[n].ratio.Add(rates[0] / rates[1])
			progress("pair %d, %d senders: keystrand %.0f/s, bare server %.0f/s, ratio %.2f", pair+1, n, rates[0], rates[1], rates[0]/rates[1])
		}
	}
	return nil
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

func (f *sdkFigures) measure(ctx context.Context, x *side, n int, ours bool, o options) (float64, error) {
	serverCPU, ownCPU := machine.CPUOf(x.server.PID), machine.OwnCPU()
	got, err := x.ladder.run(ctx, n, o.warm, o.time, x.clients.sender)
	if err != nil {
		return 0, err
	}
	// The processor time covers the warm-up too; its messages are as many as the rate says.
	million := got.rate * (o.warm + o.time).Seconds() / 1e6
	serverCPU, ownCPU = machine.CPUOf(x.server.PID)-serverCPU, machine.OwnCPU()-ownCPU
	if ours {
		f.ours.Add(got.rate)
		f.oursP50.Add(float64(got.p50) / 1e6)
		f.oursP99.Add(float64(got.p99) / 1e6)
		f.oursCPU.Add(serverCPU.Seconds() / million)
		f.clientCPU.Add(ownCPU.Seconds() / million)
	} else {
		f.bare.Add(got.rate)
		f.bareCPU.Add(serverCPU.Seconds() / million)
	}
	return got.rate, nil
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
