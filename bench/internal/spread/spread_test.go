package spread

import (
	"testing"
	"time"
)

func TestMedianIsTheMiddleAndTheRangeIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		values           Of
		median, min, max float64
		text             string
	}{
		{"none", nil, 0, 0, 0, "-"},
		{"one", Of{3}, 3, 3, 3, "3.0"},
		{"odd, not sorted", Of{9, 1, 4}, 4, 1, 9, "4.0 (1.0-9.0)"},
		{"even", Of{4, 1, 9, 2}, 3, 1, 9, "3.0 (1.0-9.0)"},
	} {
		if got := c.values.Median(); got != c.median {
			t.Errorf("%s: median %v, want %v", c.name, got, c.median)
		}
		if c.values.Min() != c.min || c.values.Max() != c.max {
			t.Errorf("%s: range %v-%v, want %v-%v", c.name, c.values.Min(), c.values.Max(), c.min, c.max)
		}
		if got := c.values.Format("%.1f"); got != c.text {
			t.Errorf("%s: %q, want %q", c.name, got, c.text)
		}
	}
}

func TestAQuantileIsAValueThatWasMeasured(t *testing.T) {
	t.Parallel()
	d := []time.Duration{4, 1, 3, 2}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := Quantile(d, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing: %v, want 0", got)
	}
}
