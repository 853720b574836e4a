package main

import (
	"bytes"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestTheSummaryBeginsWithTheSentenceAndTheClientsDowntime(t *testing.T) {
	probed := func(seconds float64) *v1.Disruption {
		return &v1.Disruption{Paths: []v1.PathDisruption{{Kind: v1.PathTCP, Path: "shop/web"}, {Kind: v1.PathAPIRead, Path: "kept", LongestSeconds: seconds}}}
	}
	for _, c := range []struct {
		disruption *v1.Disruption
		want       string
	}{
		{nil, "clients' downtime    not measured\n"},
		{&v1.Disruption{}, "clients' downtime    not measured\n"},
		{probed(0), "clients' downtime    0.0 s (2 paths probed, no outage)\n"},
		{probed(1.25), "clients' downtime    1.25 s at most (api-read kept; 2 paths probed)\n"},
	} {
		var out bytes.Buffer
		summarize(&out, &v1.Report{Sentence: "On a day, it went well.", Disruption: c.disruption}, "out")
		if want := "\nOn a day, it went well.\n\n" + c.want; !strings.HasPrefix(out.String(), want) {
			t.Errorf("the summary begins with\n%.200s\nwant\n%s", out.String(), want)
		}
	}
}
