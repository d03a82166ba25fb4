package server_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// BenchmarkSend asks how many sends a second the edge takes from 256 callers on one connection, with the client in the same
// process. Estimate: two cores, 25 us on each side of the wire and 10 us for loopback: 1 / 60 us * 2 = 33,000/s without the
// disk. "store" adds the real sequencer and its fsync.
func BenchmarkSend(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, store := range []bool{false, true} {
			b.Run(fmt.Sprintf("tls=%v/store=%v", secure, store), func(b *testing.B) {
				var e *edge
				if store {
					e = start(b, nil)
				} else {
					e = serve(b, newDouble(), nil)
				}
				dial := e.dial
				if secure {
					dial = e.dialTLS
				}
				benchmarkSend(b, dial(b, "bench"))
			})
		}
	}
}

func benchmarkSend(b *testing.B, c *raw) {
	const callers = 256
	ctx := c.ctx(b, time.Minute)
	body := make([]byte, 1024)
	var next atomic.Int64
	var callersDone sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range callers {
		callersDone.Go(func() {
			group := fmt.Sprintf("group-%d", i)
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				answer, err := c.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{{
					Topic: resource("orders"), Body: body,
					SystemProperties: &v2.SystemProperties{MessageId: fmt.Sprintf("%034d", n), MessageGroup: &group, MessageType: v2.MessageType_FIFO},
				}}})
				if err != nil || answer.GetStatus().GetCode() != v2.Code_OK {
					b.Error(err, answer.GetStatus())
					return
				}
			}
		})
	}
	callersDone.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}
