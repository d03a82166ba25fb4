// Package table prints rows aligned in columns, as text for a terminal and as Markdown for a page.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a heading and rows of as many cells.
type Table struct {
	Head []string
	Rows [][]string
}

// New makes a table with these columns.
func New(head ...string) *Table { return &Table{Head: head} }

// Add appends a row; each cell is printed by its default format.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(t.Head))
	for i := range row {
		if i < len(cells) {
			row[i] = fmt.Sprint(cells[i])
		}
	}
	t.Rows = append(t.Rows, row)
}

// Write prints the table for a terminal.
func (t *Table) Write(w io.Writer) error {
	return t.write(w, "", "  ", "", false)
}

// Markdown prints the table for a page.
func (t *Table) Markdown(w io.Writer) error {
	return t.write(w, "| ", " | ", " |", true)
}

func (t *Table) write(w io.Writer, left, between, right string, ruled bool) error {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	line := func(row []string, fill string) {
		out.WriteString(left)
		for i, cell := range row {
			if i > 0 {
				out.WriteString(between)
			}
			out.WriteString(cell)
			if last := i == len(row)-1; !last || right != "" {
				out.WriteString(strings.Repeat(fill, widths[i]-utf8.RuneCountInString(cell)))
			}
		}
		out.WriteString(right + "\n")
	}
	line(t.Head, " ")
	if ruled {
		line(make([]string, len(t.Head)), "-")
	}
	for _, row := range t.Rows {
		line(row, " ")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
