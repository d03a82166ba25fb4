// Package spread describes repeated measurements by their median, least and greatest value.
package spread

import (
	"fmt"
	"slices"
	"time"
)

// Of gathers values of one quantity; the zero value is empty.
type Of []float64

// Add appends a value.
func (s *Of) Add(v float64) { *s = append(*s, v) }

// Median is the middle value, or the mean of the two middle ones; 0 when there is none.
func (s Of) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Min is the least value; 0 when there is none.
func (s Of) Min() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// Max is the greatest value; 0 when there is none.
func (s Of) Max() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// Format prints the median with the range behind it, each by the verb given, e.g. "%.2f".
func (s Of) Format(verb string) string {
	if len(s) == 0 {
		return "-"
	}
	if len(s) == 1 {
		return fmt.Sprintf(verb, s[0])
	}
	return fmt.Sprintf(verb+" ("+verb+"-"+verb+")", s.Median(), s.Min(), s.Max())
}

// Quantile is the value below which the share q (0 to 1) of the durations lies. It sorts d in place.
func Quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}
