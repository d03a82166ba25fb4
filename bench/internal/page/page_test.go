package page

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keystrand/keystrand/bench/internal/table"
)

func TestAPageHoldsItsTablesAndItsPlotIsWellFormed(t *testing.T) {
	t.Parallel()
	tab := table.New("keys", "share")
	tab.Add(1, 0.97)
	p := Page{
		Title: "Some run", Question: "How fast?", Tables: []*table.Table{tab}, Results: []string{"It was judged."}, Method: []string{"Five times."}, Command: "go run .",
		Plots: []Plot{{Title: "share < bound", Series: []string{"ours"}, Line: 0.9, LineName: "must", Groups: []Group{{Label: "1 key", Bars: []Bar{{0.97, 0.95, 0.98}}}}}},
	}
	path := filepath.Join(t.TempDir(), "some.md")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Some run\n", "| 1    | 0.97  |", "![share < bound](some-1.svg)", "- It was judged.", "- Five times.", "`go run .`"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	plot, err := os.ReadFile(filepath.Join(filepath.Dir(path), "some-1.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(plot))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, plot)
		}
	}
}

func TestAPlotsLinesAreFewAndRound(t *testing.T) {
	t.Parallel()
	for most, want := range map[float64]float64{1: 0.2, 0.98: 0.2, 10_500: 2000, 7: 1, 0: 1} {
		if got := niceStep(most); got != want {
			t.Errorf("most %v: step %v, want %v", most, got, want)
		}
	}
}
