package embedded_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/consumer"
	"github.com/keystrand/keystrand/engine/embedded"
	"github.com/keystrand/keystrand/internal/task"
)

// Question: what share of K/h do a thousand message groups with handlers of 40 ms reach, broker and consumer in one
// process, acknowledgements on disk? On paper: 25,000 messages a second are 80 us of two cores each for grant, read,
// lanes, timer and finish; the parts alone need about 50.
func BenchmarkThousandGroupsOfFortyMilliseconds(b *testing.B) {
	const groups, handler = 1000, 40 * time.Millisecond
	each := max(1, b.N/groups)
	e, err := embedded.Open(b.Context(), embedded.Options{DataDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	preload(b, e, groups, each)
	source, err := e.Consumer(b.Context(), keystrand.ConsumerOptions{Group: "stock", Topic: "orders"})
	if err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(groups * each))
	done := make(chan struct{})
	c, err := consumer.New(source, func(context.Context, keystrand.Delivery) error {
		timer := time.NewTimer(handler)
		<-timer.C
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	}, consumer.Options{Workers: groups})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	began := time.Now()
	g := task.NewGroup(context.Background())
	g.Go("consumer", c.Run)
	<-done
	took := time.Since(began)
	b.StopTimer()
	if err := g.Stop(); err != nil {
		b.Fatal(err)
	}
	if n := c.Stats(); n.Acked != int64(groups*each) {
		b.Errorf("%+v", n)
	}
	rate := float64(groups*each) / took.Seconds()
	b.ReportMetric(rate, "msg/s")
	b.ReportMetric(rate/(groups/handler.Seconds()), "of-ideal")
}

func preload(b *testing.B, e *embedded.Engine, groups, each int) {
	b.Helper()
	if err := e.Admin().CreateTopic(b.Context(), keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO}); err != nil {
		b.Fatal(err)
	}
	if err := e.Admin().CreateGroup(b.Context(), keystrand.GroupSpec{Name: "stock", Ordered: true}); err != nil {
		b.Fatal(err)
	}
	p, err := e.Producer(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	body := make([]byte, 1024)
	for range each {
		batch := make([]keystrand.Message, 0, groups)
		for g := range groups {
			batch = append(batch, keystrand.Message{Topic: "orders", MessageGroup: fmt.Sprintf("order-%d", g), Body: body})
		}
		if _, err := p.Send(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
	}
}
