package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaultGRPCAddr is RocketMQ's own port, on loopback.
const defaultGRPCAddr = "127.0.0.1:8081"

func newServeCommand() *cobra.Command {
	var printConfig bool
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a broker until a signal ends it", Args: exactly(),
		Long: `Runs a broker on one data directory. When it takes messages it prints one line of JSON on standard output, with its
addresses; logs go to standard error. SIGTERM or SIGINT drains: nothing new is taken, what is being answered gets its
answer, and the data is closed cleanly; a second signal ends the process at once.

Each flag can also come from the environment (--grpc-addr: KEYSTRAND_GRPC_ADDR) or from the JSON file of --config
({"grpc-addr": "127.0.0.1:0"}). A flag beats the environment, that beats the file, that beats the default.`,
		Example: "  keystrand serve --data ./orders-data --topic orders:fifo:8 --group billing",
	}
	flags := cmd.Flags()
	flags.String("data", "./keystrand-data", "data directory; made if missing")
	flags.String("grpc-addr", defaultGRPCAddr, "loopback address for RocketMQ 5 clients; port 0 takes a free one")
	flags.String("http-addr", admin.DefaultAddr, "loopback address for tools, health and metrics; port 0 takes a free one")
	flags.StringArray("topic", nil, "NAME[:TYPE[:QUEUES]], made at start, such as orders:fifo:8; repeatable")
	flags.StringArray("group", nil, "NAME[:ordered|unordered], a consumer group made at start with the default settings; repeatable (default ordered)")
	flags.String("sync", "always", "always: answered when on disk; interval=D: a power loss may take the last D, at most 10s")
	flags.Duration("restart-hold", 5*time.Second, "after an unclean stop, how long a strand without a recorded lease waits")
	flags.Bool("auto-create", false, "let a consumer group come into being at its first receive")
	flags.String("log-level", "info", "debug, info, warn or error")
	flags.String("config", "", "JSON file with values for these flags")
	flags.BoolVar(&printConfig, "print-config", false, "print each setting, its value and where it comes from, and end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := resolveSettings(cmd.Flags(), os.LookupEnv)
		if err != nil {
			return err
		}
		if printConfig {
			return showSettings(printerOf(cmd), settings)
		}
		options, err := brokerOptions(cmd)
		if err != nil {
			return err
		}
		return serve(cmd, options)
	}
	return cmd
}

// brokerOptions reads the flags, all faults at once.
func brokerOptions(cmd *cobra.Command) (broker.Options, error) {
	flags := cmd.Flags()
	o := broker.Options{
		DataDir: must(flags.GetString("data")), GRPCAddr: must(flags.GetString("grpc-addr")), HTTPAddr: must(flags.GetString("http-addr")),
		RestartHold: must(flags.GetDuration("restart-hold")), AutoCreate: must(flags.GetBool("auto-create")), Version: readBuildInfo().Version,
	}
	var faults []error
	if o.RestartHold == 0 {
		o.RestartHold = -1 // the broker's 0 means its default
	}
	for _, addr := range []struct{ flag, value string }{{"grpc-addr", o.GRPCAddr}, {"http-addr", o.HTTPAddr}} {
		if err := admin.CheckLoopback(addr.value); err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", addr.flag, err))
		}
	}
	var err error
	if o.SyncInterval, err = parseSync(must(flags.GetString("sync"))); err != nil {
		faults = append(faults, err)
	}
	for _, text := range must(flags.GetStringArray("topic")) {
		topic, err := parseTopic(text)
		if err != nil {
			faults = append(faults, err)
		}
		o.Topics = append(o.Topics, topic)
	}
	for _, text := range must(flags.GetStringArray("group")) {
		group, err := parseGroup(text)
		if err != nil {
			faults = append(faults, err)
		}
		o.Groups = append(o.Groups, group)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(must(flags.GetString("log-level")))); err != nil {
		faults = append(faults, fmt.Errorf("--log-level: %w; choose debug, info, warn or error", err))
	}
	o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	if len(faults) > 0 {
		return o, &usageError{errors.Join(faults...)}
	}
	return o, nil
}

// must reads a flag that this file defined: a miss is a typing mistake in this file, found by any test that runs it.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// ready is the one line on standard output.
type ready struct {
	Status   string `json:"status"`
	GRPCAddr string `json:"grpc_addr"`
	HTTPAddr string `json:"http_addr"`
	Data     string `json:"data"`
	BrokerID string `json:"broker_id"`
	PID      int    `json:"pid"`
	Version  string `json:"version"`
}

func serve(cmd *cobra.Command, o broker.Options) error {
	b, err := broker.Open(o)
	if err != nil {
		return err
	}
	data, err := filepath.Abs(o.DataDir)
	if err != nil {
		data = o.DataDir
	}
	addresses := b.Addresses()
	line := ready{Status: "ready", GRPCAddr: addresses.GRPC, HTTPAddr: addresses.HTTP, Data: data, BrokerID: b.BrokerID(), PID: os.Getpid(), Version: o.Version}
	err = b.Run(cmd.Context(), func() {
		if err := (printer{out: cmd.OutOrStdout()}).line(line); err != nil {
			o.Logger.Warn("ready line not written", "error", err)
		}
		o.Logger.Info("broker ready", "grpc_addr", line.GRPCAddr, "http_addr", line.HTTPAddr, "broker_id", line.BrokerID, "version", line.Version)
	})
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	o.Logger.Info("broker stopped", "broker_id", line.BrokerID)
	return nil
}

// maxSyncInterval is the broker's bound, refused here as a mistake in the flag.
const maxSyncInterval = 10 * time.Second

// parseSync reads `always` or `interval=D`.
func parseSync(text string) (time.Duration, error) {
	if text == "always" {
		return 0, nil
	}
	value, ok := strings.CutPrefix(text, "interval=")
	if !ok {
		return 0, fmt.Errorf("--sync %q: write always, or interval=D such as interval=50ms", text)
	}
	interval, err := time.ParseDuration(value)
	if err != nil || interval <= 0 {
		return 0, fmt.Errorf("--sync %q: %q is not a time above 0, such as 50ms", text, value)
	}
	if interval > maxSyncInterval {
		return 0, fmt.Errorf("--sync %q: at most %v, since that much may be lost", text, maxSyncInterval)
	}
	return interval, nil
}

// parseTopic reads NAME[:TYPE[:QUEUES]].
func parseTopic(text string) (keystrand.TopicSpec, error) {
	parts := strings.Split(text, ":")
	topic := keystrand.TopicSpec{Name: parts[0], Type: keystrand.TopicFIFO}
	if parts[0] == "" || len(parts) > 3 {
		return topic, fmt.Errorf("--topic %q: write NAME:TYPE:QUEUES, such as orders:fifo:8", text)
	}
	if len(parts) > 1 {
		topic.Type = keystrand.TopicType(parts[1])
		if topic.Type != keystrand.TopicFIFO && topic.Type != keystrand.TopicNormal {
			return topic, fmt.Errorf("--topic %q: type %q is not fifo or normal", text, parts[1])
		}
	}
	if len(parts) > 2 {
		queues, err := strconv.Atoi(parts[2])
		if err != nil || queues < 1 || queues > 1024 {
			return topic, fmt.Errorf("--topic %q: %q is not a number of queues from 1 to 1024", text, parts[2])
		}
		topic.Queues = queues
	}
	return topic, nil
}

// parseGroup reads NAME[:ordered|unordered]. What else a group can be told is `keystrand group create`'s.
func parseGroup(text string) (keystrand.GroupSpec, error) {
	name, order, given := strings.Cut(text, ":")
	group := keystrand.GroupSpec{Name: name, Ordered: order != "unordered"}
	if name == "" || given && order != "ordered" && order != "unordered" {
		return group, fmt.Errorf("--group %q: write NAME, NAME:ordered or NAME:unordered, such as billing", text)
	}
	return group, nil
}

// flagsWithValue walks the settings: every flag of serve but those that are about settings, and those of help.
func flagsWithValue(flags *pflag.FlagSet, f func(*pflag.Flag)) {
	flags.VisitAll(func(flag *pflag.Flag) {
		switch flag.Name {
		case "print-config", "help", "json", "server":
		default:
			f(flag)
		}
	})
}
