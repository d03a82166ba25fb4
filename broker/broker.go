package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/admin"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/server"
	"github.com/keystrand/keystrand/internal/store"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

// The words of the broker's calls.
type (
	// Receive asks for messages of one consumer group and topic.
	Receive = sequencer.Receive
	// TopicInfo tells of a topic.
	TopicInfo = sequencer.TopicInfo
	// GroupInfo tells of a consumer group; GroupTopic of its standing on one topic.
	GroupInfo  = sequencer.GroupInfo
	GroupTopic = sequencer.GroupTopic
	// Explanation says why a strand does or does not move.
	Explanation = sequencer.Explanation
	// Stats are counts since the start.
	Stats = sequencer.Stats
)

// Broker is one open data directory.
type Broker struct {
	core    *sequencer.Sequencer
	options Options
	grpc    net.Listener // nil: not served
	server  *server.Server
	http    *admin.Server // nil: not served
	once    sync.Once
	err     error
}

// Open locks and recovers the data directory and binds the listeners. The broker works once Run is called.
//
// Errors: keystrand.ErrLocked when another broker has the directory; ErrRetryLater also when a port is in use or the disk
// does not answer; ErrRejected when the options are wrong, such as an address that is not loopback or a directory that is a
// file; ErrCorrupt when what is stored is damaged.
func Open(o Options) (*Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.fs == nil {
		o.fs = vfs.OS{}
		dir, err := filepath.Abs(o.DataDir)
		if err != nil {
			return nil, fmt.Errorf("data directory %q: %w: %w", o.DataDir, err, keystrand.ErrRetryLater)
		}
		o.DataDir = filepath.ToSlash(dir)
	}
	s, err := sequencer.Open(sequencer.Options{
		FS: o.fs, Dir: o.DataDir, Logger: o.Logger, Store: store.Options{SyncInterval: o.SyncInterval},
		RestartHold: o.RestartHold, SnapshotEvery: o.SnapshotEvery, AutoCreate: o.AutoCreate,
	})
	if err != nil {
		return nil, openError(err)
	}
	b := &Broker{core: s, options: o}
	if err := b.listen(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// listen binds what the options name, and reports all that cannot be bound.
func (b *Broker) listen() error {
	var faults []error
	var err error
	if b.options.GRPCAddr != "" {
		if b.grpc, err = listenLoopback(b.options.GRPCAddr); err != nil {
			faults = append(faults, listenError(fmt.Errorf("grpc-addr: %w; choose a free port, or 0 for any", err)))
		}
		b.server = server.New(server.Options{Sequencer: b.core, Logger: b.options.Logger})
	}
	if b.options.HTTPAddr != "" {
		if b.http, err = admin.Open(admin.Options{Backend: b.core, Addr: b.options.HTTPAddr, Logger: b.options.Logger, Version: b.options.Version}); err != nil {
			faults = append(faults, listenError(err))
		}
	}
	return errors.Join(faults...)
}

// listenLoopback listens where Validate has allowed it, and looks again at what was bound: "localhost" may have been
// something else.
func listenLoopback(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if err := admin.CheckLoopback(listener.Addr().String()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Addresses are where the broker listens; empty when it does not.
type Addresses struct {
	GRPC string `json:"grpc,omitempty"`
	HTTP string `json:"http,omitempty"`
}

// Addresses tells the bound addresses, ports resolved.
func (b *Broker) Addresses() Addresses {
	var a Addresses
	if b.grpc != nil {
		a.GRPC = b.grpc.Addr().String()
	}
	if b.http != nil {
		a.HTTP = b.http.Addr()
	}
	return a
}

// Run serves until ctx ends, then drains: the listeners take nothing new and finish what they answer, then the core
// stops. ready, if not nil, is called once the topics and groups of the options exist and clients may come.
func (b *Broker) Run(ctx context.Context, ready func()) error {
	coreCtx, stopCore := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx: the listeners drain first
	defer stopCore()
	coreGroup := task.NewGroup(coreCtx)
	coreGroup.Go("sequencer", b.core.Run)
	edges := task.NewGroup(ctx)
	edges.Go("core watch", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-coreGroup.Context().Done():
			return fmt.Errorf("broker core ended: %w", context.Cause(coreGroup.Context()))
		}
	})
	err := b.makeNamed(edges.Context())
	if err == nil {
		b.serve(edges)
		if ready != nil {
			ready()
		}
		err = edges.Wait()
	} else {
		err = errors.Join(err, edges.Stop())
	}
	stopCore()
	return withClass(errors.Join(err, coreGroup.Wait()), keystrand.ErrUnknown)
}

// makeNamed creates what the options name. What exists otherwise is an error: nobody knows whose settings are meant.
func (b *Broker) makeNamed(ctx context.Context) error {
	for _, t := range b.options.Topics {
		if err := b.CreateTopic(ctx, t); err != nil {
			return advise(err)
		}
	}
	for _, g := range b.options.Groups {
		if err := b.CreateGroup(ctx, g); err != nil {
			return advise(err)
		}
	}
	return nil
}

func advise(err error) error {
	if errors.Is(err, keystrand.ErrExists) {
		return fmt.Errorf("%w; use its settings or another name", err)
	}
	return err
}

func (b *Broker) serve(edges *task.Group) {
	if b.grpc != nil {
		edges.Go("grpc", func(ctx context.Context) error { return b.server.Serve(ctx, b.grpc) })
	}
	if b.http != nil {
		edges.Go("http", b.http.Run)
	}
}

// Close ends listeners and core, writes a last snapshot and marks the data as cleanly closed. Run must have returned or
// its context ended. Safe twice.
func (b *Broker) Close() error {
	b.once.Do(func() {
		var errs []error
		if b.http != nil {
			errs = append(errs, b.http.Close())
		}
		if b.grpc != nil {
			if err := b.grpc.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		b.err = withClass(errors.Join(append(errs, b.core.Close())...), keystrand.ErrUnknown)
	})
	return b.err
}
