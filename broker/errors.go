package broker

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/store"
)

var classes = []error{
	keystrand.ErrRetryLater, keystrand.ErrUnknown, keystrand.ErrRejected, keystrand.ErrSuperseded, keystrand.ErrCorrupt,
	context.Canceled, context.DeadlineExceeded,
}

// withClass gives an error the class otherwise when it has none: what the disk or the network said, mostly.
func withClass(err, otherwise error) error {
	if err == nil {
		return nil
	}
	for _, class := range classes {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", err, otherwise)
}

// openError is what Open returns for err. A *store.DirectoryError stands alone: it has said all, with the directory.
func openError(err error) error {
	var directory *store.DirectoryError
	if errors.As(err, &directory) {
		return directory
	}
	return withClass(err, keystrand.ErrRetryLater) // nothing was served
}

// listenError adds what a failure to listen means. A port in use or a process without free files may be otherwise later; an
// address that this machine has not got, or may not use, stays wrong.
func listenError(err error) error {
	for _, passing := range []error{syscall.EADDRINUSE, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, passing) {
			return withClass(err, keystrand.ErrRetryLater)
		}
	}
	return withClass(err, keystrand.ErrRejected)
}
