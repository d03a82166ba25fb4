package main

import (
	"fmt"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/spf13/cobra"
)

// newCheckCommand judges recorded runs.
func newCheckCommand() *cobra.Command {
	var options history.Options
	cmd := &cobra.Command{
		Use: "check FILE...", Short: "Judge recorded histories: order, loss, duplicates, gaps",
		Long: `Merges the history files of a run by time and judges them: was anything lost, delivered out of order, applied twice?
Exit code 0: pass. 1: a check failed. 2: the history does not say enough for a verdict, or cannot be read.`,
		Example: "  keystrand demo --history run.jsonl; keystrand check run.jsonl",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes the history files of one run; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&options.Cases, "cases", 20, "how many cases of each failed check to show, with the lines around them")
	cmd.Flags().StringArrayVar(&options.Marks, "mark", nil, "a mark that the run must have reached; repeatable")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		report, err := history.Check(files, options)
		if err != nil {
			return &statusError{history.Unknown.ExitCode(), err.Error()}
		}
		p := printerOf(cmd)
		if p.json {
			err = report.WriteJSON(p.out)
		} else {
			err = report.WriteText(p.out)
		}
		if err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
		if code := report.Verdict.ExitCode(); code != 0 {
			return &statusError{code: code}
		}
		return nil
	}
	return cmd
}
