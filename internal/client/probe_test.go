package client

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
)

func TestARunThatGoesOnIsProbedAsItWasToldFirst(t *testing.T) {
	budget := 5.0
	log := []v1.ProbeEvent{
		{Event: v1.ProbeBegin, IntervalSeconds: 1},
		{Event: v1.ProbeBegin, IntervalSeconds: 0.2, BudgetSeconds: &budget, ConnectTo: []string{"lb.example.com=127.0.0.1:8080"}},
		{Event: v1.ProbeAlive},
	}
	told := func(names ...string) ProbeOptions {
		return ProbeOptions{
			Interval: time.Second, Budget: time.Minute, ConnectTo: []string{"lb.example.com=127.0.0.2"},
			Given: func(name string) bool { return slices.Contains(names, name) },
		}
	}
	got := told().goesOn(log)
	if got.Interval != 200*time.Millisecond || got.Budget != 5*time.Second || !slices.Equal(got.ConnectTo, log[1].ConnectTo) {
		t.Errorf("it goes on with %+v", got)
	}
	got = told("probe-interval", "probe-budget", "probe-connect-to").goesOn(log)
	if got.Interval != time.Second || got.Budget != time.Minute || !slices.Equal(got.ConnectTo, told().ConnectTo) {
		t.Errorf("what it is told again does not count: %+v", got)
	}
	if got := told().goesOn(nil); !slices.Equal(got.ConnectTo, told().ConnectTo) {
		t.Errorf("without a run before, it is probed with %+v", got)
	}
}

// TestOnlookersSeeAnOutageWhileItLasts in words and in numbers, on the lock of the run.
func TestOnlookersSeeAnOutageWhileItLasts(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	budget, since := 1.0, noon.Add(2*time.Second)
	said := ""
	publishProbes(lock.NewProgress("run-1", func(doc string) { said = doc }), []v1.ProbeEvent{
		{Time: noon, Event: v1.ProbeBegin, BudgetSeconds: &budget},
		{Time: noon, Event: v1.ProbePath, Kind: v1.PathTCP, Path: "shop/web"},
		{Time: noon, Event: v1.ProbePath, Kind: v1.PathTCP, Path: "shop/api"},
		{Time: noon.Add(3 * time.Second), Event: v1.ProbeDown, Kind: v1.PathTCP, Path: "shop/web", Since: &since, Error: "refused"},
		{Time: noon.Add(5 * time.Second), Event: v1.ProbeAlive},
	})
	want := &v1.Progress{
		Run: "run-1", Disruption: "probes: 2 paths, 1 outage of 3.0 s (TCP shop/web); OVER the budget of 1 s",
		Probes: &v1.ProbeTotals{BudgetSeconds: &budget, Kinds: []v1.ProbeKindTotals{{Kind: v1.PathTCP, Paths: 2, LongestSeconds: 3, TotalSeconds: 3}}},
	}
	if diff := cmp.Diff(want, lock.ReadProgress(said)); diff != "" {
		t.Errorf("what is published (-want +got):\n%s", diff)
	}
}
