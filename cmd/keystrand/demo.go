package main

import (
	"fmt"
	"io"
	"os"

	"github.com/keystrand/keystrand/internal/demo"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/spf13/cobra"
)

// newDemoCommand shows the whole way with faults and ends with the judge's verdict.
func newDemoCommand() *cobra.Command {
	var o demo.Options
	var faults string
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the whole way on SQLite, with faults, and judge it", Args: exactly(),
		Long: `Starts a broker, a relay and two consumers as processes of their own that share a SQLite file. Business transactions
change orders and write their events; meanwhile messages are sent twice and too early, a request and an answer are lost, an
order cannot be handled, a consumer is killed inside its transaction, another is stopped past its lease, and the broker is
killed. Then the judge reads all histories, the log and the tables. Exit code 0 only when its verdict is pass.`,
		Example: "  keystrand demo\n  keystrand demo --orders 500 --seed 7 --keep ./demo-run",
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Orders, "orders", 2000, "orders, each with five events")
	flags.IntVar(&o.Workers, "workers", 8, "orders that one consumer process handles at a time")
	flags.DurationVar(&o.Handler, "handler", 0, "how long a consumer works on an event before its transaction")
	flags.IntVar(&o.Queues, "queues", 8, "queues of the topic")
	flags.Uint64Var(&o.Seed, "seed", 1, "decides which orders meet a fault, and in which order the writers work")
	flags.StringVar(&faults, "faults", "on", "on or off")
	flags.StringVar(&o.History, "history", "", "file for the merged history, for keystrand check")
	flags.StringVar(&o.Keep, "keep", "", "new or empty directory that keeps everything the run leaves behind")
	addBreakFlag(flags, &o.Break)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch faults {
		case "on", "off":
			o.NoFaults = faults == "off"
		default:
			return usagef("--faults %q: choose on or off", faults)
		}
		if err := o.Validate(); err != nil {
			return &usageError{err}
		}
		o.Stderr, o.Terminal = cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr())
		result, err := demo.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		p := printerOf(cmd)
		if p.json {
			err = result.WriteJSON(p.out)
		} else {
			err = result.WriteText(p.out)
		}
		if err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		if result.Verdict != history.Pass {
			return &statusError{code: exitFailed}
		}
		return nil
	}
	cmd.AddCommand(newDemoChildCommand())
	return cmd
}

// newDemoChildCommand is what demo starts this binary as; it is not for people.
func newDemoChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: "child", Short: "Run as a child of demo", Hidden: true, Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunChild(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// isTerminal reports whether w is one, so that a line may be redrawn on it.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
