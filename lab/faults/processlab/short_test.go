package processlab

import (
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/faults"
	"github.com/transplant-dev/transplant/lab/trial"
)

// The faults of the short version, each at a step where it hurts. The whole matrix is made by make faults.
var (
	onTheWay = []faults.Fault{
		{Kind: faults.LogDiskFull, Point: faults.Before, Step: "create/ServiceAccount/kube-system/cloud-controller-manager"},
		{Kind: faults.ClockWrong, Point: faults.Before, Step: "create/Secret/kube-system/cloud-controller-manager-token", For: 2 * time.Hour},
		{Kind: faults.AccessLost, Point: faults.During, Step: "leader-migration/kube-controller-manager@cp-2", For: 4 * time.Second},
		{Kind: faults.InterruptedTwice, Point: faults.During, Step: "leader-migration/kube-controller-manager@cp-3"},
		{Kind: faults.APIGone, Point: faults.During, Step: "external/kube-controller-manager@cp-2", For: 12 * time.Second},
		{Kind: faults.DiskFull, Point: faults.During, Step: "start/cloud-controller-manager@cp-2", For: 5 * time.Second},
		{Kind: faults.Rebooted, Point: faults.During, Step: "external/kube-apiserver@cp-3", For: 3 * time.Second},
		{Kind: faults.Interrupted, Point: faults.During, Step: "external/kubelet@cp-2"},
		{Kind: faults.HungUp, Point: faults.During, Step: "external/kubelet@cp-3"},
		{Kind: faults.PipeBroken, Point: faults.During, Step: "external/kubelet@worker-1"},
		{Kind: faults.Terminated, Point: faults.During, Step: "finish/cloud-controller-manager@cp-2"},
	}
	onTheWayBack = []faults.Fault{
		{Kind: faults.AccessLost, Point: faults.Before, Step: "undo/finish/cloud-controller-manager@cp-2", For: 4 * time.Second},
		{Kind: faults.APIGone, Point: faults.During, Step: "undo/external/kube-controller-manager@cp-2", For: 12 * time.Second},
		{Kind: faults.Rebooted, Point: faults.During, Step: "undo/start/cloud-controller-manager@cp-2", For: 3 * time.Second},
		{Kind: faults.DiskFull, Point: faults.During, Step: "undo/leader-migration/kube-controller-manager@cp-2", For: 5 * time.Second},
		{Kind: faults.Interrupted, Point: faults.During, Step: "undo/external/kube-apiserver@cp-2"},
	}
)

// One of each fault, and a kill in the middle of every restart and of one step of every other sort; what comes of it is what an undisturbed migration and
// its rollback leave, without two owners on the way.
func TestACommandThatAnythingHappensToIsGoneOnWith(t *testing.T) {
	lab := start(t, strategies[0])
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	var there, back faults.Part
	unkept := func(*faults.Part) error { return nil }
	disturbed(t, lab, &there, unkept, andKilled(onTheWay), nil, strategies[0].apply()...)
	must(t, lab, "verify", "--cloud", trial.Cloud)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	disturbed(t, lab, &back, unkept, andKilled(onTheWayBack), before, rollback()...)
	must(t, lab, "verify", "--cloud", trial.Cloud)
	table := faults.Table{Title: "apply and rollback, short version, " + lab.Name()}
	for _, p := range []*faults.Part{&there, &back} {
		table.Add(faults.Result{Steps: p.Steps, Outcomes: p.Outcomes})
		table.Notes = append(table.Notes, p.Notes...)
	}
	var text strings.Builder
	if err := table.Write(&text); err != nil {
		t.Error(err)
	}
	t.Log("\n" + text.String())
	for _, o := range table.Outcomes {
		if o.Missed {
			t.Errorf("%s at %s:%s never happened", o.Kind, o.Point, o.Step)
		}
	}
	if want := len(onTheWay) + len(onTheWayBack); len(table.Outcomes) < want+20 {
		t.Errorf("%d faults happened, of which %d were asked for", len(table.Outcomes), want)
	}
}

// andKilled adds kills to a list of faults, where the list has none: in the middle of the restarts of every host, and of the first step of every other sort.
func andKilled(list []faults.Fault) func(step, host string) []faults.Fault {
	chosen := faults.These(list)
	points := []string{faults.Before, faults.During, faults.After}
	seen := map[string]bool{}
	return func(step, host string) []faults.Fault {
		if out := chosen(step, host); len(out) > 0 {
			return out
		}
		sort, _, _ := strings.Cut(step, "@")
		if host == "" {
			sort, _, _ = strings.Cut(step, "/")
		}
		restarts := host != "" && !strings.Contains(step, "//") && !strings.Contains(step, "kubelet")
		first := !seen[sort]
		seen[sort] = true
		switch {
		case restarts:
			return []faults.Fault{{Kind: faults.Killed, Point: faults.During, Step: step, Host: host}}
		case first && !strings.HasPrefix(step, "verify/"):
			return []faults.Fault{{Kind: faults.Killed, Point: points[len(seen)%len(points)], Step: step, Host: host}}
		}
		return nil
	}
}
