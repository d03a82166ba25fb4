package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/server"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// edge is a server on a loopback port with what stands behind it.
type edge struct {
	server *server.Server
	core   *sequencer.Sequencer // nil with a double
	addr   string
	tasks  *task.Group
}

// start runs a server before a real sequencer with the topics and groups that the tests use.
func start(t testing.TB, change func(*server.Options)) *edge {
	t.Helper()
	core, err := sequencer.Open(sequencer.Options{FS: vfs.OS{}, Dir: t.TempDir(), RestartHold: -1, AutoCreate: true})
	if err != nil {
		t.Fatal(err)
	}
	tasks := task.NewGroup(context.Background())
	tasks.Go("sequencer", core.Run)
	t.Cleanup(func() {
		if err := errors.Join(tasks.Stop(), core.Close()); err != nil {
			t.Error(err)
		}
	})
	for _, topic := range []keystrand.TopicSpec{
		{Name: "orders", Type: keystrand.TopicFIFO, Queues: 4}, {Name: "notes", Type: keystrand.TopicNormal, Queues: 4},
		{Name: "one-queue", Type: keystrand.TopicFIFO, Queues: 1}, {Name: "wide", Type: keystrand.TopicFIFO, Queues: 16},
	} {
		if err := core.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	e := serve(t, core, change)
	e.core = core
	return e
}

// serve runs a server before core, which may be a double.
func serve(t testing.TB, core server.Sequencer, change func(*server.Options)) *edge {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Sequencer: core}
	if change != nil {
		change(&o)
	}
	e := &edge{server: server.New(o), addr: l.Addr().String(), tasks: task.NewGroup(context.Background())}
	e.tasks.Go("server", func(ctx context.Context) error { return e.server.Serve(ctx, l) })
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		e.server.Stop(stopping)
		if err := e.tasks.Stop(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// raw is a client on the bare stubs.
type raw struct {
	v2.MessagingServiceClient
	conn *grpc.ClientConn
	id   string
}

// dial connects over plaintext.
func (e *edge) dial(t testing.TB, id string) *raw {
	return e.dialWith(t, id, insecure.NewCredentials())
}

// dialTLS connects as the official Go client does: without verifying.
func (e *edge) dialTLS(t testing.TB, id string) *raw {
	return e.dialWith(t, id, credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})) //nolint:gosec // as the official client does
}

func (e *edge) dialWith(t testing.TB, id string, c credentials.TransportCredentials) *raw {
	t.Helper()
	conn, err := grpc.NewClient(e.addr, grpc.WithTransportCredentials(c), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // closed twice by tests that leave early
	return &raw{v2.NewMessagingServiceClient(conn), conn, id}
}

// ctx is a call's context with the client id and a deadline.
func (r *raw) ctx(t testing.TB, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "x-mq-client-id", r.id)
}

func resource(name string) *v2.Resource { return &v2.Resource{Name: name} }

func protoName(name string) protoreflect.Name { return protoreflect.Name(name) }

// newByName makes a message of the protocol by its full name.
func newByName(name string) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}
