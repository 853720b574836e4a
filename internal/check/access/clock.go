package access

import (
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
)

var clockOff = rule.Check{
	Code:      "API-002",
	Reason:    "ClockOff",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "System time, the offset from the time server, and Leap status, which should be Normal",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge:     judgeClocks,
}

func judgeClocks(f facts.Facts) v1.Finding {
	const expected, source, fix = "less than 2 s between any two clocks", "the API server's Date header, the clock of each host", "chronyc tracking   # on each host named"
	if len(f.Clocks) == 0 {
		if finding, ok := f.Missing("clocks"); ok {
			return findings.With(finding, expected, source, "")
		}
		return findings.Skip("the snapshot holds no clock")
	}
	var bad, here findings.Problems
	first, last := f.Clocks[0], f.Clocks[0]
	for _, c := range f.Clocks {
		if c.OffsetMillis < first.OffsetMillis {
			first = c
		}
		if c.OffsetMillis > last.OffsetMillis {
			last = c
		}
	}
	apart := time.Duration(
		last.OffsetMillis-first.OffsetMillis,
	)*time.Millisecond - time.Duration(
		last.UncertaintyMillis+first.UncertaintyMillis,
	)*time.Millisecond
	if apart > facts.TolerableClockOffset {
		for _, c := range []v1.Clock{first, last} {
			bad.Add(c.Who, "%s is %s", c.Who, offset(c))
		}
		return findings.With(
			bad.Finding(
				v1.Fail,
				"two clocks are %s apart: %s",
				apart.Round(100*time.Millisecond),
				strings.Join(bad.Texts(), ", "),
			),
			expected,
			source,
			fix,
		)
	}
	if errs := f.UnknownReasons("clocks"); len(errs) > 0 {
		return findings.With(findings.Unknown("%s", strings.Join(errs, "; ")), expected, source, "")
	}
	for _, c := range f.Clocks {
		if o := time.Duration(
			c.OffsetMillis,
		) * time.Millisecond; o.Abs()-time.Duration(
			c.UncertaintyMillis,
		)*time.Millisecond > facts.TolerableClockOffset {
			here.Add(c.Who, "%s is %s", c.Who, offset(c))
		}
	}
	if !here.Empty() {
		return findings.With(
			here.Some(v1.Warn, "the clock of the machine that runs transplant is off: %s", here[0].Text),
			expected,
			source,
			"chronyc tracking",
		)
	}
	if len(f.Clocks) == 1 {
		return findings.Pass(
			"the clock of %s agrees with this machine's to within %s",
			f.Clocks[0].Who,
			facts.TolerableClockOffset,
		)
	}
	return findings.Pass("%s agree to within %s", findings.Plural(len(f.Clocks), "clock"), facts.TolerableClockOffset)
}

// offset says how far a clock is from the one of the machine that runs transplant.
func offset(c v1.Clock) string {
	d := (time.Duration(c.OffsetMillis) * time.Millisecond).Round(100 * time.Millisecond)
	if d < 0 {
		return (-d).String() + " behind this machine"
	}
	return d.String() + " ahead of this machine"
}
