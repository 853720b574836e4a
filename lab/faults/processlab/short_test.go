package processlab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/faults"
)

// The faults of the short version, each at a step where it hurts, in the lab with the fewest processes. The whole matrix, with every strategy, is made by
// make faults.
var (
	onTheWay = []faults.Fault{
		{Kind: faults.LogDiskFull, Point: faults.Before, Step: "create/ServiceAccount/kube-system/cloud-controller-manager"},
		{Kind: faults.ClockWrong, Point: faults.Before, Step: "write//etc/kubernetes/cloud-controller-manager/token@cp-1", For: 2 * time.Hour},
		{Kind: faults.InterruptedTwice, Point: faults.During, Step: "stop/kube-controller-manager@cp-1"},
		{Kind: faults.Rebooted, Point: faults.During, Step: "external/kube-apiserver@cp-1", For: 3 * time.Second},
		{Kind: faults.APIGone, Point: faults.During, Step: "external/kube-controller-manager@cp-1", For: 8 * time.Second},
		{Kind: faults.DiskFull, Point: faults.During, Step: "start/cloud-controller-manager@cp-1", For: 5 * time.Second},
		{Kind: faults.AccessLost, Point: faults.During, Step: "external/kubelet@cp-1", For: 4 * time.Second},
		{Kind: faults.Interrupted, Point: faults.During, Step: "external/kubelet@worker-1"},
		{Kind: faults.PipeBroken, Point: faults.During, Step: "external/kubelet@worker-2"},
		{Kind: faults.HungUp, Point: faults.During, Step: "patch/ConfigMap/kube-system/kubeadm-config/apiServer"},
		{Kind: faults.Terminated, Point: faults.During, Step: "patch/ConfigMap/kube-system/kubeadm-config/controllerManager"},
	}
	onTheWayBack = []faults.Fault{
		{Kind: faults.AccessLost, Point: faults.During, Step: "undo/external/kubelet@worker-1", For: 4 * time.Second},
		{Kind: faults.Interrupted, Point: faults.During, Step: "undo/stop/stop/kube-controller-manager@cp-1"},
	}
)

// One of each fault, and a kill in the middle of every other restart and at one step of every other sort; what comes of it is what an undisturbed migration
// and its rollback leave, without two owners on the way.
func TestACommandThatAnythingHappensToIsGoneOnWith(t *testing.T) {
	s := strategies[len(strategies)-1]
	lab := start(t, s)
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	var table faults.Table
	for _, way := range []struct {
		choose []faults.Fault
		want   []string
		args   []string
	}{{onTheWay, nil, s.apply()}, {onTheWayBack, before, rollback()}} {
		part := &faults.Part{Campaign: "short"}
		part.Title = "apply and rollback, short version, " + lab.Name()
		disturbed(t, lab, part, func(*faults.Part) error { return nil }, andKilled(way.choose), way.want, way.args...)
		if err := part.Verified(t.Context(), lab.verify); err != nil {
			t.Error(err)
		}
		if err := lab.Check(cloud); err != nil {
			t.Error(err)
		}
		table.Join(part)
	}
	var text strings.Builder
	if err := table.Write(&text); err != nil {
		t.Error(err)
	}
	t.Log("\n" + text.String())
	made := map[faults.Kind]int{}
	for _, o := range table.Outcomes {
		made[o.Kind]++
		if o.Missed {
			t.Errorf("%s at %s:%s never happened", o.Kind, o.Point, o.Step)
		}
	}
	for _, f := range append(slices.Clone(onTheWay), onTheWayBack...) {
		made[f.Kind]--
	}
	for kind, more := range made {
		if kind != faults.Killed && more != 0 || kind == faults.Killed && more < 8 {
			t.Errorf("%s: %d more than asked for", kind, more)
		}
	}
	for _, kind := range append(slices.Clone(faults.OfTheCluster), faults.OfTheOperator...) {
		if _, ok := made[kind]; !ok {
			t.Errorf("%s never happened", kind)
		}
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
