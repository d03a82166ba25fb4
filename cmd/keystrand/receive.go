package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
)

// Bounds of one request of the receive loop.
const (
	receiveBatch = 32
	receiveHold  = 20 * time.Second
	answerGrace  = 10 * time.Second // an answer may come that much after its hold
)

// receiving is what `keystrand receive` was asked for.
type receiving struct {
	ask     admin.Receive
	max     int
	timeout time.Duration
	ack     bool
}

func newReceiveCommand() *cobra.Command {
	var want receiving
	var invisible time.Duration
	cmd := &cobra.Command{
		Use: "receive", Short: "Take messages of a consumer group and print them", Args: exactly(),
		Long: `Takes messages until --max have come or --timeout is over, and prints each as it comes. With --ack a message is
finished after it was printed, and its message group goes on to the next one. Without it the lease lasts --invisible;
the message group waits that long, and then the message comes again as the next attempt.`,
		Example: "  keystrand receive --group billing --topic orders --max 5 --ack",
	}
	flags := cmd.Flags()
	flags.StringVar(&want.ask.ConsumerGroup, "group", "", "consumer group")
	flags.StringVar(&want.ask.Topic, "topic", "", "topic")
	flags.StringVar(&want.ask.Filter, "filter", "", "tags to take, such as 'a || b'; a change holds for the whole group (default all)")
	flags.IntVar(&want.max, "max", 1, "stop after so many messages; any number, asked for in requests of 32 at most")
	flags.DurationVar(&want.timeout, "timeout", 10*time.Second, "stop after this time, with what has come")
	flags.BoolVar(&want.ack, "ack", false, "finish each message after it was printed")
	flags.DurationVar(&invisible, "invisible", 30*time.Second, "how long a message is this receiver's, 1s to 12h")
	cmd.RunE = withServer(func(cmd *cobra.Command, client *admin.Client, _ []string) error {
		if err := needed(cmd, "group", "topic"); err != nil {
			return err
		}
		if want.max < 1 || want.timeout <= 0 {
			return usagef("--max must be at least 1 and --timeout above 0")
		}
		want.ask.InvisibleMs = invisible.Milliseconds()
		want.ask.ClientID = fmt.Sprintf("keystrand-receive-%d", os.Getpid())
		got, err := want.loop(cmd.Context(), client, printerOf(cmd))
		if err == nil && got == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "keystrand: nothing came in %v; `keystrand group lag %s` counts what is left, `keystrand explain --group %s --topic %s --key KEY` says why a message group waits\n",
				want.timeout, want.ask.ConsumerGroup, want.ask.ConsumerGroup, want.ask.Topic)
		}
		return err
	})
	return cmd
}

// loop receives until enough came or the time is up, and counts. Nothing in time is no error: the timeout was asked for.
func (want receiving) loop(ctx context.Context, client *admin.Client, p printer) (got int, err error) {
	end := time.Now().Add(want.timeout)
	for got < want.max {
		left := time.Until(end)
		if left <= 0 {
			return got, nil
		}
		want.ask.Max = min(want.max-got, receiveBatch)
		want.ask.WaitMs = max(min(left, receiveHold).Milliseconds(), 1)
		request, cancel := context.WithTimeout(ctx, fromMs(want.ask.WaitMs)+answerGrace)
		deliveries, err := client.Receive(request, want.ask)
		cancel()
		if err != nil {
			return got, err
		}
		for _, d := range deliveries {
			got++
			if err := want.handle(ctx, client, p, d); err != nil {
				return got, err
			}
		}
	}
	return got, nil
}

// handle prints before it acks: a message that could not be shown is not finished.
func (want receiving) handle(ctx context.Context, client *admin.Client, p printer, d admin.Delivery) error {
	handle := d.ReceiptHandle
	d.ReceiptHandle = "" // proof of the lease: not for terminals and files
	if err := showDelivery(p, d); err != nil {
		return err
	}
	if !want.ack {
		return nil
	}
	ack := admin.Ack{ConsumerGroup: want.ask.ConsumerGroup, Topic: want.ask.Topic, ReceiptHandles: []string{handle}}
	if err := client.Ack(ctx, ack); err != nil {
		return fmt.Errorf("message %s: ack: %w", d.MessageID, err)
	}
	return nil
}

func showDelivery(p printer, d admin.Delivery) error {
	if p.json {
		return p.line(d)
	}
	body := "(no text, " + strconv.Itoa(len(d.Body.Bytes)) + " bytes; --json shows them as base64)"
	if d.Text != nil {
		body = *d.Text
	}
	group := ""
	if d.MessageGroup != "" {
		group = " " + d.MessageGroup
	}
	_, err := fmt.Fprintf(p.out, "%s\n", plain(fmt.Sprintf("queue %d offset %d attempt %d%s: %s", d.Queue, d.Offset, d.DeliveryAttempt, group, body)))
	return err
}

func fromMs(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
