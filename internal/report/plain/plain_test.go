package plain

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var noon = time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)

// flawless is a report of a migration in which everything was measured, and nothing went wrong.
func flawless() v1.Report {
	later := noon.Add(time.Second)
	return v1.Report{
		Cluster: v1.Cluster{Name: "prod"}, Result: v1.ResultOK, Direction: "forward", Started: noon, Ended: noon.Add(time.Minute),
		Moved:     &v1.MovedHosts{ControlPlanes: 3, Workers: 5},
		Steps:     []v1.StepReport{{ID: "a", Result: v1.StepResultDone}, {ID: "b", Result: v1.StepResultAlreadyDone}},
		Tenures:   []v1.Tenure{{Loop: "service", From: noon, To: &later}},
		Gaps:      []v1.Gap{{Loop: "service", To: "x", Seconds: 0.9, Certain: true}, {Loop: "route", To: "x", Seconds: 0.4, Certain: true}},
		Handover:  v1.Handover{GapSeconds: 0.9, OverlappingWrites: ptr.To(0)},
		Inventory: v1.InventoryReport{Known: true},
		Disruption: &v1.Disruption{Paths: []v1.PathDisruption{
			{Kind: v1.PathAPIRead, Path: "kept"}, {Kind: v1.PathTCP, Path: "shop/web"}, {Kind: v1.PathEndpoints, Path: "shop/web"},
		}},
	}
}

func TestASentenceSaysWhatThereIsEvidenceFor(t *testing.T) {
	outage := func(kind string, seconds float64, open bool) v1.PathDisruption {
		return v1.PathDisruption{Kind: kind, Path: "p", LongestSeconds: seconds, Outages: []v1.Outage{{Seconds: seconds, Open: open}}}
	}
	const whole = "On 12 May 2026, 3 control-plane hosts and 5 workers of cluster prod were moved to the cloud-controller-manager; clients had no answer for 0.0 s; " +
		"at no moment did two managers act; the longest time without a manager was 0.90 s (service loop)."
	for _, c := range []struct {
		name   string
		change func(r *v1.Report)
		want   string // a part of the sentence
	}{
		{"everything was measured", func(*v1.Report) {}, whole},
		{"one host", func(r *v1.Report) { r.Moved = &v1.MovedHosts{ControlPlanes: 1} }, "1 control-plane host of cluster prod was moved"},
		{"a control plane that a seed hosts", func(r *v1.Report) { r.Moved = nil }, "the cloud loops of cluster prod were moved to the cloud-controller-manager;"},
		{"a host that was lost", func(r *v1.Report) { r.Without = []v1.HostOut{{}} }, "to the cloud-controller-manager (1 lost host left out);"},
		{"over midnight", func(r *v1.Report) { r.Ended = noon.Add(13 * time.Hour) }, "From 12 May 2026 to 13 May 2026, 3 control-plane"},
		{"no time at all", func(r *v1.Report) { r.Started = time.Time{} }, "On an unknown day, 3 control-plane"},
		{"not probed", func(r *v1.Report) { r.Disruption = nil }, "; what clients noticed was not measured;"},
		{"probed, and nothing could be reached", func(r *v1.Report) { r.Disruption.Paths = nil }, "; what clients noticed was not measured;"},
		{"the API was out", func(r *v1.Report) { r.Disruption.Paths[0] = outage(v1.PathAPIRead, 1.25, false) },
			"; clients of its Services had no answer for 0.0 s, and clients of its API for 1.25 s;"},
		{"a Service is out still", func(r *v1.Report) { r.Disruption.Paths[1] = outage(v1.PathTCP, 7, true) },
			"; clients of its Services had no answer for at least 7.00 s, and clients of its API for 0.0 s;"},
		{"only the API was probed", func(r *v1.Report) { r.Disruption.Paths = r.Disruption.Paths[:1] }, "; no Service was probed, and clients of its API had no answer for 0.0 s;"},
		{"a time without a probe", func(r *v1.Report) { r.Disruption.Unobserved = []v1.Unobserved{{Seconds: 90}} }, "had no answer for 0.0 s (no probe ran for 90.0 s);"},
		{"no audit log", func(r *v1.Report) { r.Handover.OverlappingWrites = nil }, "; at no moment were two managers seen to act;"},
		{"no ownership log", func(r *v1.Report) { r.Tenures, r.Gaps = nil, nil },
			"; whether two managers acted at the same time is unknown; for how long no manager acted is unknown."},
		{"no ownership log, and a cloud's audit log", func(r *v1.Report) { r.Sources, r.Gaps = []v1.Source{{Name: OwnershipLog}}, nil },
			"; whether two managers acted at the same time is unknown; for how long no manager acted is unknown."},
		{"looks are missing", func(r *v1.Report) { r.Unknown = []string{"x"} }, "; two managers were not seen to act at the same time, but looks are missing;"},
		{"two managers", func(r *v1.Report) {
			r.Overlaps = []v1.Overlap{{Loop: "service"}, {Loop: "nodeipam"}, {Loop: "service"}}
		},
			"; TWO MANAGERS ACTED at the same time (service and node IPAM loops);"},
		{"a loop without a manager", func(r *v1.Report) { r.Gaps[1].To = "" }, "; NO MANAGER HAS TAKEN OVER the route loop."},
		{"a gap at one end of which a look was missing", func(r *v1.Report) { r.Gaps[0].Certain = false }, "was at most 0.90 s (service loop)."},
		{"gaps of one length", func(r *v1.Report) {
			r.Gaps = append(r.Gaps, v1.Gap{Loop: "cloud-node-lifecycle", To: "x", Seconds: 0.9, Certain: true}, v1.Gap{Loop: "service", To: "x", Seconds: 0.9, Certain: true})
		}, "was 0.90 s (service and node lifecycle loops)."},
		{"no gap", func(r *v1.Report) { r.Gaps = nil }, "; no time without a manager was seen."},
		{"something was lost", func(r *v1.Report) {
			r.Inventory.Differences = []v1.Difference{{Object: "Node/a", Field: "uid"}, {Object: "Node/a", Field: "ip"}, {Object: "Node/b", Expected: true}}
		}, "; 1 object is not as before."},
		{"no inventory", func(r *v1.Report) { r.Inventory.Known = false }, "; whether anything was lost is unknown."},
		{"a step failed", func(r *v1.Report) { r.Result, r.Steps[0].Result = v1.ResultFailed, v1.StepResultFailed },
			"On 12 May 2026, the migration of cluster prod failed (1 of 2 steps done);"},
		{"it goes on", func(r *v1.Report) { r.Result, r.Steps[0].Result = v1.ResultUnfinished, v1.StepResultStarted },
			"the migration of cluster prod started and is not finished (1 of 2 steps done);"},
		{"something overlapped, and it goes on", func(r *v1.Report) { r.Result, r.Steps[0].Result = v1.ResultOverlap, v1.StepResultPending }, "started and is not finished"},
		{"it was rolled back", func(r *v1.Report) {
			r.Result, r.Direction, r.Steps[0].Result, r.Moved = v1.ResultRolledBack, "rollback", v1.StepResultFailed, nil
		}, "On 12 May 2026, the migration of cluster prod was rolled back;"},
		{"the rollback failed", func(r *v1.Report) { r.Result, r.Direction = v1.ResultFailed, "rollback" }, "the rollback of cluster prod failed (2 of 2 steps done);"},
		{"the rollback goes on", func(r *v1.Report) { r.Result, r.Direction = v1.ResultUnfinished, "rollback" }, "the rollback of cluster prod started and is not finished"},
		{"a cluster without a name", func(r *v1.Report) { r.Cluster = v1.Cluster{Context: "admin@x"} }, "of cluster admin@x were"},
		{"nothing is known", func(r *v1.Report) { *r = v1.Report{} }, "Of a migration of cluster (no name) no step is known; what clients noticed was not measured;"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := flawless()
			c.change(&r)
			if got := Sentence(r); !strings.Contains(got, c.want) || strings.Count(got, ".  ") > 0 {
				t.Errorf("the sentence is\n%s\nwant in it\n%s", got, c.want)
			}
		})
	}
}

func TestTheLongestOutageNamesItsPath(t *testing.T) {
	d := v1.Disruption{Paths: []v1.PathDisruption{
		{Kind: v1.PathAPIWatch, Path: "leases", LongestSeconds: 0.05}, {Kind: v1.PathTCP, Path: "shop/web", LongestSeconds: 3},
		{Kind: v1.PathTCP, Path: "shop/api", LongestSeconds: 2},
	}, Unobserved: []v1.Unobserved{{Seconds: 2}, {Seconds: 3}}}
	want := Clients{Seconds: 3, Where: "TCP shop/web", Services: 3, API: 0.05, ServicePaths: 2, APIPaths: 1, Unobserved: 5}
	if got := Noticed(&d); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if Noticed(nil).Measured() {
		t.Error("nothing was probed, and it is measured")
	}
}

func TestTheTimeThatARunTookLeavesOutWhatItWasStopped(t *testing.T) {
	for want, r := range map[string]v1.Report{
		"50.0 s": {DurationSeconds: 50},
		"50.0 s, and 1 h 0 min paused or stopped": {DurationSeconds: 3650, IdleSeconds: 3600},
		"49.5 s": {DurationSeconds: 50, IdleSeconds: 0.5},
	} {
		if got := TimeTaken(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLengthsAreForPeople(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0.0 s", 0.004: "4 ms", 0.98: "980 ms", 1.5: "1.50 s", 754: "12 min 34 s"} {
		if got := Outage(seconds); got != want {
			t.Errorf("Outage(%v) is %q, want %q", seconds, got, want)
		}
	}
}
