package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"

	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// bareServer is the floor W0b: what the official client gets from a server that does nothing but write the bodies that
// came meanwhile to a zero-written file, call fdatasync once, and answer. It checks nothing, keeps no index, delivers
// nothing, and could not find a message again.
type bareServer struct {
	v2.UnimplementedMessagingServiceServer

	file vfs.File
	wake chan struct{} // capacity 1

	mu    sync.Mutex // guards those below
	bytes []byte     // of the batch that gathers
	batch chan struct{}
}

const bareFileBytes = 64 << 20

// serveBare runs the floor's server until ctx ends. It announces itself as keystrand does.
func serveBare(ctx context.Context, dir string) (err error) {
	file, err := vfs.OS{}.Create(filepath.Join(dir, "bare-log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < bareFileBytes; off += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros, off); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &bareServer{file: file, wake: make(chan struct{}, 1), batch: make(chan struct{})}
	transport := grpc.NewServer(grpc.NumStreamWorkers(128), grpc.InitialWindowSize(256<<10), grpc.InitialConnWindowSize(1<<20))
	v2.RegisterMessagingServiceServer(transport, s)
	group := task.NewGroup(ctx)
	group.Go("flush", s.flush)
	group.Go("serve", func(context.Context) error { return transport.Serve(listener) })
	group.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		transport.Stop()
		return nil
	})
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"status": "ready", "grpc_addr": listener.Addr().String(), "pid": os.Getpid()}); err != nil {
		return err
	}
	return group.Wait()
}

// flush is the group commit: one write and one fdatasync for everything that came since the last.
func (s *bareServer) flush(ctx context.Context) error {
	var buf []byte
	off := int64(0)
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
		s.mu.Lock()
		s.bytes, buf = buf[:0], s.bytes
		batch := s.batch
		s.batch = make(chan struct{})
		s.mu.Unlock()
		if off+int64(len(buf)) > bareFileBytes {
			off = 0
		}
		if _, err := s.file.WriteAt(buf, off); err != nil {
			return err
		}
		if err := s.file.Sync(); err != nil {
			return err
		}
		off += int64(len(buf))
		close(batch)
	}
}

// SendMessage answers when the body is on disk.
func (s *bareServer) SendMessage(ctx context.Context, in *v2.SendMessageRequest) (*v2.SendMessageResponse, error) {
	s.mu.Lock()
	out := &v2.SendMessageResponse{Status: ok(), Entries: make([]*v2.SendResultEntry, 0, len(in.GetMessages()))}
	for _, m := range in.GetMessages() {
		s.bytes = append(s.bytes, m.GetBody()...)
		out.Entries = append(out.Entries, &v2.SendResultEntry{Status: ok(), MessageId: m.GetSystemProperties().GetMessageId()})
	}
	batch := s.batch
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	select {
	case <-batch:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func ok() *v2.Status { return &v2.Status{Code: v2.Code_OK, Message: "OK"} }

// QueryRoute tells 8 queues at the endpoints that the client dialled.
func (s *bareServer) QueryRoute(_ context.Context, in *v2.QueryRouteRequest) (*v2.QueryRouteResponse, error) {
	out := &v2.QueryRouteResponse{Status: ok()}
	for i := range int32(8) {
		out.MessageQueues = append(out.MessageQueues, &v2.MessageQueue{
			Topic: in.GetTopic(), Id: i, Permission: v2.Permission_READ_WRITE, AcceptMessageTypes: []v2.MessageType{v2.MessageType_FIFO},
			Broker: &v2.Broker{Name: "bare", Endpoints: in.GetEndpoints()},
		})
	}
	return out, nil
}

// Heartbeat answers.
func (s *bareServer) Heartbeat(context.Context, *v2.HeartbeatRequest) (*v2.HeartbeatResponse, error) {
	return &v2.HeartbeatResponse{Status: ok()}, nil
}

// NotifyClientTermination answers.
func (s *bareServer) NotifyClientTermination(context.Context, *v2.NotifyClientTerminationRequest) (*v2.NotifyClientTerminationResponse, error) {
	return &v2.NotifyClientTerminationResponse{Status: ok()}, nil
}

// Telemetry sends each client's settings back.
func (s *bareServer) Telemetry(stream v2.MessagingService_TelemetryServer) error {
	for {
		command, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if settings := command.GetSettings(); settings != nil {
			settings.GetPublishing().MaxBodySize = 4 << 20
			settings.GetPublishing().ValidateMessageType = true
			settings.Metric = &v2.Metric{On: false}
			if err := stream.Send(&v2.TelemetryCommand{Status: ok(), Command: &v2.TelemetryCommand_Settings{Settings: settings}}); err != nil {
				return fmt.Errorf("telemetry: %w", err)
			}
		}
	}
}
