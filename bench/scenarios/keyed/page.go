package main

import (
	"fmt"

	"github.com/keystrand/keystrand/bench/internal/page"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/table"
)

// mustShare is what G1 asks of every number of keys, mustGain what G2 asks.
const (
	mustShare = 0.90
	mustGain  = 100
)

func (s *session) page(o options, command string) *page.Page {
	p := &page.Page{
		Title: "Keyed consumption",
		Question: fmt.Sprintf("How near does consumption of many message groups come to min(keys, workers) / handler time, each group in order (G1)? And how much "+
			"faster is it than an order level that blocks a whole queue, which is bound by queues / handler time (G2)? The handler holds each message for %v.", o.handler),
		Machine: s.machine, Before: s.before, After: s.after, Loads: s.loads, Command: command,
	}
	t := table.New("order level", "keys = workers", "messages", "bound/s", "messages/s: median (min-max)", "share of the bound", "must", "handlers at once", "CPU s/million", "durability")
	share := page.Plot{Title: "Share of the bound min(keys, workers) / handler time", Series: []string{"keystrand, order by message group"}, Line: mustShare, LineName: "must 0.90"}
	for _, k := range o.keys {
		t.Add("group", k, messagesOf(k, o.short), fmt.Sprintf("%.0f", float64(k)/o.handler.Seconds()), s.rate[k].Format("%.1f"), s.share[k].Format("%.3f"), mustShare,
			s.peak[k].Format("%.0f"), s.cpu[k].Format("%.0f"), "sync always, acks durable")
		share.Groups = append(share.Groups, page.Group{Label: fmt.Sprintf("%d keys", k), Bars: []page.Bar{bar(*s.share[k])}})
	}
	p.Plots = append(p.Plots, share)
	if len(s.gain) > 0 {
		t.Add("queue", o.keys[len(o.keys)-1], queuedMessages(o.short), fmt.Sprintf("%.0f", queues/o.handler.Seconds()), s.queueRate.Format("%.1f"), "", "", s.queuePeak.Format("%.0f"), "", "sync always, acks durable")
		p.Results = append(p.Results,
			fmt.Sprintf("Order by message group / order by queue, same broker (G2): %s times; must %d.", s.gain.Format("%.1f"), mustGain),
			fmt.Sprintf("The rate of queue order is that of the time when all %d queues had work; over the whole run, with its uneven end, it is %s/s.", queues, s.queueWhole.Format("%.1f")))
	}
	p.Tables = append(p.Tables, t)
	p.Results = append(p.Results, fmt.Sprintf("Every history was judged: pass. %d events in all.", s.events))
	p.Method = []string{
		fmt.Sprintf("%d runs of each number of keys, in turn; each on a fresh embedded engine (engine/embedded, package consumer), %d queues, bodies of %d bytes, half of them compressible, keys in turn from a shuffled start, seed %d.", o.repeat, queues, o.bytes, o.seed),
		"All messages are stored before the consumer starts. The rate is messages / time from the start of the first handler to the end of the last.",
		"Engine, consumer, handlers and the recording of the history share the cores; the processor time is that of all of them.",
	}
	if o.quiet < 1 {
		p.Method = append(p.Method, fmt.Sprintf("The machine is shared: a run during which others used more than %.2f of all cores was made again, whatever its rate, at most %d times; %d were.", o.quiet, maxTries-1, s.discarded))
	}
	return p
}

func bar(v spread.Of) page.Bar { return page.Bar{Median: v.Median(), Min: v.Min(), Max: v.Max()} }
