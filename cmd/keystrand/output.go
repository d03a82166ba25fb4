package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// printer writes a command's answer: JSON lines for programs, aligned columns for people.
type printer struct {
	out  io.Writer
	json bool
}

func printerOf(cmd *cobra.Command) printer {
	asJSON, err := cmd.Flags().GetBool("json")
	return printer{out: cmd.OutOrStdout(), json: err == nil && asJSON}
}

// line writes one object as one line of JSON.
func (p printer) line(value any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// table writes rows under a header, columns aligned. Cells are made safe for a terminal.
func (p printer) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			row[i] = plain(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// fields writes name and value pairs, values aligned; a pair with an empty value is left out.
func (p printer) fields(pairs ...[2]string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, pair := range pairs {
		if pair[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pair[0], plain(pair[1]))
		}
	}
	return w.Flush()
}

// show prints a list: a JSON line for each item, or a table.
func show[T any](p printer, items []T, header []string, row func(T) []string) error {
	if p.json {
		for _, item := range items {
			if err := p.line(item); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, 0, len(items))
	for _, item := range items {
		rows = append(rows, row(item))
	}
	return p.table(header, rows)
}

// plain keeps text from a message or a peer from steering the terminal or forging a line.
func plain(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }
