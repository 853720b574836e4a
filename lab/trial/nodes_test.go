package trial

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Workers change in the runs that name them, the canary first, and the command without a name changes the others.
func TestAnApplyForSomeWorkersLeavesTheOthers(t *testing.T) {
	t.Parallel()
	lab := ownLab(t, Options{ControlPlanes: 1, Workers: 3})
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	applied := func(code int, more ...string) string {
		t.Helper()
		return cli(t, lab, code, nil, apply(append([]string{"--strategy", planstep.Downtime}, more...)...)...).Stderr
	}
	plane, canary, others := kubeletSteps(t, lab)
	refused := func(node, why string) {
		t.Helper()
		external := externalKubelets(t, lab)
		if said := applied(1, "--node", node); !strings.Contains(said, why) {
			t.Errorf("--node %s is refused with %q, want %q", node, said, why)
		}
		if now := externalKubelets(t, lab); !slices.Equal(now, external) {
			t.Errorf("the refused run has changed kubelets: external were %v, are %v", external, now)
		}
	}
	areExternal := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		if have := externalKubelets(t, lab); !slices.Equal(have, want) {
			t.Errorf("external are the kubelets of %v, want %v", have, want)
		}
	}

	refused(canary.Host, "none was started on this cluster")
	applied(0, "--until", plane.ID)
	areExternal(plane.Host)
	refused(plane.Host, "this host is of the control plane")
	refused("worker-9", "the plan changes no worker of this name")
	refused(others[1].Host, canary.Host+" is the first worker, and no other one changes before it")
	applied(0, "--node", canary.Host, "--node", others[1].Host)
	areExternal(plane.Host, canary.Host, others[1].Host)
	refused(others[1].Host, "nothing is left to do on "+others[1].Host)
	applied(0)
	areExternal(plane.Host, canary.Host, others[0].Host, others[1].Host)
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}

	cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	areExternal()
	settled(t, lab)
	unchanged(t, lab, before)
}

// kubeletSteps returns the steps of a plan that change kubelets: that of the control plane, of the first worker, and of the others.
func kubeletSteps(t *testing.T, lab *Trial) (plane, canary v1.Step, others []v1.Step) {
	t.Helper()
	for _, s := range steps(t, lab, "--strategy", planstep.Downtime) {
		switch {
		case s.Kind != v1.StepKubelet:
		case s.Host == lab.ControlPlanes()[0].Name:
			plane = s
		case s.Canary:
			canary = s
		default:
			others = append(others, s)
		}
	}
	if plane.ID == "" || canary.ID == "" || len(others) != 2 {
		t.Fatalf("steps of kubelets: %+v, %+v, %+v", plane, canary, others)
	}
	return plane, canary, others
}

// externalKubelets are the hosts whose running kubelet has the external provider, sorted.
func externalKubelets(t *testing.T, lab *Trial) []string {
	t.Helper()
	var out []string
	for _, h := range lab.Hosts() {
		f, running := h.Kubelet.Flags()
		if !running {
			t.Errorf("no kubelet runs on %s", h.Name)
		}
		if f.CloudProvider == "external" {
			out = append(out, h.Name)
		}
	}
	slices.Sort(out)
	return out
}
