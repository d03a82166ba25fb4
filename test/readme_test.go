package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README's first commands work as they stand there, in their order.
func TestTheReadmesFirstCommandsWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```sh\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("no block of shell commands")
	}
	var broker *brokerProcess
	waits, ran, outputs := false, 0, map[string]string{}
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "until" {
			waits = true
			continue
		}
		if len(words) < 2 || words[0] != "./keystrand" {
			continue
		}
		if words[1] == "serve" {
			broker = startBroker(t, append([]string{"--data", t.TempDir()}, strings.Fields(strings.TrimSuffix(strings.Join(words[2:], " "), "&"))...)...)
			continue
		}
		if broker == nil || !waits {
			t.Fatalf("%q stands before serve, or before the wait until it is ready", line)
		}
		out := broker.keystrand(t, words[1:]...)
		ran++
		outputs[words[1]] += out
	}
	if got := outputs["receive"]; strings.Count(got, "\n") != 3 || strings.Count(got, ": created") != 2 || !strings.HasSuffix(got, "order-1001: paid\n") {
		t.Errorf("receive gave:\n%s", got)
	}
	if got := outputs["explain"]; !strings.Contains(got, "parked") {
		t.Errorf("explain gave:\n%s", got)
	}
	if ran < 8 {
		t.Errorf("only %d commands were run", ran)
	}
}
