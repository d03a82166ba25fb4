package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

const (
	// readers receive at one time in a read-back.
	readers = 4
	// readBackTimeout bounds a read-back.
	readBackTimeout = 3 * time.Minute
	readBackLease   = 2 * time.Hour
)

// dial connects a raw client over plaintext. Its calls are recorded when tap is not nil.
func dial(addr string, tap *Tap) (*grpc.ClientConn, error) {
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20))}
	if tap != nil {
		opts = append(opts, tap.DialOptions()...)
	}
	return grpc.NewClient(addr, opts...)
}

func asClient(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-mq-client-id", id, "x-mq-language", "KEYSTRAND", "x-mq-client-version", "5.0.0", "x-mq-protocol", "v2")
}

// Stored is a message as it stands in the log.
type Stored struct {
	Key    string
	ID     history.ID
	Queue  int32
	Offset int64
	Sum    uint64
	Props  map[string]string
}

// ReadAll reads the n messages of a topic, in queue and offset order. group must be a new, unordered consumer group that
// starts at the earliest message: each message is a strand of its own there, so none waits for another.
func ReadAll(t testing.TB, addr, group, topic string, n int) []Stored {
	t.Helper()
	conn, err := dial(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	ctx, cancel := context.WithTimeout(t.Context(), readBackTimeout)
	defer cancel()
	all := reading{want: n, done: cancel}
	tasks := task.NewGroup(asClient(ctx, "read-back-of-"+topic))
	for range readers {
		tasks.Go("read back", func(ctx context.Context) error {
			return all.read(ctx, v2.NewMessagingServiceClient(conn), group, topic)
		})
	}
	if err := tasks.Wait(); err != nil || len(all.got) != n {
		t.Fatalf("read back %d of %d messages of topic %s: %v", len(all.got), n, topic, err)
	}
	slices.SortFunc(all.got, func(a, b Stored) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Offset, b.Offset)) })
	return all.got
}

type reading struct {
	want int
	done func()
	mu   sync.Mutex // guards got
	got  []Stored
}

func (r *reading) read(ctx context.Context, client v2.MessagingServiceClient, group, topic string) error {
	for ctx.Err() == nil {
		messages, err := receiveRaw(ctx, client, &v2.ReceiveMessageRequest{
			Group: &v2.Resource{Name: group}, MessageQueue: &v2.MessageQueue{Topic: &v2.Resource{Name: topic}}, BatchSize: 32,
			InvisibleDuration: durationpb.New(readBackLease), LongPollingTimeout: durationpb.New(time.Second),
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if r.take(messages) {
			r.done()
		}
	}
	return nil
}

func (r *reading) take(messages []*v2.Message) (all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range messages {
		system := m.GetSystemProperties()
		r.got = append(r.got, Stored{
			Key: system.GetMessageGroup(), ID: idOf(m), Queue: system.GetQueueId(), Offset: system.GetQueueOffset(),
			Sum: history.Sum(m.GetBody()), Props: m.GetUserProperties(),
		})
	}
	return len(r.got) >= r.want
}

// receiveRaw is one ReceiveMessage call; no message in time is none and no error.
func receiveRaw(ctx context.Context, client v2.MessagingServiceClient, in *v2.ReceiveMessageRequest) (got []*v2.Message, err error) {
	stream, err := client.ReceiveMessage(ctx, in)
	if err != nil {
		return nil, err
	}
	status := &v2.Status{}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if s := answer.GetStatus(); s != nil {
			status = s
		}
		if m := answer.GetMessage(); m != nil {
			got = append(got, m)
		}
	}
	switch status.GetCode() {
	case v2.Code_OK, v2.Code_MESSAGE_NOT_FOUND:
		return got, nil
	}
	return nil, fmt.Errorf("receive from %s for %s: %v %s", in.GetMessageQueue().GetTopic().GetName(), in.GetGroup().GetName(), status.GetCode(), status.GetMessage())
}

// NoteReadBack puts a whole read-back into the history and checks that each answered send stands at the offset that its
// answer named.
func (t *Tap) NoteReadBack(tb testing.TB, topic string, stored []Stored) {
	tb.Helper()
	type spot struct {
		message
		offset int64
	}
	there := make(map[spot]bool, len(stored))
	for _, s := range stored {
		t.main.Log(history.Message{Topic: topic, Key: s.Key, ID: s.ID, Sum: s.Sum}, s.Queue, s.Offset, -1)
		there[spot{message{topic, s.Key, s.ID}, s.Offset}] = true
	}
	t.main.ReadBack(history.Log, topic, "", len(stored))
	t.mu.Lock()
	defer t.mu.Unlock()
	missing := 0
	for m, offset := range t.answered {
		if m.topic == topic && !there[spot{m, offset}] {
			if missing++; missing <= 10 {
				tb.Errorf("message %s of key %q was answered offset %d and does not stand there", m.id, m.key, offset)
			}
		}
	}
	if missing > 0 {
		tb.Errorf("%d answered sends do not stand where their answer said", missing)
	}
}
