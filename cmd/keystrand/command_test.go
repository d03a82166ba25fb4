package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/spf13/cobra"
)

func TestWrongUsageIsExitCode2AndNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"topc", "topic"}, {"topic creat x", "create"}, {"topic create", "NAME"}, {"topic create a b", "NAME"}, {"topic list x", "argument"},
		{"topic create a --queues many", "queues"}, {"group create g --back-off 5s", "MIN,MAX"}, {"group create g --back-off 5s,1s", "MIN"},
		{"explain --group g", "missing: --topic, --key; see keystrand explain --help"}, {"send --topic t", "body"}, {"send --body x", "--topic"}, {"send --topic t --body x --body-file y", "both"},
		{"send --topic t --body x --property a", "NAME=VALUE"}, {"receive --group g --topic t --max 0", "--max"}, {"receive --topic t", "--group"},
		{"serve --http-addr 0.0.0.0:1", "loopback"}, {"serve --grpc-addr :1", "loopback"}, {"serve --grpc-addr nonsense", `--grpc-addr: "nonsense" is not HOST:PORT`},
		{"serve --grpc-addr 0.0.0.0:1 --http-addr 127.0.0.1:99999", "--http-addr: port"}, {"serve --sync sometimes", "interval"}, {"serve --sync interval=0s", "above 0"},
		{"serve --topic a:b", "fifo or normal"}, {"serve --topic a:fifo:0", "queues"}, {"serve --topic :fifo", "NAME"}, {"serve --group billing:fast", "NAME:ordered"}, {"serve --group :ordered", "NAME"}, {"serve --sync interval=1h", "at most 10s"}, {"serve --log-level loud", "log-level"},
		{"serve extra", "argument"}, {"serve --config /nonexistent/x", "config"}, {"topic list --server nowhere", "URL"}, {"serve --break inbox", "break"},
	} {
		got := command(t, strings.Fields(c.line)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || got.stdout != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want code 2 and %q", c.line, got.code, got.stdout, got.stderr, c.want)
		}
	}
}

func TestEveryCommandAndFlagHasHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no short help", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRootCommand())
	if got := command(t, "help", "exit-codes"); got.code != exitDone || !strings.Contains(got.stdout, "superseded") {
		t.Errorf("help exit-codes: %d %s", got.code, got.stdout)
	}
	if got := command(t, "completion", "bash"); got.code != exitDone || !strings.Contains(got.stdout, "keystrand") {
		t.Errorf("completion: %d", got.code)
	}
	if got := command(t, "version", "--json"); got.code != exitDone || len(lines(t, got.stdout)) != 1 {
		t.Errorf("version: %d %s", got.code, got.stdout)
	}
}

func TestTheExitCodeTellsTheErrorsClass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, exitDone}, {errors.New("x"), exitFailed}, {&usageError{keystrand.ErrCorrupt}, exitUsage}, {&statusError{code: 1}, 1},
		{keystrand.ErrTopicNotFound, exitRejected}, {keystrand.ErrClosed, exitRetryLater}, {keystrand.ErrUnknown, exitUnknown},
		{keystrand.ErrLeaseExpired, exitSuperseded}, {fmt.Errorf("a: %w", keystrand.ErrCorrupt), exitCorrupt},
	} {
		if got := exitStatus(c.err, io.Discard); got != c.code {
			t.Errorf("%v: got %d, want %d", c.err, got, c.code)
		}
	}
	if got := command(t, "topic", "list", "--server", "http://127.0.0.1:1"); got.code != exitRetryLater || !strings.Contains(got.stderr, "keystrand serve") {
		t.Errorf("no broker: %d %s", got.code, got.stderr)
	}
}

func TestAFlagBeatsTheEnvironmentThatBeatsTheFileThatBeatsTheDefault(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.json")
	config := `{"data": "from-file", "grpc-addr": "127.0.0.1:1", "sync": "interval=50ms", "topic": ["a:fifo:1", "b:normal"], "auto-create": true, "restart-hold": "1s"}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newServeCommand()
	if err := cmd.ParseFlags([]string{"--config", file, "--data", "from-flag"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"KEYSTRAND_DATA": "from-environment", "KEYSTRAND_GRPC_ADDR": "127.0.0.1:2"}
	settings, err := resolveSettings(cmd.Flags(), func(name string) (string, bool) { value, ok := environment[name]; return value, ok })
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]setting{}
	for _, s := range settings {
		got[s.Name] = s
	}
	for name, want := range map[string]setting{
		"data": {"data", "from-flag", "flag"}, "grpc-addr": {"grpc-addr", "127.0.0.1:2", "environment KEYSTRAND_GRPC_ADDR"},
		"sync": {"sync", "interval=50ms", "file " + file}, "http-addr": {"http-addr", "127.0.0.1:8088", "default"},
		"topic": {"topic", "[a:fifo:1,b:normal]", "file " + file}, "restart-hold": {"restart-hold", "1s", "file " + file},
	} {
		if got[name] != want {
			t.Errorf("%s: got %+v, want %+v", name, got[name], want)
		}
	}
	options, err := brokerOptions(cmd)
	if err != nil || options.DataDir != "from-flag" || options.SyncInterval != 50*time.Millisecond || len(options.Topics) != 2 || !options.AutoCreate {
		t.Errorf("options %+v, %v", options, err)
	}
}

func TestAConfigFileWithAnUnknownSettingIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown": `{"dta": "x"}`, "no object": `[]`, "nested": `{"data": {"a": 1}}`, "bad value": `{"restart-hold": "soon"}`, "no setting": `{"print-config": true}`, "itself": `{"config": "x"}`,
	} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := command(t, "serve", "--print-config", "--config", file); got.code != exitUsage {
			t.Errorf("%s: code %d, %s", name, got.code, got.stderr)
		}
	}
	if got := command(t, "serve", "--print-config", "--json"); got.code != exitDone || len(lines(t, got.stdout)) < 8 {
		t.Errorf("print-config: %d %s", got.code, got.stdout)
	}
}

// SEC-85: text from messages and peers cannot steer the terminal or forge a line.
func TestSEC85ControlCharactersAreEscapedForPeople(t *testing.T) {
	t.Parallel()
	if got := plain("a\x1b[2J\nb\r\u202eä"); got != `a\u001b[2J\u000ab\u000d\u202eä` {
		t.Errorf("got %q", got)
	}
}

func TestSyncTopicAndGroupWordsAreRead(t *testing.T) {
	t.Parallel()
	if got, err := parseSync("interval=20ms"); err != nil || got != 20*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	for text, want := range map[string]keystrand.TopicSpec{
		"orders": {Name: "orders", Type: keystrand.TopicFIFO}, "ticks:normal": {Name: "ticks", Type: keystrand.TopicNormal},
		"orders:fifo:8": {Name: "orders", Type: keystrand.TopicFIFO, Queues: 8},
	} {
		if got, err := parseTopic(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for text, ordered := range map[string]bool{"billing": true, "billing:ordered": true, "billing:unordered": false} {
		if got, err := parseGroup(text); err != nil || got != (keystrand.GroupSpec{Name: "billing", Ordered: ordered}) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}
