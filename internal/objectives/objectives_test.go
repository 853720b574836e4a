package objectives

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func startedAt(d time.Duration) *time.Time {
	at := after(d)
	return &at
}

func errorsOf(n float64) []v1.Series { return []v1.Series{{Name: SeriesErrors, Sum: n}} }

func syncs(all, slow uint64) []v1.Series {
	within := all - slow
	return []v1.Series{{Name: SeriesSyncs, Count: all, Within60: &within}}
}

const in = "cloud-controller-manager@cp-1"

func TestTally(t *testing.T) {
	old, young := startedAt(-time.Hour), startedAt(time.Minute)
	for _, c := range []struct {
		name     string
		readings []Reading
		want     v1.ObjectiveSeries
	}{
		{
			"what was counted before the window does not count",
			[]Reading{{after(-time.Minute), in, old, errorsOf(50)}, {after(time.Minute), in, old, errorsOf(50)}},
			v1.ObjectiveSeries{Name: SeriesErrors},
		},
		{
			"nor what a process of before did before its first reading",
			[]Reading{{after(time.Second), in, old, errorsOf(50)}},
			v1.ObjectiveSeries{Name: SeriesErrors},
		},
		{
			"one error is no rate",
			[]Reading{{after(0), in, old, errorsOf(50)}, {after(time.Minute), in, old, errorsOf(51)}},
			v1.ObjectiveSeries{Name: SeriesErrors, Count: 1, MostIn15Minutes: 1},
		},
		{
			"two within 15 minutes are",
			[]Reading{{after(0), in, old, errorsOf(0)}, {after(time.Minute), in, old, errorsOf(1)}, {after(15 * time.Minute), in, old, errorsOf(2)}},
			v1.ObjectiveSeries{Name: SeriesErrors, Count: 2, MostIn15Minutes: 2, Breach: "nodesync_error_total grew by up to 2 in 15 minutes (" + in + "), and less than 1 is the objective"},
		},
		{
			"two that are further apart: a rate of one in 15 minutes, which is not less than one",
			[]Reading{
				{after(0), in, old, errorsOf(0)}, {after(time.Minute), in, old, errorsOf(1)}, {after(17 * time.Minute), in, old, errorsOf(1)},
				{after(18 * time.Minute), in, old, errorsOf(2)},
			},
			v1.ObjectiveSeries{Name: SeriesErrors, Count: 2, MostIn15Minutes: 1, Breach: "nodesync_error_total grew by up to 1 in 15 minutes (" + in + "), and less than 1 is the objective"},
		},
		{
			"between two looks that are far apart only the average is known",
			[]Reading{{after(0), in, old, errorsOf(0)}, {after(10 * time.Hour), in, old, errorsOf(4)}},
			v1.ObjectiveSeries{Name: SeriesErrors, Count: 4, MostIn15Minutes: 0.1},
		},
		{
			"a process that was started in the window counts from nothing",
			[]Reading{{after(2 * time.Minute), in, young, errorsOf(3)}},
			v1.ObjectiveSeries{Name: SeriesErrors, Count: 3, MostIn15Minutes: 3, Breach: "nodesync_error_total grew by up to 3 in 15 minutes (" + in + "), and less than 1 is the objective"},
		},
		{
			"and so does one that took another's place",
			[]Reading{{after(0), in, old, syncs(500, 0)}, {after(2 * time.Minute), in, young, syncs(4, 0)}},
			v1.ObjectiveSeries{Name: SeriesSyncs, Count: 4},
		},
		{
			"of which a counter that fell is enough of a sign",
			[]Reading{{after(0), in, nil, syncs(500, 0)}, {after(2 * time.Minute), in, nil, syncs(4, 0)}, {after(3 * time.Minute), in, nil, syncs(6, 0)}},
			v1.ObjectiveSeries{Name: SeriesSyncs, Count: 6},
		},
		{
			"one slow sync of few is no rate",
			[]Reading{{after(0), in, old, syncs(0, 0)}, {after(time.Minute), in, old, syncs(19, 1)}},
			v1.ObjectiveSeries{Name: SeriesSyncs, Count: 19, Slow: 1},
		},
		{
			"two are",
			[]Reading{{after(0), in, old, syncs(0, 0)}, {after(time.Minute), in, old, syncs(3, 2)}},
			v1.ObjectiveSeries{Name: SeriesSyncs, Count: 3, Slow: 2, Breach: "nodesync_latency_seconds: 2 of 3 took more than 60 s (" + in + "), and 1% is the objective"},
		},
		{
			"one in a hundred is the objective",
			[]Reading{{after(0), in, old, syncs(0, 0)}, {after(time.Minute), in, old, syncs(100, 1)}},
			v1.ObjectiveSeries{Name: SeriesSyncs, Count: 100, Slow: 1},
		},
		{
			"managers are counted together",
			[]Reading{
				{after(0), in, old, syncs(10, 0)}, {after(0), "b@cp-2", old, syncs(20, 0)},
				{after(time.Minute), in, old, syncs(12, 1)}, {after(time.Minute), "b@cp-2", old, syncs(23, 1)},
			},
			v1.ObjectiveSeries{Name: SeriesSyncs, Count: 5, Slow: 2, Breach: "nodesync_latency_seconds: 2 of 5 took more than 60 s (b@cp-2, " + in + "), and 1% is the objective"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally := NewTally(noon)
			for _, r := range c.readings {
				tally.Add(r)
			}
			if diff := cmp.Diff([]v1.ObjectiveSeries{c.want}, tally.Series()); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	var none *Watch
	if none.Restart(noon); none.Breach() != "" {
		t.Error("a watch that is off sees a breach")
	}
	w := NewWatch(noon)
	if w.Words() != "" {
		t.Errorf("before a manager was read: %q", w.Words())
	}
	w.Add(Reading{At: noon, Manager: in, Series: errorsOf(5)})
	if w.Breach() != "" || w.Words() != "kept so far" {
		t.Errorf("kept: %q, %q", w.Breach(), w.Words())
	}
	w.Add(Reading{At: after(time.Second), Manager: in, Series: errorsOf(9)})
	if !strings.Contains(w.Breach(), "grew by up to 4") || w.Words() != "breached: "+w.Breach() {
		t.Errorf("breached: %q, %q", w.Breach(), w.Words())
	}
	w.Restart(after(2 * time.Second))
	w.Add(Reading{At: after(3 * time.Second), Manager: in, Series: errorsOf(10)})
	if w.Breach() != "" {
		t.Errorf("after an operator has seen it: %q", w.Breach())
	}
	w.Add(Reading{At: after(4 * time.Second), Manager: in, Series: errorsOf(11)})
	if !strings.Contains(w.Breach(), "grew by up to 2") {
		t.Errorf("what came after that: %q", w.Breach())
	}
}

// A manager that may only read keeps no load balancer, and its series do not show it.
func TestServicesThatBeginToFailAreABreach(t *testing.T) {
	failure := func(count int32, first time.Duration) v1.SyncFailure {
		return v1.SyncFailure{Reason: "SyncLoadBalancerFailed", Message: "403 UnauthorizedOperation", First: after(first), Count: count}
	}
	w := NewWatch(noon)
	w.AddFailing(noon, map[string]v1.SyncFailure{"shop/old": failure(9, -time.Hour)})
	w.AddFailing(after(5*time.Second), map[string]v1.SyncFailure{"shop/old": failure(10, -time.Hour), "shop/web": failure(1, 4*time.Second)})
	if w.Breach() != "" || w.Words() != "" {
		t.Errorf("one that failed before, and one that failed once: %q, %q", w.Breach(), w.Words())
	}
	for _, c := range []struct {
		at      time.Duration
		failing v1.SyncFailure
	}{{10 * time.Second, failure(2, 4*time.Second)}, {34 * time.Second, failure(1, 4*time.Second)}} {
		w.AddFailing(after(c.at), map[string]v1.SyncFailure{"shop/old": failure(10, -time.Hour), "shop/web": c.failing})
		if want := "the load balancers of 1 Service cannot be kept, first that of shop/web: SyncLoadBalancerFailed: 403 UnauthorizedOperation"; w.Breach() != want {
			t.Errorf("breach %q, want %q", w.Breach(), want)
		}
	}
	w.Restart(after(time.Minute))
	if w.Breach() != "" {
		t.Errorf("after an operator has seen it: %q", w.Breach())
	}
	w.AddFailing(after(2*time.Minute), nil)
	w.AddFailing(after(3*time.Minute), map[string]v1.SyncFailure{"shop/old": failure(2, 2*time.Minute), "shop/web": failure(2, 2*time.Minute)})
	if want := "the load balancers of 2 Services cannot be kept, first that of shop/old: "; !strings.HasPrefix(w.Breach(), want) {
		t.Errorf("those that failed again: %q", w.Breach())
	}
}

// What was kept before the loops moved, and fails when an earlier run is gone on with, counts from the first look on.
func TestServicesThatWereKeptBeforeTheLoopsMovedAreABreach(t *testing.T) {
	failing := map[string]v1.SyncFailure{}
	for name, count := range map[string]int32{"shop/before": 9, "shop/since": 3, "shop/once": 1, "shop/new": 9} {
		failing[name] = v1.SyncFailure{Reason: "SyncLoadBalancerFailed", Message: "no", First: noon, Count: count}
	}
	w := NewWatch(noon)
	w.KeptBefore(map[string]bool{"shop/since": true, "shop/once": true})
	w.AddFailing(after(time.Second), failing)
	want := "the load balancers of 1 Service cannot be kept, first that of shop/since: SyncLoadBalancerFailed: no"
	if got := w.Breach(); got != want || !w.Undecided() {
		t.Errorf("breach %q, undecided %v, want %q", got, w.Undecided(), want)
	}
	w.Restart(after(time.Minute))
	if got := w.Breach(); got != "" || w.Undecided() {
		t.Errorf("after an operator has seen it: %q, undecided %v", got, w.Undecided())
	}
}

// The in-tree manager failed before the migration, the new one has one slow sync during it, and is well since.
func TestWindowsOfAMigration(t *testing.T) {
	kcm, ccm := component.KCM, component.CCM
	scrape := func(at time.Duration, manager string, started *time.Time, series []v1.Series) v1.OwnershipEvent {
		return v1.OwnershipEvent{Time: after(at), Source: v1.SourceScrape, Component: manager, Host: "cp-1", ProcessStarted: started, Series: series}
	}
	both := func(errors float64, all, slow uint64) []v1.Series {
		return append(errorsOf(errors), syncs(all, slow)...)
	}
	old, young := startedAt(-time.Hour), startedAt(6*time.Minute)
	j := v1.Journal{
		Plan: v1.Plan{Steps: []v1.Step{{ID: "role"}, {ID: "kcm", Component: kcm}, {ID: "kubelet"}}},
		Records: []v1.StepRecord{
			{ID: "role", Started: after(time.Minute)}, {ID: "kcm", Started: after(5 * time.Minute)}, {ID: "kubelet", Started: after(8 * time.Minute)},
		},
	}
	before := &v1.Snapshot{TakenAt: noon, Managers: []v1.Manager{{Component: kcm, Host: "cp-1", ProcessStarted: old, Series: both(40, 100, 3)}}}
	now := &v1.Snapshot{TakenAt: after(30 * time.Minute), Managers: []v1.Manager{
		{Component: ccm, Host: "cp-1", ProcessStarted: young, Series: both(1, 50, 1)}, {Component: ccm, Host: "cp-2", Error: "refused", Series: errorsOf(99)},
	}}
	events := []v1.OwnershipEvent{
		scrape(2*time.Minute, kcm, old, both(42, 110, 3)),
		scrape(4*time.Minute, kcm, old, nil),
		scrape(7*time.Minute, kcm, startedAt(5*time.Minute+30*time.Second), nil), // it runs no loop any more, and shows none
		scrape(7*time.Minute, ccm, young, both(0, 5, 0)),
		scrape(9*time.Minute, ccm, young, both(1, 30, 1)),
		{Time: after(9 * time.Minute), Source: v1.SourceScrape, Component: ccm, Host: "cp-1", Error: "timeout", Series: errorsOf(77)},
	}
	got := Of(j, after(10*time.Minute), before, now, events)
	breach := "nodesync_error_total grew by up to 2 in 15 minutes (kube-controller-manager@cp-1), and less than 1 is the objective"
	want := &v1.Objectives{Windows: []v1.ObjectiveWindow{
		{Name: v1.WindowBefore, From: noon, To: after(5 * time.Minute), Series: []v1.ObjectiveSeries{
			{Name: SeriesErrors, Count: 2, MostIn15Minutes: 2, Breach: breach}, {Name: SeriesSyncs, Count: 10},
		}},
		{Name: v1.WindowDuring, From: after(5 * time.Minute), To: after(10 * time.Minute), Series: []v1.ObjectiveSeries{
			{Name: SeriesErrors, Count: 1, MostIn15Minutes: 1}, {Name: SeriesSyncs, Count: 30, Slow: 1, Breach: "nodesync_latency_seconds: 1 of 30 took more than 60 s (" +
				ccm + "@cp-1), and 1% is the objective"},
		}},
		{Name: v1.WindowAfter, From: after(10 * time.Minute), To: after(30 * time.Minute), Series: []v1.ObjectiveSeries{
			{Name: SeriesErrors}, {Name: SeriesSyncs, Count: 20},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	if w := Window(got, v1.WindowAfter); w == nil || len(Breaches(w.Series)) != 0 {
		t.Errorf("since: %+v", w)
	}
	if Of(j, after(10*time.Minute), nil, nil, nil) != nil || Window(nil, v1.WindowAfter) != nil {
		t.Error("objectives without a reading")
	}
}
