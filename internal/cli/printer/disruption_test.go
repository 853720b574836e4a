package printer

import (
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestHowAnOutageIsDescribed(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	outage := func(length time.Duration, open bool, steps ...string) v1.Outage {
		return v1.Outage{Begin: begin, End: begin.Add(length), Seconds: length.Seconds(), LeastSeconds: length.Seconds() / 2, Open: open, Error: "EOF\nagain", Steps: steps}
	}
	for _, c := range []struct {
		kind   string
		outage v1.Outage
		want   string
	}{
		{v1.PathTCP, outage(2*time.Second, false, "a", "b"), "  TCP web was out for 2.000 s (1.000 s for certain), from 12:00:00.000 to 12:00:02.000: EOF; again; during a, b"},
		{v1.PathTCP, outage(time.Second, true), "  TCP web was out for 1.000 s (0.500 s for certain), from 12:00:00.000 and still when it was looked at last, at 12:00:01.000: EOF; again"},
		{v1.PathTCPKept, outage(3*time.Millisecond, false), "  kept connection to web was cut at 12:00:00.000; a new one stood after 0.003 s: EOF; again"},
		{v1.PathTCPKept, outage(time.Second, true), "  kept connection to web was cut at 12:00:00.000; no new one stood when it was looked at last, at 12:00:01.000, 1.000 s later: EOF; again"},
	} {
		if got := outageLine(v1.PathDisruption{Kind: c.kind, Path: "web"}, c.outage); got != c.want {
			t.Errorf("line is\n%s\nwant\n%s", got, c.want)
		}
	}
}
