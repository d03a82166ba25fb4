package main

import (
	"fmt"
	"io"

	"github.com/keystrand/keystrand/bench/internal/table"
)

// peer is what RocketMQ 5.5.0 with SYNC_FLUSH gave the same client, warm, on a machine of this kind, and the musts of G7.
var peer = map[int]struct{ rate, must float64 }{1: {282, 3}, 16: {1388, 3}, 256: {3773, 2}}

func (s *session) tables(o options) []*table.Table {
	var all []*table.Table
	if o.sdk {
		t := table.New("official Go SDK v5, senders", "keystrand/s: median (min-max)", "p50 ms", "p99 ms", "bare server/s", "p50 ms", "share of bare", "x RocketMQ", "server CPU s/million", "bare's", "client's", "durability, both")
		for _, n := range o.senders {
			f := s.sdk[n]
			times := "-"
			if p, ok := peer[n]; ok {
				times = fmt.Sprintf("%.1f (%.0f/s)", f.ours.Median()/p.rate, p.rate)
			}
			t.Add(n, f.ours.Format("%.0f"), f.oursP50.Format("%.2f"), f.oursP99.Format("%.1f"), f.bare.Format("%.0f"), f.bareP50.Format("%.2f"), f.ratio.Format("%.2f"),
				times, f.oursCPU.Format("%.0f"), f.bareCPU.Format("%.0f"), f.clientCPU.Format("%.0f"), "fdatasync before the answer")
		}
		all = append(all, t)
	}
	if o.inside {
		t := table.New("embedded, senders", "messages/s: median (min-max)", "p50 ms", "p99 ms", "share of N/(F+Nc)", "x raw fdatasync", "CPU s/million", "durability")
		for _, n := range o.embedded {
			f := s.embedded[n]
			t.Add(n, f.rate.Format("%.0f"), f.p50.Format("%.2f"), f.p99.Format("%.1f"), f.model.Format("%.2f"), f.disk.Format("%.2f"), f.cpu.Format("%.1f"), "sync always")
		}
		t.Add(o.embedded[len(o.embedded)-1], s.async.Format("%.0f"), "", "", "", "", "", "sync interval=50ms")
		all = append(all, t)
	}
	return all
}

func (s *session) print(w io.Writer, o options) error {
	for _, t := range s.tables(o) {
		if err := t.Write(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if o.inside {
		if _, err := fmt.Fprintf(w, "sync / async (G9): %s\n", s.syncToAsync.Format("%.2f")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "pairs: %d of %v after %v; used by others before each: %s of all cores; %d messages read back, histories judged: pass\nfloor before: %s\nfloor after:  %s\n%s, seed %d\n",
		o.pairs, o.time, o.warm, s.loads.Format("%.2f"), s.stored, s.before, s.after, s.machine, o.seed)
	return err
}
