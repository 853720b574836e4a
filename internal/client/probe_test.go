package client

import (
	"slices"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
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
