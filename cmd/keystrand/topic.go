package main

import (
	"strconv"
	"strings"

	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
)

func newTopicCommand() *cobra.Command {
	return family("topic", "Make and look at topics", newTopicCreateCommand(), newTopicListCommand(), newTopicDescribeCommand())
}

func newTopicCreateCommand() *cobra.Command {
	var ask admin.NewTopic
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a topic; one that exists with the same settings is no error", Args: exactly("NAME"),
		Example: "  keystrand topic create orders --type fifo --queues 8",
	}
	cmd.Flags().StringVar(&ask.Type, "type", "fifo", "fifo: every message has a message group; normal: none has")
	cmd.Flags().IntVar(&ask.Queues, "queues", 8, "number of queues, 1 to 1024")
	cmd.RunE = withServer(func(cmd *cobra.Command, client *admin.Client, args []string) error {
		ask.Name = args[0]
		topic, err := client.CreateTopic(cmd.Context(), ask)
		if err != nil {
			return err
		}
		return showTopic(printerOf(cmd), topic)
	})
	return cmd
}

func newTopicListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the topics", Args: exactly(),
		RunE: withServer(func(cmd *cobra.Command, client *admin.Client, _ []string) error {
			topics, err := client.Topics(cmd.Context())
			if err != nil {
				return err
			}
			return show(printerOf(cmd), topics, []string{"TOPIC", "TYPE", "QUEUES", "MESSAGES"}, func(t admin.Topic) []string {
				return []string{t.Name, t.Type, strconv.Itoa(t.Queues), strconv.FormatInt(t.Messages, 10)}
			})
		}),
	}
}

func newTopicDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show a topic and its queues", Args: exactly("NAME"),
		RunE: withServer(func(cmd *cobra.Command, client *admin.Client, args []string) error {
			topic, err := client.Topic(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showTopic(printerOf(cmd), topic)
		}),
	}
}

func showTopic(p printer, t admin.Topic) error {
	if p.json {
		return p.line(t)
	}
	offsets := make([]string, 0, len(t.Offsets))
	for _, offset := range t.Offsets {
		offsets = append(offsets, strconv.FormatInt(offset, 10))
	}
	return p.fields(
		[2]string{"topic", t.Name}, [2]string{"type", t.Type}, [2]string{"queues", strconv.Itoa(t.Queues)},
		[2]string{"messages", strconv.FormatInt(t.Messages, 10)}, [2]string{"next offsets", strings.Join(offsets, " ")},
	)
}
