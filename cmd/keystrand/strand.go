package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
)

func newExplainCommand() *cobra.Command {
	return strandCommand("explain", "Say why a strand does or does not move", false,
		func(ctx context.Context, client *admin.Client, s admin.Strand) (admin.Explanation, error) {
			return client.Explain(ctx, s)
		})
}

func newParkCommand() *cobra.Command {
	return strandCommand("park", "Set a strand aside with its messages until resume", true,
		func(ctx context.Context, client *admin.Client, s admin.Strand) (admin.Explanation, error) {
			return client.Park(ctx, s)
		})
}

func newResumeCommand() *cobra.Command {
	return strandCommand("resume", "Let a parked strand go on, its attempts counted from 1 again", false,
		func(ctx context.Context, client *admin.Client, s admin.Strand) (admin.Explanation, error) {
			return client.Resume(ctx, s)
		})
}

// strandCommand makes a command that asks for one strand and shows how it stands.
func strandCommand(use, short string, reason bool, call func(context.Context, *admin.Client, admin.Strand) (admin.Explanation, error)) *cobra.Command {
	var strand admin.Strand
	cmd := &cobra.Command{
		Use: use, Short: short, Args: exactly(),
		Example: "  keystrand " + use + " --group billing --topic orders --key order-1001",
	}
	cmd.Flags().StringVar(&strand.ConsumerGroup, "group", "", "consumer group")
	cmd.Flags().StringVar(&strand.Topic, "topic", "", "topic")
	cmd.Flags().StringVar(&strand.MessageGroup, "key", "", "message group, the ordering key")
	if reason {
		cmd.Flags().StringVar(&strand.Reason, "reason", "parked by an operator", "why; explain shows it")
	}
	cmd.RunE = withServer(func(cmd *cobra.Command, client *admin.Client, _ []string) error {
		if err := needed(cmd, "group", "topic", "key"); err != nil {
			return err
		}
		explanation, err := call(cmd.Context(), client, strand)
		if err != nil {
			return err
		}
		return showExplanation(printerOf(cmd), explanation)
	})
	return cmd
}

func showExplanation(p printer, e admin.Explanation) error {
	if p.json {
		return p.line(e)
	}
	head, attempts, left := "", "", ""
	if e.MessageID != "" {
		head = fmt.Sprintf("message %s, queue %d offset %d", e.MessageID, e.Queue, e.Offset)
		attempts = strconv.Itoa(e.DeliveryAttempt) + " of " + attemptsWord(e.MaxAttempts)
	}
	if e.LeftMs > 0 {
		left = ms(e.LeftMs)
	}
	behind := strconv.FormatInt(e.Behind, 10)
	if e.Behind >= 10_000 {
		behind = "10000 or more"
	}
	return p.fields(
		[2]string{"strand", e.MessageGroup + " (topic " + e.Topic + ", consumer group " + e.ConsumerGroup + ")"},
		[2]string{"status", e.Status}, [2]string{"why", e.Why}, [2]string{"head", head}, [2]string{"attempts", attempts},
		[2]string{"owner", e.Owner}, [2]string{"time left", left}, [2]string{"behind", behind}, [2]string{"last error", e.LastError},
	)
}
