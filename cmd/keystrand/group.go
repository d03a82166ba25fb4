package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
)

func newGroupCommand() *cobra.Command {
	return family("group", "Make and look at consumer groups",
		newGroupCreateCommand(), newGroupListCommand(), newGroupDescribeCommand(), newGroupLagCommand())
}

func newGroupCreateCommand() *cobra.Command {
	var spec keystrand.GroupSpec
	var backOff string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a consumer group; one that exists with the same settings is no error", Args: exactly("NAME"),
		Example: "  keystrand group create billing --ordered --max-attempts 16 --at-limit park",
	}
	flags := cmd.Flags()
	flags.BoolVar(&spec.Ordered, "ordered", false, "deliver each message group in order, one message at a time")
	flags.IntVar(&spec.MaxAttempts, "max-attempts", 0, "deliveries of a message before the at-limit policy, -1 for no limit (default 16)")
	flags.StringVar((*string)(&spec.AtLimit), "at-limit", "", "after the last attempt: park, dead-letter or block (default park)")
	flags.StringVar(&spec.From, "from", "", "where the group starts on a topic: earliest or latest (default earliest)")
	flags.StringVar(&spec.OrderLevel, "order-level", "", "what a failing message blocks: its group, or its whole queue (default group)")
	flags.StringVar(&spec.PushBatch, "push-batch", "", "messages in one answer to a FIFO push client: one or many (default one)")
	flags.IntVar(&spec.PushWindow, "push-window", 0, "unacked messages per push client and assignment entry, 1 to 512 (default 64)")
	flags.DurationVar(&spec.MaxProcessing, "max-processing", 0, "how long an auto-renewed lease may last, 1s to 12h (default 15m)")
	flags.StringVar(&backOff, "back-off", "", "MIN,MAX: waits after a reported failure, doubling from MIN to MAX (default 1s,60s)")
	cmd.RunE = withServer(func(cmd *cobra.Command, client *admin.Client, args []string) (err error) {
		spec.Name = args[0]
		if backOff != "" {
			if spec.BackOffMin, spec.BackOffMax, err = parseBackOff(backOff); err != nil {
				return err
			}
		}
		group, err := client.CreateGroup(cmd.Context(), admin.GroupSpecOf(spec))
		if err != nil {
			return err
		}
		return showGroup(printerOf(cmd), group)
	})
	return cmd
}

func parseBackOff(text string) (least, most time.Duration, err error) {
	low, high, ok := strings.Cut(text, ",")
	if !ok {
		return 0, 0, usagef("--back-off %q: write MIN,MAX, such as 1s,60s", text)
	}
	if least, err = time.ParseDuration(strings.TrimSpace(low)); err != nil {
		return 0, 0, usagef("--back-off %q: MIN: %w", text, err)
	}
	if most, err = time.ParseDuration(strings.TrimSpace(high)); err != nil {
		return 0, 0, usagef("--back-off %q: MAX: %w", text, err)
	}
	if least <= 0 || most < least {
		return 0, 0, usagef("--back-off %q: MIN must be above 0 and not above MAX", text)
	}
	return least, most, nil
}

func newGroupListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the consumer groups", Args: exactly(),
		RunE: withServer(func(cmd *cobra.Command, client *admin.Client, _ []string) error {
			groups, err := client.Groups(cmd.Context())
			if err != nil {
				return err
			}
			header := []string{"GROUP", "ORDER", "MAX ATTEMPTS", "AT LIMIT", "TOPICS", "UNFINISHED", "PARKED"}
			return show(printerOf(cmd), groups, header, groupRow)
		}),
	}
}

func groupRow(g admin.Group) []string {
	var names []string
	var unfinished, parked int64
	for _, t := range g.Topics {
		names = append(names, t.Topic)
		unfinished += t.Unfinished
		parked += t.Parked
	}
	return []string{g.Name, orderWord(g), attemptsWord(g.MaxAttempts), g.AtLimit, strings.Join(names, ","), strconv.FormatInt(unfinished, 10), strconv.FormatInt(parked, 10)}
}

func newGroupDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show a consumer group's settings and standing", Args: exactly("NAME"),
		RunE: withServer(func(cmd *cobra.Command, client *admin.Client, args []string) error {
			group, err := client.Group(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showGroup(printerOf(cmd), group)
		}),
	}
}

func newGroupLagCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lag NAME", Short: "Show how far a consumer group is on each of its topics", Args: exactly("NAME"),
		RunE: withServer(func(cmd *cobra.Command, client *admin.Client, args []string) error {
			standings, err := client.Lag(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showStandings(printerOf(cmd), standings)
		}),
	}
}

func showGroup(p printer, g admin.Group) error {
	if p.json {
		return p.line(g)
	}
	err := p.fields(
		[2]string{"consumer group", g.Name}, [2]string{"order", orderWord(g)},
		[2]string{"max attempts", attemptsWord(g.MaxAttempts)}, [2]string{"at limit", g.AtLimit}, [2]string{"starts from", g.From},
		[2]string{"back-off", ms(g.BackOffMinMs) + " to " + ms(g.BackOffMaxMs)}, [2]string{"max processing", ms(g.MaxProcessingMs)},
		[2]string{"push batch", g.PushBatch}, [2]string{"push window", strconv.Itoa(g.PushWindow)},
	)
	if err != nil || len(g.Topics) == 0 {
		return err
	}
	if _, err := p.out.Write([]byte{'\n'}); err != nil {
		return err
	}
	return showStandings(p, g.Topics)
}

func showStandings(p printer, standings []admin.GroupTopic) error {
	header := []string{"TOPIC", "FILTER", "MESSAGES", "UNFINISHED", "READY", "LEASED", "BACKING OFF", "PARKED", "DEAD-LETTERED", "WAITING"}
	return show(p, standings, header, func(t admin.GroupTopic) []string {
		row := []string{t.Topic, t.Expression}
		for _, n := range []int64{t.Messages, t.Unfinished, t.Ready, t.Leased, t.BackingOff, t.Parked, t.DeadLettered, int64(t.WaitingReceives)} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		return row
	})
}

func orderWord(g admin.Group) string {
	if !g.Ordered {
		return "none"
	}
	if g.OrderLevel == "queue" {
		return "per queue"
	}
	return "per message group"
}

func attemptsWord(n int) string {
	if n < 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
