// Package page writes the page of a run: what was asked, the figures with their spread, and on what they were measured.
package page

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/keystrand/keystrand/bench/internal/floor"
	"github.com/keystrand/keystrand/bench/internal/machine"
	"github.com/keystrand/keystrand/bench/internal/spread"
	"github.com/keystrand/keystrand/bench/internal/table"
)

// Page is one run.
type Page struct {
	Title    string
	Question string // what is measured and against what, with the bound on paper
	Tables   []*table.Table
	Results  []string // sentences with figures that stand in no table
	Method   []string // how it was measured; parameters
	Plots    []Plot
	Machine  machine.Machine
	Before   floor.Probe
	After    floor.Probe
	Loads    spread.Of // share of all cores in use by others during each run
	Command  string
}

// Environment prints what the figures were measured on.
func (p *Page) Environment() []string {
	lines := []string{
		"Machine: " + p.Machine.String() + ".",
		"Floor before: " + p.Before.String() + ".",
		"Floor after: " + p.After.String() + ".",
	}
	if len(p.Loads) > 0 {
		lines = append(lines, "Used by others during each run, share of all cores: "+p.Loads.Format("%.2f")+".")
	}
	return lines
}

// Print writes the figures for a terminal.
func (p *Page) Print(w io.Writer) error {
	for _, t := range p.Tables {
		if err := t.Write(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(append(p.Results, p.Environment()...), "\n"))
	return err
}

// Write makes the Markdown file at path, and its plots beside it. An empty path writes nothing.
func (p *Page) Write(path string) (err error) {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := fmt.Fprintf(file, "# %s\n\n%s\n\n", p.Title, p.Question); err != nil {
		return err
	}
	for _, t := range p.Tables {
		if err := t.Markdown(file); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(file); err != nil {
			return err
		}
	}
	base := strings.TrimSuffix(path, ".md")
	for i, plot := range p.Plots {
		name := fmt.Sprintf("%s-%d.svg", base, i+1)
		if err := writePlot(name, plot); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(file, "![%s](%s)\n\n", plot.Title, filepath.Base(name)); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"Results", p.Results}, {"How it was measured", p.Method}, {"On what", append(p.Environment(), "Started "+p.Machine.Start.UTC().Format("2006-01-02 15:04 MST")+" by `"+p.Command+"`.")}} {
		if len(part.lines) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(file, "## %s\n\n- %s\n\n", part.title, strings.Join(part.lines, "\n- ")); err != nil {
			return err
		}
	}
	return nil
}

func writePlot(path string, p Plot) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return p.write(file)
}
