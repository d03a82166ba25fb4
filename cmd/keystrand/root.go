package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newRootCommand makes the whole command tree, anew for each run, so that no flag value outlives it.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "keystrand",
		Short:         "End-to-end ordered messaging: one strand per message group, and none waits for another",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          chooseBelow,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.PersistentFlags().String("server", "", "URL of the broker's HTTP API (environment KEYSTRAND_SERVER; default http://127.0.0.1:8088)")
	root.PersistentFlags().Bool("json", false, "print JSON, one object a line")
	root.AddCommand(
		newServeCommand(), newTopicCommand(), newGroupCommand(), newSendCommand(), newReceiveCommand(),
		newExplainCommand(), newParkCommand(), newResumeCommand(), newCheckCommand(), newDemoCommand(), newVersionCommand(), newExitCodesTopic(),
	)
	return root
}

// chooseBelow answers for a command that only has commands below it.
func chooseBelow(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q for %q%s; see %s --help", args[0], cmd.CommandPath(), hint, cmd.CommandPath())
}

// family makes a command that only has commands below it.
func family(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: chooseBelow}
	cmd.AddCommand(below...)
	return cmd
}
