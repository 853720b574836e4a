package report

import (
	"fmt"
	"math"
	"time"
)

// scale places moments on an axis from 0 to 100 %: bars and ticks are placed in per cent, so that one drawing fits every width while its
// text keeps its size.
type scale struct{ from, to time.Time }

func (s scale) length() time.Duration { return max(s.to.Sub(s.from), time.Millisecond) }

// at is the place of a moment; moments outside lie at the nearer end.
func (s scale) at(t time.Time) float64 {
	return 100 * min(1, max(0, float64(t.Sub(s.from))/float64(s.length())))
}

// percent writes a place.
func percent(p float64) string { return fmt.Sprintf("%.3f%%", p) }

// tick is a mark of an axis.
type tick struct {
	At, Label, Anchor string
}

// ticks are at most n+1 marks at round times since zero.
func (s scale) ticks(zero time.Time, n int) []tick {
	step := niceStep(s.length().Seconds() / float64(n))
	first := math.Ceil(s.from.Sub(zero).Seconds()/step - 1e-9)
	var out []tick
	for k := first; len(out) <= n; k++ {
		t := zero.Add(time.Duration(k * step * float64(time.Second)))
		if t.After(s.to.Add(time.Microsecond)) {
			break
		}
		at := s.at(t)
		anchor := "middle"
		switch {
		case at < 4:
			anchor = "start"
		case at > 96:
			anchor = "end"
		}
		out = append(out, tick{At: percent(at), Label: tickLabel(k*step, step), Anchor: anchor})
	}
	return out
}

// niceStep is the smallest round number of seconds that is no smaller than the given one.
func niceStep(least float64) float64 {
	for _, s := range []float64{60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400} {
		if least > 30 && s >= least {
			return s
		}
	}
	if least > 86400 {
		return 86400 * math.Ceil(least/86400)
	}
	power := math.Pow(10, math.Floor(math.Log10(max(least, 0.001))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*power >= least-1e-12 {
			return min(factor*power, 60)
		}
	}
	return 10 * power
}

func tickLabel(seconds, step float64) string {
	if math.Abs(seconds) < 1e-9 {
		return "0"
	}
	switch {
	case step >= 3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	case step >= 60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case step >= 1:
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.*f s", int(math.Ceil(-math.Log10(step)-1e-9)), seconds)
}
