package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/keystrand/keystrand/internal/history"
)

// TestMain lets this test binary be the demo's children.
func TestMain(m *testing.M) {
	if os.Getenv(childEnvironment) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := RunChild(ctx, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(t *testing.T, o Options) *Result {
	t.Helper()
	var progress bytes.Buffer
	o.Stderr = &progress
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Cleanup(func() {
		if t.Failed() {
			var page bytes.Buffer
			_ = result.WriteText(&page)
			t.Logf("seed %d\n%s\n%s", result.Seed, progress.String(), page.String())
		}
	})
	return result
}

// The whole demo on few orders: every fault strikes, the judge passes, and what is kept says the same.
func TestASmallDemoWithAllFaultsPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for leases to end: about 15 s")
	}
	t.Parallel()
	keep := filepath.Join(t.TempDir(), "kept")
	merged := filepath.Join(t.TempDir(), "merged.jsonl")
	r := play(t, Options{Orders: 60, Seed: 3, Keep: keep, History: merged})
	if r.Verdict != history.Pass || len(r.Problems) > 0 {
		t.Errorf("verdict %s, violations %v, problems %v", r.Verdict, r.Violations, r.Problems)
	}
	for _, f := range faultList {
		if r.Faults[f.name] < 1 {
			t.Errorf("%s never struck", f.name)
		}
	}
	if got, want := r.Applied+r.Parked+r.DeadLetters+r.Lost, r.Events; got != want {
		t.Errorf("applied, parked, dead-lettered and lost are %d events of %d", got, want)
	}
	if r.Parked != len(steps)-poisonVersion+1 || r.GapsOpened != r.GapsHealed || r.GapsOpened < 1 || r.Fenced < 1 || r.Kills != 2 {
		t.Errorf("parked %d, gaps %d/%d, fenced %d, kills %d", r.Parked, r.GapsOpened, r.GapsHealed, r.Fenced, r.Kills)
	}
	again, err := history.Check([]string{merged}, history.Options{})
	if err != nil || again.Verdict != r.Verdict {
		t.Errorf("the merged history is judged %v (%v), the run was %s", again, err, r.Verdict)
	}
	db, err := openDatabase(filepath.Join(keep, "demo.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n, err := count(t.Context(), db, appliedQuery); err != nil || n != r.Applied {
		t.Errorf("the kept database has %d applied events (%v), the result says %d", n, err, r.Applied)
	}
}

func TestWithoutFaultsNoneIsCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes: some seconds")
	}
	t.Parallel()
	r := play(t, Options{Orders: 40, NoFaults: true})
	if r.Verdict != history.Pass || r.Applied != r.Events || r.Kills+r.Fenced+r.Parked+r.GapsOpened+r.DeliveredDuplicates != 0 {
		t.Errorf("%+v", r)
	}
	for name, n := range r.Faults {
		if n != 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
	var line bytes.Buffer
	if err := r.WriteJSON(&line); err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(line.Bytes(), &fields); err != nil || strings.Count(line.String(), "\n") != 1 {
		t.Fatalf("not one JSON line: %v %q", err, line.String())
	}
	for _, name := range strings.Fields("orders events applied delivered_duplicates gaps_opened gaps_healed parked dead_letters kills fenced inversions lost duplicate_effects verdict violations faults") {
		if _, ok := fields[name]; !ok {
			t.Errorf("the JSON lacks %s", name)
		}
	}
}

func TestOptionsOutOfBoundsAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	err := Options{Orders: 5, Workers: 300, Queues: -1, Handler: -1, Break: "glass"}.Validate()
	for _, name := range []string{"--orders", "--workers", "--queues", "--handler", "glass"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero options: %v", err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Keep: full, NoFaults: true}); err == nil {
		t.Error("a directory with something in it was taken")
	}
}

func TestAChildIsNotStartedByHand(t *testing.T) {
	t.Parallel()
	if err := RunChild(t.Context(), strings.NewReader("{}"), &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
		t.Error("it ran")
	}
}

func TestASeedDecidesCastAndScript(t *testing.T) {
	t.Parallel()
	o := Options{Seed: 9}.complete()
	a, b := castOf(o), castOf(o)
	if a.poison != b.poison || strings.Join(a.script(9), " ") != strings.Join(b.script(9), " ") {
		t.Error("one seed gave two casts")
	}
	special := map[string]bool{a.poison: true, a.stopped: true, a.killed: true}
	for _, order := range a.early {
		special[order] = true
	}
	if len(special) != 3+earlyOrders || len(special)+len(a.ordinary) != o.Orders {
		t.Errorf("%d special and %d ordinary orders of %d", len(special), len(a.ordinary), o.Orders)
	}
	times := map[string]int{}
	for _, order := range a.script(9) {
		times[order]++
	}
	for order, n := range times {
		if n != len(steps) || special[order] && order != a.poison {
			t.Errorf("%s is advanced %d times by the writers", order, n)
		}
	}
	if other := castOf(Options{Seed: 10}.complete()); other.poison == a.poison && other.killed == a.killed {
		t.Error("two seeds gave one cast")
	}
}
