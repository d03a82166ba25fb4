package sdk

import (
	"context"
	"fmt"
	"strconv"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

// PropertyDue tells when a message was to be sent, on the clock of history.Now: latencies count from it, so that a
// send that was held up is not left out.
const PropertyDue = "due"

const (
	// loadSenders send at one time at most; each owns its message groups alone, so their order is kept.
	loadSenders = 128
	// loadQueue is how many messages may wait for one sender: more than any run that is of use.
	loadQueue = 4096
	// pacing is how often due messages are released.
	pacing = time.Millisecond
)

// Load sends messages of Keys message groups in turn. Runs may follow each other, not overlap.
type Load struct {
	Producer rmq.Producer
	Topic    string
	Keys     int

	next int   // message group of the next message
	last []int // number of the last message of each group
}

// KeyName is the name of message group k.
func KeyName(k int) string { return fmt.Sprintf("key-%04d", k) }

type due struct {
	key, number int
	at          int64
}

// Open sends rate messages a second for d, whether or not earlier ones have been answered.
func (l *Load) Open(ctx context.Context, rate float64, d time.Duration) error {
	began := history.Now()
	sent := 0
	return l.run(ctx, func(ctx context.Context, send func(at int64)) error {
		tick := time.NewTicker(pacing)
		defer tick.Stop()
		for {
			passed := min(time.Duration(history.Now()-began), d)
			for ; sent < int(rate*passed.Seconds()); sent++ {
				send(began + int64(float64(sent)/rate*float64(time.Second)))
			}
			if passed == d {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// Closed sends for d as fast as it goes while room says how many more may be sent at once.
func (l *Load) Closed(ctx context.Context, d time.Duration, room func() int) error {
	end := time.Now().Add(d)
	return l.run(ctx, func(ctx context.Context, send func(at int64)) error {
		for time.Now().Before(end) && ctx.Err() == nil {
			for range room() {
				send(history.Now())
			}
			Pause(ctx, pacing)
		}
		return nil
	})
}

// run gives the messages that feed releases to the senders and waits until all are answered.
func (l *Load) run(ctx context.Context, feed func(ctx context.Context, send func(at int64)) error) error {
	if l.last == nil {
		l.last = make([]int, l.Keys)
	}
	tasks := task.NewGroup(ctx)
	queues := make([]chan due, loadSenders)
	for i := range queues {
		queues[i] = make(chan due, loadQueue)
		tasks.Go("sender", func(ctx context.Context) error { return l.send(ctx, queues[i]) })
	}
	err := feed(tasks.Context(), func(at int64) {
		k := l.next
		l.next = (k + 1) % l.Keys
		l.last[k]++
		queues[k%loadSenders] <- due{k, l.last[k], at}
	})
	for _, q := range queues {
		close(q)
	}
	if waited := tasks.Wait(); waited != nil {
		return waited
	}
	return err
}

func (l *Load) send(ctx context.Context, queue <-chan due) error {
	for d := range queue {
		m := NewMessage(l.Topic, KeyName(d.key), d.number)
		m.AddProperty(PropertyDue, strconv.FormatInt(d.at, 10))
		for {
			_, err := l.Producer.Send(ctx, m)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return err
			}
			Pause(ctx, retryAfter)
		}
	}
	return nil
}

// SinceDue is how long ago the message was to be sent.
func SinceDue(m *rmq.MessageView) time.Duration {
	at, err := strconv.ParseInt(m.GetProperties()[PropertyDue], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(history.Now() - at)
}
