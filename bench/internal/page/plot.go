package page

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Plot is a bar chart: groups side by side, one bar for each series, with a whisker from the least to the greatest value.
type Plot struct {
	Title  string
	Unit   string // of the values
	Series []string
	Groups []Group
	// Line is a value drawn across, such as what must be reached; 0: none.
	Line     float64
	LineName string
}

// Group is one place on the horizontal axis.
type Group struct {
	Label string
	Bars  []Bar // one for each series
}

// Bar is a median with its range.
type Bar struct{ Median, Min, Max float64 }

// Sizes in pixels.
const (
	plotWidth, plotHeight = 720, 320
	left, right           = 64, 16
	top, bottom           = 56, 40
)

var colours = []string{"#2f6f9f", "#b9c4cc", "#c9803a", "#6a994e"}

// write prints the plot as SVG.
func (p Plot) write(w io.Writer) error {
	most := p.Line
	for _, g := range p.Groups {
		for _, b := range g.Bars {
			most = max(most, b.Max, b.Median)
		}
	}
	step := niceStep(most)
	most = math.Ceil(most/step) * step
	y := func(v float64) float64 { return top + (plotHeight-top-bottom)*(1-v/most) }
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="14">%s</text>`+"\n", left, html.EscapeString(p.Title))
	for v := 0.0; v <= most+step/2; v += step {
		fmt.Fprintf(&out, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, plotWidth-right, y(v), y(v), left-6, y(v)+4, number(v))
	}
	p.bars(&out, y)
	if p.Line > 0 {
		fmt.Fprintf(&out, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#a00" stroke-dasharray="6 4"/><text x="%d" y="%.1f" text-anchor="end" fill="#a00">%s</text>`+"\n",
			left, plotWidth-right, y(p.Line), y(p.Line), plotWidth-right, y(p.Line)-4, html.EscapeString(p.LineName))
	}
	for i, name := range p.Series {
		x := left + i*170
		fmt.Fprintf(&out, `<rect x="%d" y="30" width="10" height="10" fill="%s"/><text x="%d" y="39">%s</text>`+"\n", x, colours[i%len(colours)], x+14, html.EscapeString(name))
	}
	fmt.Fprintf(&out, `<text x="%d" y="39" text-anchor="end">%s</text></svg>`+"\n", plotWidth-right, html.EscapeString(p.Unit))
	_, err := io.WriteString(w, out.String())
	return err
}

func (p Plot) bars(out *strings.Builder, y func(float64) float64) {
	room := float64(plotWidth-left-right) / float64(max(1, len(p.Groups)))
	for i, g := range p.Groups {
		middle := left + room*(float64(i)+0.5)
		width := room * 0.7 / float64(max(1, len(g.Bars)))
		for j, b := range g.Bars {
			x := middle - room*0.35 + float64(j)*width
			fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y(b.Median), width*0.92, y(0)-y(b.Median), colours[j%len(colours)])
			if b.Max > b.Min {
				fmt.Fprintf(out, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="black"/>`+"\n", x+width*0.46, x+width*0.46, y(b.Min), y(b.Max))
			}
			fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="11">%s</text>`+"\n", x+width*0.46, y(max(b.Max, b.Median))-3, number(b.Median))
		}
		fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", middle, plotHeight-bottom+18, html.EscapeString(g.Label))
	}
}

// niceStep gives 4 to 8 lines at round values.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
		if most/(step*part) <= 8 {
			return step * part
		}
	}
	return step
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
