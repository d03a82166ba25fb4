package deliver

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
	"github.com/keystrand/keystrand/internal/state/statetest"
)

// benchMachine has strands many strands with per messages each, in turn.
func benchMachine(b testing.TB, strands, per int, o Options) (*Machine, *statetest.Index) {
	spec, err := state.CompleteGroup(keystrand.GroupSpec{Name: "g", Ordered: true})
	if err != nil {
		b.Fatal(err)
	}
	ix := statetest.New()
	for range per {
		for s := range strands {
			ix.Append(int32(s%8), uint64(s)*0x9E3779B97F4A7C15+1<<20, 0)
		}
	}
	p := state.NewProgress(testGroup, testTopic, spec)
	if err := p.Apply(&state.Subscribe{Group: testGroup, Topic: testTopic}, ix); err != nil {
		b.Fatal(err)
	}
	return New(state.Group{ID: testGroup, Spec: spec}, state.Topic{ID: testTopic}, p, ix, &counter{}, o), ix
}

type counter struct{ n uint64 }

func (c *counter) Next() uint64 { c.n++; return c.n }

// Question: what does one message cost in the machine, from visible through receive and ack to durable? Estimate: two
// folds with a map look-up each, four heap moves, four small allocations: 1 us. Must: below 2 us.
func BenchmarkVisibleReceiveAckDurable(b *testing.B) {
	for _, strands := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("strands=%d", strands), func(b *testing.B) {
			m, ix := benchMachine(b, strands, max(1, b.N/strands+1), Options{})
			b.ReportAllocs()
			b.ResetTimer()
			log := uint64(0)
			visible := int64(0)
			for i := 0; i < b.N; i++ {
				if visible < int64(len(ix.Entries)) {
					visible++
				}
				m.Visible(0, visible)
				a := m.Receive(0, Receive{ID: RequestID(i + 1), ClientID: "c", Max: 1, Until: time.Hour})
				g := a.Answers[0].Grants[0]
				if v, _ := m.Ack(0, Handle{g.Strand, g.Entry, g.Token}); v != Done {
					b.Fatal(v)
				}
				log += 2
				m.Appended(log)
				m.Durable(0, log)
			}
		})
	}
}

// Question: the same in batches of 32, with a backlog, as simple consumers do it. Estimate: 0.6 us a message.
func BenchmarkBatchesFromABacklog(b *testing.B) {
	const strands = 10_000
	m, ix := benchMachine(b, strands, b.N/strands+2, Options{})
	m.Visible(0, int64(len(ix.Entries)))
	b.ReportAllocs()
	b.ResetTimer()
	log := uint64(0)
	for i := 0; i < b.N; {
		a := m.Receive(0, Receive{ID: RequestID(i + 1), ClientID: "c", Max: 32, Until: time.Hour})
		for _, g := range a.Answers[0].Grants {
			if v, _ := m.Ack(0, Handle{g.Strand, g.Entry, g.Token}); v != Done {
				b.Fatal(v)
			}
			i++
		}
		log += 64
		m.Appended(log)
		m.Durable(0, log)
	}
}

// Question: what does a push client's message cost, one an answer, 64 receives waiting? Estimate: 1.2 us.
func BenchmarkPushWithWaitingReceives(b *testing.B) {
	m, ix := benchMachine(b, 1000, b.N/1000+2, Options{})
	log := uint64(0)
	for c := range 64 {
		m.Receive(0, Receive{ID: RequestID(c + 1), ClientID: fmt.Sprint("c", c), Max: 32, Push: true, AutoRenew: true, Until: time.Hour})
	}
	id := RequestID(64)
	b.ReportAllocs()
	b.ResetTimer()
	n := int64(0)
	for i := 0; i < b.N; i++ {
		a := Actions{}
		for len(a.Answers) == 0 {
			n = min(n+1, int64(len(ix.Entries)))
			a = m.Visible(0, n)
		}
		g := a.Answers[0].Grants[0]
		m.Ack(0, Handle{g.Strand, g.Entry, g.Token})
		log += 2
		m.Appended(log)
		m.Durable(0, log)
		id++
		m.Receive(0, Receive{ID: id, ClientID: fmt.Sprint("c", i%64), Max: 32, Push: true, AutoRenew: true, Until: time.Hour})
	}
}

// TestReadyStrandCostsAtMost300Bytes measures what a strand in memory costs, with all its maps and heaps.
func TestReadyStrandCostsAtMost300Bytes(t *testing.T) {
	const strands = 200_000
	m, ix := benchMachine(t, strands, 1, Options{MaxReady: strands})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := int64(0); m.Stats().Ready < strands; i++ {
		m.Visible(0, int64(len(ix.Entries)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / strands
	t.Logf("%.0f bytes a ready strand", bytes)
	if bytes > 300 {
		t.Errorf("a ready strand costs %.0f bytes, want at most 300", bytes)
	}
	runtime.KeepAlive(m)
}
