package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/keystrand/keystrand"
	"github.com/spf13/cobra"
)

// The exit codes, also told by `keystrand help exit-codes`. A script can decide on them as a program decides on the five
// error classes of package keystrand.
const (
	exitDone        = 0
	exitFailed      = 1 // anything else; also a verdict that is not pass (check, demo)
	exitUsage       = 2
	exitRejected    = 3
	exitRetryLater  = 4
	exitUnknown     = 5
	exitSuperseded  = 6
	exitCorrupt     = 7
	exitInterrupted = 130
)

const exitHelp = `Exit codes of every command:
  0    done
  1    failed for a reason not listed here, or the verdict of check or demo is not pass
  2    wrong usage: unknown command or flag, missing or bad value; check: no verdict
  3    rejected: the same request will fail again until something is changed
  4    retry later: surely not done; also when no broker answers
  5    outcome unknown: it may have been done, repeat with the same message id
  6    superseded: someone else moved on, such as a lease that has ended
  7    corrupt: stored bytes are wrong
  130  interrupted by a signal
`

func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitHelp}
}

// usageError is the caller's mistake at the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// statusError ends the process with a code of the command's own. Its text may be empty: the command has said it already.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// exitStatus reports err to people and returns the code for the process.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	if text := err.Error(); text != "" {
		for line := range strings.Lines(text) { // joined errors stand on lines of their own
			fmt.Fprintf(stderr, "keystrand: %s\n", plain(strings.TrimSuffix(line, "\n")))
		}
	}
	var usage *usageError
	var status *statusError
	if errors.As(err, &usage) {
		return exitUsage
	}
	if errors.As(err, &status) {
		return status.code
	}
	for _, row := range []struct {
		class error
		code  int
	}{
		{keystrand.ErrCorrupt, exitCorrupt},
		{keystrand.ErrSuperseded, exitSuperseded},
		{keystrand.ErrUnknown, exitUnknown},
		{keystrand.ErrRejected, exitRejected},
		{keystrand.ErrRetryLater, exitRetryLater},
		{context.Canceled, exitInterrupted},
		{context.DeadlineExceeded, exitUnknown},
	} {
		if errors.Is(err, row.class) {
			return row.code
		}
	}
	return exitFailed
}

// needed gives a usage error that names every flag that was left out.
func needed(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.String() == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return usagef("missing: %s; see %s --help", strings.Join(missing, ", "), cmd.CommandPath())
	}
	return nil
}

// exactly wants n arguments and says which.
func exactly(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(what) {
			return usagef("%s takes %d argument(s) %v, got %d; see %s --help", cmd.CommandPath(), len(what), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}
