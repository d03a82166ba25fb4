package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
)

// maxBodyBytes bounds a body, as keystrand.Message says.
const maxBodyBytes = 4 << 20

func newSendCommand() *cobra.Command {
	var ask admin.NewMessage
	var body, file string
	var properties []string
	cmd := &cobra.Command{
		Use: "send", Short: "Store one message, durably", Args: exactly(),
		Example: "  keystrand send --topic orders --group-key order-1001 --body '{\"status\":\"PAID\"}'",
	}
	flags := cmd.Flags()
	flags.StringVar(&ask.Topic, "topic", "", "topic to send to")
	flags.StringVar(&ask.MessageGroup, "group-key", "", "message group, the ordering key; needed on fifo topics")
	flags.StringVar(&body, "body", "", "the message's body as text")
	flags.StringVar(&file, "body-file", "", "read the body from a file instead, - for standard input")
	flags.StringVar(&ask.Tag, "tag", "", "one-word label that subscriptions filter by")
	flags.StringArrayVar(&ask.Keys, "key", nil, "look-up key, repeatable")
	flags.StringArrayVar(&properties, "property", nil, "NAME=VALUE, repeatable")
	flags.StringVar(&ask.MessageID, "id", "", "message id; give the same one to repeat a send of unknown outcome (default a new one)")
	cmd.RunE = withServer(func(cmd *cobra.Command, client *admin.Client, _ []string) (err error) {
		if err := needed(cmd, "topic"); err != nil {
			return err
		}
		if ask.Properties, err = parseProperties(properties); err != nil {
			return err
		}
		content, err := readBody(cmd, body, file)
		if err != nil {
			return err
		}
		ask.Body = admin.BodyOf(content)
		if ask.MessageID == "" {
			ask.MessageID = uuid.NewString() // made here, so that an unknown outcome can be repeated under its name
		}
		receipt, err := client.Send(cmd.Context(), ask)
		if errors.Is(err, keystrand.ErrUnknown) {
			return fmt.Errorf("%w: here, --id %s", err, ask.MessageID)
		}
		if err != nil {
			return err
		}
		return showReceipt(printerOf(cmd), receipt)
	})
	return cmd
}

func showReceipt(p printer, r admin.Receipt) error {
	if p.json {
		return p.line(r)
	}
	return p.fields([2]string{"message id", r.MessageID}, [2]string{"topic", r.Topic},
		[2]string{"queue", fmt.Sprint(r.Queue)}, [2]string{"offset", fmt.Sprint(r.Offset)})
}

func parseProperties(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	properties := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--property %q: write NAME=VALUE", pair)
		}
		if _, twice := properties[name]; twice {
			return nil, usagef("--property %q: %s is given twice", pair, name)
		}
		properties[name] = value
	}
	return properties, nil
}

// readBody takes --body or --body-file; one of them is needed, since an empty body is no message.
func readBody(cmd *cobra.Command, text, file string) ([]byte, error) {
	switch {
	case text != "" && file != "":
		return nil, usagef("both --body and --body-file are given; give one of them")
	case text != "":
		return []byte(text), nil
	case file == "":
		return nil, usagef("the body is missing: give --body TEXT or --body-file FILE")
	}
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("body file: %w", err)
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, maxBodyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("body file %s: %w", file, err)
	}
	if len(content) > maxBodyBytes {
		return nil, fmt.Errorf("body file %s: %w: over %d bytes; send a reference to it instead", file, keystrand.ErrTooLarge, maxBodyBytes)
	}
	return content, nil
}
