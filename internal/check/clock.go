package check

import (
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var clockOff = Check{
	Code: "API-002", Reason: "ClockOff", Category: categoryTooling, Level: LevelError, Impact: ImpactTwoOwners, DependsOn: onAPI, Retryable: true,
	Title: "the clocks of the API server and the hosts agree to within what elections bear",
	Explain: []string{
		"Managers judge a lease by their own clock: one whose clock runs ahead takes it while the holder still renews it, and two managers act at once. Leader election bears a difference up to the lease duration less the renew deadline (5 s by default), of which a migration with shorter deadlines keeps less. " +
			"Certificates and tokens that are made during the migration are not valid yet, or no longer, on a host whose clock is off by more than a few minutes.",
		"The offsets are measured against the machine that runs transplant, host by host, with the time that the answer took as uncertainty. What counts is the difference between any two of the others; if only this machine is off, the check warns, since the times in reports and plans would be wrong.",
	},
	judge: judgeClocks,
}

// bearable is the difference between two clocks that a check tolerates: what default elections bear is lease duration - renew deadline = 5 s, and a
// shorter election of the migration should not use it up.
const bearable = 2 * time.Second

func judgeClocks(f facts) v1.Finding {
	const expected, source, fix = "less than 2 s between any two clocks", "the API server's Date header, the clock of each host", "chronyc tracking   # on each host named"
	if len(f.Clocks) == 0 {
		if finding, ok := f.missing("clocks"); ok {
			return with(finding, expected, source, "")
		}
		return skip("the snapshot holds no clock")
	}
	var bad, here complaints
	first, last := f.Clocks[0], f.Clocks[0]
	for _, c := range f.Clocks {
		if c.OffsetMillis < first.OffsetMillis {
			first = c
		}
		if c.OffsetMillis > last.OffsetMillis {
			last = c
		}
	}
	apart := time.Duration(last.OffsetMillis-first.OffsetMillis)*time.Millisecond - time.Duration(last.UncertaintyMillis+first.UncertaintyMillis)*time.Millisecond
	if apart > bearable {
		for _, c := range []v1.Clock{first, last} {
			bad.add(c.Who, "%s is %s", c.Who, offset(c))
		}
		return with(bad.finding(v1.Fail, "two clocks are %s apart: %s", apart.Round(100*time.Millisecond), strings.Join(bad.lines, ", ")), expected, source, fix)
	}
	if errs := f.gathering("clocks"); len(errs) > 0 {
		return with(unknown("%s", strings.Join(errs, "; ")), expected, source, "")
	}
	for _, c := range f.Clocks {
		if o := time.Duration(c.OffsetMillis) * time.Millisecond; o.Abs()-time.Duration(c.UncertaintyMillis)*time.Millisecond > bearable {
			here.add(c.Who, "%s is %s", c.Who, offset(c))
		}
	}
	if !here.empty() {
		return with(here.some(v1.Warn, "the clock of the machine that runs transplant is off: %s", here.lines[0]), expected, source, "chronyc tracking")
	}
	if len(f.Clocks) == 1 {
		return pass("the clock of %s agrees with this machine's to within %s", f.Clocks[0].Who, bearable)
	}
	return pass("%s agree to within %s", plural(len(f.Clocks), "clock"), bearable)
}

// now is the time at which the facts were gathered by the cluster's clock, by which managers renew their leases: where only the clock of the machine that
// runs transplant is off, every lease would seem to have run out, and whoever holds one to be nobody.
func (f facts) now() time.Time {
	for _, c := range f.Clocks {
		if c.Who == "api" {
			return f.TakenAt.Add(time.Duration(c.OffsetMillis) * time.Millisecond)
		}
	}
	return f.TakenAt
}

// offset says how far a clock is from the one of the machine that runs transplant.
func offset(c v1.Clock) string {
	d := (time.Duration(c.OffsetMillis) * time.Millisecond).Round(100 * time.Millisecond)
	if d < 0 {
		return (-d).String() + " behind this machine"
	}
	return d.String() + " ahead of this machine"
}
