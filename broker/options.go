package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/admin"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Options of a broker. Only DataDir is required.
type Options struct {
	// DataDir holds everything; it is made if missing and locked while the broker is open.
	DataDir string
	// GRPCAddr is the loopback address for RocketMQ 5 clients, e.g. "127.0.0.1:8081"; port 0 takes a free one. Empty: not served.
	GRPCAddr string
	// HTTPAddr is the loopback address for admin, health and metrics, e.g. "127.0.0.1:8088". Empty: not served.
	HTTPAddr string
	// Topics and Groups are made at start if they do not exist; one that exists with other settings is an error.
	Topics []keystrand.TopicSpec
	Groups []keystrand.GroupSpec
	// AutoCreate lets an unknown consumer group come into being at its first receive, ordered on a FIFO topic. Default off.
	AutoCreate bool
	// SyncInterval 0 means `sync: always`: a send is answered when it is on disk. Above 0: answered when appended; a power
	// loss may take what was appended in that time. At most 10 s.
	SyncInterval time.Duration
	// RestartHold is how long, after an unclean start, a strand without a recorded grant waits before its first hand-out.
	// Default 5 s, negative: none. Shorter: faster restart; a consumer that got a message just before a power loss may overlap.
	RestartHold time.Duration
	// SnapshotEvery is the time between snapshots; default 1 min. Longer: less writing, longer restart.
	SnapshotEvery time.Duration
	// Logger takes state changes and alarms. Default: nothing is logged.
	Logger *slog.Logger
	// Version is told by the metrics.
	Version string

	fs vfs.FS // tests put a simulated disk here
}

// maxSyncInterval bounds the loss window.
const maxSyncInterval = 10 * time.Second

// Validate reports all faults at once.
func (o Options) Validate() error {
	var faults []error
	if o.DataDir == "" {
		faults = append(faults, errors.New("DataDir: required"))
	}
	if o.SyncInterval < 0 || o.SyncInterval > maxSyncInterval {
		faults = append(faults, fmt.Errorf("SyncInterval: %v is not between 0 and %v", o.SyncInterval, maxSyncInterval))
	}
	if o.SnapshotEvery < 0 {
		faults = append(faults, fmt.Errorf("SnapshotEvery: %v is negative", o.SnapshotEvery))
	}
	for _, a := range []struct{ field, address string }{{"GRPCAddr", o.GRPCAddr}, {"HTTPAddr", o.HTTPAddr}} {
		if a.address == "" {
			continue
		}
		if err := admin.CheckLoopback(a.address); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", a.field, err))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("broker options: %w: %w", keystrand.ErrRejected, errors.Join(faults...))
	}
	return nil
}
