package main

import (
	"fmt"

	"github.com/keystrand/keystrand/bench/internal/page"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/table"
)

// peer is what RocketMQ 5.5.0 with SYNC_FLUSH, warm, gave the same client on a machine of this kind, and the musts of G7.
var peer = map[int]struct{ rate, must float64 }{1: {282, 3}, 16: {1388, 3}, 256: {3773, 2}}

// mustOfBare is what G7 asks beside W0b.
const mustOfBare = 0.75

func (s *session) page(o options, command string) *page.Page {
	p := &page.Page{
		Title: "Durable sends",
		Question: "How many sends a second are acknowledged, each on disk before its answer? Through the official Go SDK v5 beside a server that only writes, calls " +
			"fdatasync once for all that came meanwhile, and answers (G7, W0b); and in the broker's own process against the disk (G5, G6, G8, G9).",
		Machine: s.machine, Before: s.before, After: s.after, Loads: s.loads, Command: command,
	}
	if o.sdk {
		p.Tables = append(p.Tables, s.sdkTable(o), s.costTable(o))
		p.Plots = append(p.Plots, s.sdkPlot(o))
	}
	if o.inside {
		p.Tables = append(p.Tables, s.embeddedTable(o))
		p.Results = append(p.Results, fmt.Sprintf("Sync / async, %d senders, embedded (G9): %s; must 0.6.", o.embedded[len(o.embedded)-1], s.syncToAsync.Format("%.2f")))
	}
	p.Results = append(p.Results, fmt.Sprintf("All messages were read back, %d, and every history was judged: pass.", s.stored))
	p.Method = []string{
		fmt.Sprintf("%d alternating pairs of %v after a warm-up of %v; bodies of %d bytes, half of them compressible, %d message groups, 8 queues, seed %d. Each sender waits for its answer and owns its groups, so sends of a group are one after the other.",
			o.pairs, o.time, o.warm, o.bytes, o.keys, o.seed),
		fmt.Sprintf("Through the SDK: TLS off, %d producer(s), each with its own connection, client and server on the same cores; `keystrand serve` and the bare server are processes of their own.", o.connections),
		"RocketMQ's figures were measured on another day on a machine of this kind (5.5.0, SYNC_FLUSH, warm, the same client); the share of the bare server is of the same run.",
		"N/(F+Nc): F is the median of 1 KiB + fdatasync just before and after, c the processor time of a message in the round's run with the most senders. c is spent on two cores at once, so the share may pass 1.",
	}
	if o.quiet < 1 {
		p.Method = append(p.Method, fmt.Sprintf("The machine is shared: a pair or round during which others used more than %.2f of all cores was made again, whatever its rates, at most %d times; %d were.", o.quiet, maxTries-1, s.discarded))
	}
	return p
}

func (s *session) sdkTable(o options) *table.Table {
	t := table.New("official Go SDK v5, senders", "keystrand/s: median (min-max)", "p50 ms", "p99 ms", "bare server/s", "share of the bare server", "must", "RocketMQ SYNC_FLUSH/s", "times", "must", "durability, all")
	for _, n := range o.senders {
		f := s.sdk[n]
		rate, times, must := "-", "-", "-"
		if p, ok := peer[n]; ok {
			rate, times, must = fmt.Sprintf("%.0f", p.rate), fmt.Sprintf("%.1f", f.ours.Median()/p.rate), fmt.Sprintf("%.0f", p.must)
		}
		t.Add(n, f.ours.Format("%.0f"), f.oursP50.Format("%.2f"), f.oursP99.Format("%.1f"), f.bare.Format("%.0f"), f.ratio.Format("%.2f"), mustOfBare, rate, times, must, "on disk before the answer")
	}
	return t
}

func (s *session) costTable(o options) *table.Table {
	t := table.New("official Go SDK v5, senders", "CPU s/million: keystrand serve", "bare server", "the SDK and its senders")
	for _, n := range o.senders {
		f := s.sdk[n]
		t.Add(n, f.oursCPU.Format("%.0f"), f.bareCPU.Format("%.0f"), f.clientCPU.Format("%.0f"))
	}
	return t
}

func (s *session) embeddedTable(o options) *table.Table {
	t := table.New("embedded, senders", "messages/s: median (min-max)", "p50 ms", "p99 ms", "share of N/(F+Nc)", "times raw fdatasync/s", "CPU s/million", "durability")
	for _, n := range o.embedded {
		f := s.embedded[n]
		t.Add(n, f.rate.Format("%.0f"), f.p50.Format("%.2f"), f.p99.Format("%.1f"), f.model.Format("%.2f"), f.disk.Format("%.2f"), f.cpu.Format("%.0f"), "sync always")
	}
	t.Add(o.embedded[len(o.embedded)-1], s.async.Format("%.0f"), "", "", "", "", "", fmt.Sprintf("sync interval=%v", asyncInterval))
	return t
}

func (s *session) sdkPlot(o options) page.Plot {
	p := page.Plot{Title: "Durable sends through the official Go SDK v5", Unit: "messages/s", Series: []string{"keystrand", "bare server (floor)", "RocketMQ SYNC_FLUSH"}}
	for _, n := range o.senders {
		known := peer[n].rate
		p.Groups = append(p.Groups, page.Group{Label: fmt.Sprintf("%d senders", n), Bars: []page.Bar{bar(s.sdk[n].ours), bar(s.sdk[n].bare), {Median: known, Min: known, Max: known}}})
	}
	return p
}

func bar(v spread.Of) page.Bar { return page.Bar{Median: v.Median(), Min: v.Min(), Max: v.Max()} }
