package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keystrand/keystrand/internal/task"
)

// result is what one command gave.
type result struct {
	code           int
	stdout, stderr string
}

// command runs one command line as main does.
func command(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// serving runs `keystrand serve` in this process until the test ends and returns its ready line.
func serving(t *testing.T, args ...string) ready {
	t.Helper()
	out, in := io.Pipe()
	var log bytes.Buffer
	group := task.NewGroup(t.Context())
	group.Go("serve", func(ctx context.Context) error {
		args := append([]string{"serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, args...)
		code := run(ctx, args, strings.NewReader(""), in, &log)
		err := in.Close()
		if code != exitDone {
			err = errors.Join(err, errors.New("serve ended with a failure"))
		}
		return err
	})
	t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			t.Errorf("%v\n%s", err, &log)
		}
	})
	scanner := bufio.NewScanner(out)
	if !scanner.Scan() {
		t.Fatalf("serve ended without a ready line:\n%s", &log)
	}
	var line ready
	if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
		t.Fatalf("ready line %q: %v", scanner.Text(), err)
	}
	group.Go("rest of stdout", func(context.Context) error {
		if scanner.Scan() {
			return errors.New("serve printed a second line: " + scanner.Text())
		}
		return nil
	})
	return line
}

// lines decodes JSON lines.
func lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

// A broker is started, a topic and a group are made, five versions are sent and received in order, the strand is explained,
// parked and resumed: each by its command, as a person would.
func TestEveryCommandWorksAgainstARunningBroker(t *testing.T) {
	t.Parallel()
	line := serving(t, "--data", t.TempDir(), "--topic", "orders:fifo:8", "--group", "shipping")
	to := func(args ...string) result {
		t.Helper()
		got := command(t, append(args, "--json", "--server", "http://"+line.HTTPAddr)...)
		if got.code != exitDone {
			t.Fatalf("%v: code %d: %s", args, got.code, got.stderr)
		}
		return got
	}
	strand := []string{"--group", "billing", "--topic", "orders", "--key", "order-1001"}
	verb := func(name string) string {
		t.Helper()
		status, _ := lines(t, to(append([]string{name}, strand...)...).stdout)[0]["status"].(string)
		return status
	}
	to("topic", "create", "ticks", "--type", "normal", "--queues", "2")
	if topics := lines(t, to("topic", "list").stdout); len(topics) != 2 {
		t.Errorf("topics: %v", topics)
	}
	if groups := lines(t, to("group", "list").stdout); len(groups) != 1 || groups[0]["name"] != "shipping" || groups[0]["ordered"] != true {
		t.Errorf("groups at the start: %v", groups)
	}
	to("group", "create", "billing", "--ordered", "--max-attempts", "3", "--at-limit", "park", "--from", "earliest", "--order-level", "group",
		"--push-batch", "one", "--push-window", "8", "--max-processing", "20s", "--back-off", "1s,5s")
	if group := lines(t, to("group", "describe", "billing").stdout)[0]; group["max_attempts"] != 3.0 || group["back_off_max_ms"] != 5000.0 || group["max_processing_ms"] != 20000.0 {
		t.Errorf("group: %v", group)
	}
	for _, body := range []string{"v1", "v2", "v3", "v4", "v5"} {
		to("send", "--topic", "orders", "--group-key", "order-1001", "--tag", "Paid", "--property", "a=b", "--body", body)
	}
	got := to("receive", "--group", "billing", "--topic", "orders", "--max", "3", "--ack", "--timeout", "20s").stdout
	var bodies []string
	for _, message := range lines(t, got) {
		body, _ := message["body"].(string)
		bodies = append(bodies, body)
		if _, told := message["receipt_handle"]; told {
			t.Error("a receipt handle is printed")
		}
	}
	if strings.Join(bodies, " ") != "v1 v2 v3" {
		t.Errorf("received %v", bodies)
	}
	if status := verb("park"); status != "parked" {
		t.Errorf("after park: %s", status)
	}
	if rest := to("receive", "--group", "billing", "--topic", "orders", "--max", "2", "--timeout", "300ms"); rest.stdout != "" || !strings.Contains(rest.stderr, "nothing came in 300ms") {
		t.Errorf("a parked strand gave %+v", rest)
	}
	if status := verb("resume"); status == "parked" {
		t.Errorf("after resume: %s", status)
	}
	if leased := lines(t, to("receive", "--group", "billing", "--topic", "orders", "--max", "2", "--timeout", "1s").stdout); len(leased) != 1 || leased[0]["body"] != "v4" {
		t.Errorf("without --ack the strand gave %v, want v4 alone", leased)
	}
	if status := verb("explain"); status != "leased" {
		t.Errorf("after a receive without ack: %s", status)
	}
	if lag := lines(t, to("group", "lag", "billing").stdout); len(lag) != 1 || lag[0]["unfinished"] != 2.0 {
		t.Errorf("lag: %v", lag)
	}
}

func TestABodyThatIsNoTextIsPrintedAsBase64(t *testing.T) {
	t.Parallel()
	line := serving(t, "--data", t.TempDir(), "--topic", "orders:fifo:1", "--auto-create")
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte{0xff, 0x00}, 0o600); err != nil {
		t.Fatal(err)
	}
	server := "http://" + line.HTTPAddr
	if got := command(t, "send", "--server", server, "--topic", "orders", "--group-key", "k", "--body-file", file); got.code != exitDone {
		t.Fatalf("send: %s", got.stderr)
	}
	got := command(t, "receive", "--server", server, "--group", "g", "--topic", "orders", "--ack", "--json")
	if got.code != exitDone || !strings.Contains(got.stdout, `"body_base64":"/wA="`) {
		t.Errorf("code %d, %s%s", got.code, got.stdout, got.stderr)
	}
}

func TestABrokerThatStoppedCleanlyGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var first ready
	t.Run("first life", func(t *testing.T) {
		first = serving(t, "--data", data, "--topic", "orders:fifo:2")
		if got := command(t, "send", "--server", "http://"+first.HTTPAddr, "--topic", "orders", "--group-key", "k", "--body", "kept"); got.code != exitDone {
			t.Fatalf("send: %s", got.stderr)
		}
		if got := command(t, "serve", "--data", data, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"); got.code == exitDone {
			t.Error("a second broker opened the same data")
		}
	})
	second := serving(t, "--data", data, "--auto-create")
	if second.BrokerID != first.BrokerID {
		t.Errorf("broker id %s became %s", first.BrokerID, second.BrokerID)
	}
	got := command(t, "receive", "--server", "http://"+second.HTTPAddr, "--group", "g", "--topic", "orders", "--ack")
	if got.code != exitDone || !strings.Contains(got.stdout, "kept") {
		t.Errorf("code %d, %s%s", got.code, got.stdout, got.stderr)
	}
}

// SEC-36: what the broker writes is for its owner alone.
func TestSEC36DataFilesAreForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	line := serving(t, "--data", data, "--topic", "orders:fifo:2")
	if got := command(t, "send", "--server", "http://"+line.HTTPAddr, "--topic", "orders", "--group-key", "k", "--body", "x"); got.code != exitDone {
		t.Fatalf("send: %s", got.stderr)
	}
	count := 0
	err := filepath.WalkDir(data, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", entry.Name(), info.Mode())
		}
		count++
		return err
	})
	if err != nil || count < 2 {
		t.Errorf("%d files, %v", count, err)
	}
}
