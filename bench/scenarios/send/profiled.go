package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
)

// serveProfiled runs a broker as `keystrand serve` does and writes a processor profile of it to dir. The keystrand program has
// no profiling, so this one stands in for it.
func serveProfiled(ctx context.Context, dir string) (err error) {
	b, err := broker.Open(broker.Options{
		DataDir: filepath.Join(dir, "data"), GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Topics: []keystrand.TopicSpec{{Name: sdkTopic, Type: keystrand.TopicFIFO, Queues: 8}},
	})
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "serve.prof"))
	if err != nil {
		return errors.Join(err, b.Close())
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close(), b.Close())
	}
	err = b.Run(ctx, func() {
		line := map[string]any{"status": "ready", "grpc_addr": b.Addresses().GRPC, "pid": os.Getpid()}
		_ = json.NewEncoder(os.Stdout).Encode(line) // a reader that is gone stops this process anyway
	})
	pprof.StopCPUProfile()
	return errors.Join(err, b.Close(), file.Close())
}
