package sequencer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/keystrand/keystrand/internal/clock"
	"github.com/keystrand/keystrand/internal/store"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Options of a sequencer. FS and Dir are required; other zero values mean the defaults.
type Options struct {
	FS  vfs.FS
	Dir string
	// Clock tells wall time for stamps and monotonic time for leases; default: this process's clock.
	Clock clock.Clock
	// Logger takes state changes and alarms; default: nothing is logged.
	Logger *slog.Logger
	// Store tunes the log. OnDurable and OnFailed belong to the sequencer and must be nil.
	Store store.Options
	// RestartHold is how long, after an unclean start, a strand without a recorded grant waits before its first hand-out:
	// its owner from before may still be at work. Default 5 s; negative: none.
	RestartHold time.Duration
	// SnapshotEvery is the time between snapshots while the log grows; default 1 min. Longer: cheaper running, longer restart.
	SnapshotEvery time.Duration
	// AutoCreate lets an unknown consumer group come into being at its first receive. Topics are never made by a send.
	AutoCreate bool
	// MaxTopics and MaxGroups bound the catalog; default 10,000 each.
	MaxTopics, MaxGroups int
	// MaxWaiting bounds receives that are held at one time; default 16,384. Above it a receive is answered "retry later".
	MaxWaiting int
}

// Bounds of one turn of the loop, so that no batch grows without limit: what is left waits for the next turn.
const (
	maxTurnCommands  = 4096
	maxTurnSendBytes = 8 << 20
	// maxQueuedCommands is the bound of the command queue; at it callers are told to retry later.
	maxQueuedCommands = 1 << 16
)

func (o Options) complete() (Options, error) {
	var faults []error
	if o.FS == nil {
		faults = append(faults, errors.New("FS: required"))
	}
	if o.Dir == "" {
		faults = append(faults, errors.New("Dir: required"))
	}
	if o.Store.OnDurable != nil || o.Store.OnFailed != nil {
		faults = append(faults, errors.New("Store.OnDurable, Store.OnFailed: belong to the sequencer"))
	}
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RestartHold == 0 {
		o.RestartHold = 5 * time.Second
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = time.Minute
	}
	if o.SnapshotEvery < 0 {
		faults = append(faults, fmt.Errorf("SnapshotEvery: %v is negative", o.SnapshotEvery))
	}
	setDefault(&o.MaxTopics, 10_000)
	setDefault(&o.MaxGroups, 10_000)
	setDefault(&o.MaxWaiting, 16_384)
	if len(faults) > 0 {
		return o, fmt.Errorf("sequencer options: %w", errors.Join(faults...))
	}
	return o, nil
}

func setDefault(v *int, d int) {
	if *v <= 0 {
		*v = d
	}
}
