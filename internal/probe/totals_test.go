package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestTotalsAreOfKindsAndNameNoPath(t *testing.T) {
	budget := 5.0
	d := v1.Disruption{BudgetSeconds: &budget, Paths: []v1.PathDisruption{
		{Kind: v1.PathTCP, Path: "shop/web", LongestSeconds: 1.25, TotalSeconds: 2.001},
		{Kind: v1.PathTCP, Path: "shop/api", LongestSeconds: 3.5, TotalSeconds: 3.5, Gone: true},
		{Kind: v1.PathTCP, Path: "shop/old"},
		{Kind: v1.PathAPIRead, Path: "over a kept connection", LongestSeconds: 0.1, TotalSeconds: 0.2},
	}}
	want := &v1.ProbeTotals{BudgetSeconds: &budget, Kinds: []v1.ProbeKindTotals{
		{Kind: v1.PathAPIRead, Paths: 1, LongestSeconds: 0.1, TotalSeconds: 0.2},
		{Kind: v1.PathTCP, Paths: 3, LongestSeconds: 3.5, TotalSeconds: 5.501},
	}}
	if diff := cmp.Diff(want, Totals(d)); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&v1.ProbeTotals{}, Totals(v1.Disruption{})); diff != "" {
		t.Errorf("before the first look (-want +got):\n%s", diff)
	}
}

// TestWhatAnotherProgramWritesOfKinds: an annotation may hold anything, and each kind becomes a series.
func TestWhatAnotherProgramWritesOfKinds(t *testing.T) {
	if KnownTotals(nil) != nil {
		t.Error("nothing is known, and something is said")
	}
	have := KnownTotals(&v1.ProbeTotals{Kinds: []v1.ProbeKindTotals{
		{Kind: v1.PathHTTP, Paths: 1}, {Kind: "planted"}, {Kind: v1.PathEndpoints, Paths: 2}, {Kind: v1.PathHTTP, Paths: 9},
	}})
	want := &v1.ProbeTotals{Kinds: []v1.ProbeKindTotals{{Kind: v1.PathEndpoints, Paths: 2}, {Kind: v1.PathHTTP, Paths: 1}}}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFigureOfKeptConnections(t *testing.T) {
	cut := func(seconds float64, open bool) v1.PathDisruption {
		return v1.PathDisruption{Kind: v1.PathTCPKept, LongestSeconds: seconds, Outages: []v1.Outage{{Seconds: seconds, Open: open}}}
	}
	for want, paths := range map[string][]v1.PathDisruption{
		"": {{Kind: v1.PathTCP, LongestSeconds: 4, Outages: []v1.Outage{{}}}},
		"kept connections: none cut (3 closed while idle)":                             {{Kind: v1.PathTCPKept, Reconnects: 3}},
		"kept connections: 2 cut, longest 1.2 s until a new one":                       {cut(0.003, false), cut(1.2, false)},
		"kept connections: 1 cut, longest 3 ms until a new one":                        {cut(0.003, false), {Kind: v1.PathTCPKept}},
		"kept connections: 2 cut, longest 7.0 s or more until a new one":               {cut(0.003, false), cut(7, true)},
		"kept connections: 1 cut, longest 1.2 s until a new one (1 closed while idle)": {cut(1.2, false), {Kind: v1.PathTCPKept, Reconnects: 1}},
	} {
		if got := KeptSummary(v1.Disruption{Paths: paths}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
