package printer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// workersPlan has a control plane of one host and 40 workers: worker-1 is the canary, and the others come in batches of four.
func workersPlan(changes ...func(*v1.Plan)) *v1.Plan {
	kubelet := func(host string) v1.Step {
		return v1.Step{
			ID: "external/kubelet@" + host, Phase: planstep.PhaseKubelets, Kind: v1.StepKubelet, Component: component.Kubelet, Host: host,
			Title: "make the kubelet on " + host + " external", Path: "/var/lib/kubelet/kubeadm-flags.env", Undo: "put the flags back",
			Edits:   []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
			Changes: []v1.Change{{Field: "--cloud-provider", Before: "aws", After: "external"}},
		}
	}
	p := &v1.Plan{Direction: planstep.Forward, Strategy: planstep.LeaderMigration, Options: v1.Options{MaxUnavailable: "10%", Soak: "10m"}}
	p.Steps = append(p.Steps, v1.Step{
		ID: "external/kube-controller-manager@cp-1", Phase: planstep.PhaseHandover, Kind: v1.StepEditManifest, Component: component.KCM, Host: "cp-1",
		Title: "make kube-controller-manager on cp-1 external", Undo: "put the manifest back", Expect: map[string]string{"service": ""},
	}, kubelet("cp-1"))
	for i := range 40 {
		s := kubelet(fmt.Sprintf("worker-%d", i+1))
		if s.Canary = i == 0; !s.Canary {
			s.Batch = fmt.Sprintf("kubelets-%d", (i+3)/4)
		}
		p.Steps = append(p.Steps, s)
	}
	p.Steps = append(p.Steps, v1.Step{
		ID: "verify", Phase: planstep.PhaseVerify, Kind: v1.StepVerify, Title: "each loop has one owner",
		Expect: map[string]string{"service": component.CCM, "route": v1.NotIn(component.KCM)},
	})
	for _, change := range changes {
		change(p)
	}
	return p
}

// onWorkers changes the steps of some workers, by their numbers.
func onWorkers(is func(n int) bool, change func(s *v1.Step)) func(*v1.Plan) {
	return func(p *v1.Plan) {
		for i := range p.Steps {
			var n int
			if _, err := fmt.Sscanf(p.Steps[i].Host, "worker-%d", &n); err == nil && is(n) {
				change(&p.Steps[i])
			}
		}
	}
}

func numbers(some ...int) func(int) bool { return func(n int) bool { return slices.Contains(some, n) } }

// planText is a plan as it is printed, from its first phase to the line of its sum.
func planText(t *testing.T, p *v1.Plan, l Layout) string {
	t.Helper()
	var b strings.Builder
	if err := PrintPlan(&b, p, l); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(b.String(), "phase 1  ")
	text, _, _ = strings.Cut(text, "plan sha256")
	return "phase 1  " + text
}

func TestAPlanForManyWorkersIsShort(t *testing.T) {
	const change, at = "        change: --cloud-provider: aws -> external\n", "        at: /var/lib/kubelet/kubeadm-flags.env\n"
	every := func(int) bool { return true }
	for name, c := range map[string]struct {
		change func(*v1.Plan)
		want   string
	}{
		"all change the same": {func(*v1.Plan) {}, "  39 workers in 10 batches of up to 4: --cloud-provider: aws -> external (-v shows them)\n"},
		"one batch": {onWorkers(every, func(s *v1.Step) { s.Batch = "kubelets-1" }),
			"  39 workers in one batch: --cloud-provider: aws -> external (-v shows them)\n"},
		"one at a time": {onWorkers(every, func(s *v1.Step) { s.Batch = "" }),
			"  39 workers, one at a time: --cloud-provider: aws -> external (-v shows them)\n"},
		"each is drained": {onWorkers(func(n int) bool { return n > 1 }, func(s *v1.Step) { s.Drain = true }),
			"  39 workers in 10 batches of up to 4, each drained before its change: --cloud-provider: aws -> external (-v shows them)\n"},
		"each gets its own name": {onWorkers(func(n int) bool { return n > 1 }, func(s *v1.Step) {
			s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "hostname-override", Value: s.Host})
			s.Changes = append(s.Changes, v1.Change{Field: "--hostname-override", After: s.Host})
		}), "  39 workers in 10 batches of up to 4: --cloud-provider: aws -> external, --hostname-override={host} (-v shows them)\n"},
		"two kinds of changes": {
			onWorkers(func(n int) bool { return n%2 == 0 }, func(s *v1.Step) {
				s.Edits = append(s.Edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "cloud-config"})
				s.Changes = append(s.Changes, v1.Change{Field: "--cloud-config", Before: "/etc/kubernetes/cloud.conf"})
			}),
			"  39 workers in 10 batches of up to 4 (-v shows them)\n" +
				"    ~ 20 workers\n        change: --cloud-provider: aws -> external, no --cloud-config\n" + at +
				"    ~ 19 workers\n" + change + at,
		},
		"some are drained, and one has its flags elsewhere": {
			func(p *v1.Plan) {
				onWorkers(numbers(5, 9), func(s *v1.Step) { s.Drain = true })(p)
				onWorkers(numbers(7), func(s *v1.Step) { s.Path = "/etc/default/kubelet" })(p)
			},
			"  39 workers in 10 batches of up to 4 (-v shows them)\n" +
				"    ~ 36 workers\n" + change + at +
				"    ~ 2 workers, each drained before its change\n" + change + at +
				"    ~ make the kubelet on worker-7 external\n" + change + "        at: /etc/default/kubelet\n",
		},
		"apply stops among them": {
			func(p *v1.Plan) { p.Until = "external/kubelet@worker-21" },
			"  20 workers in 5 batches of up to 4: --cloud-provider: aws -> external (-v shows them)\n" +
				"  -- apply stops here; the next one goes on with kubelets (19), verify (1)\n" +
				"  19 workers in 5 batches of up to 4: --cloud-provider: aws -> external (-v shows them)\n",
		},
	} {
		want := "phase 1  handover · reversible\n" +
			"  host cp-1\n    ~ make kube-controller-manager on cp-1 external\n" +
			"phase 2  kubelets · reversible · canary worker-1, watched for 10m · maxUnavailable 10%\n" +
			"  host cp-1\n    ~ make the kubelet on cp-1 external\n" + change + at +
			"  host worker-1\n    ~ make the kubelet on worker-1 external\n" + change + at + c.want +
			"phase 3  verify\n    = each loop has one owner\n" +
			"plan: 0 to add, 42 to change, 0 to remove · 43 steps, 43 reversible · valid while its 0 facts hold\n"
		if diff := cmp.Diff(want, planText(t, workersPlan(c.change), Layout{Folded: true})); diff != "" {
			t.Errorf("%s (-want +have):\n%s", name, diff)
		}
	}
}

// TestEachWorkerIsPrintedWhereThatIsAskedFor, and where others may have written the plan: it is read before it is approved.
func TestEachWorkerIsPrintedWhereThatIsAskedFor(t *testing.T) {
	p := workersPlan()
	var unseen strings.Builder
	if err := PrintUnseen(&unseen, p, Layout{Folded: true}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"of a journal": unseen.String(),
		"with -v":      planText(t, p, Layout{Folded: true, Verbose: true}),
		"-o wide":      planText(t, p, Layout{Folded: true, Wide: true}),
		"not made":     planText(t, p, Layout{}),
	} {
		if n := strings.Count(text, "    ~ make the kubelet on worker-"); n != 40 || strings.Contains(text, "39 workers") {
			t.Errorf("%s: %d of 40 workers are printed:\n%.2000s", name, n, text)
		}
	}
	for _, claim := range []string{"reversible", "canary", "maxUnavailable"} {
		if strings.Contains(unseen.String(), claim) {
			t.Errorf("a journal's plan is believed what it says of itself: %q:\n%.2000s", claim, unseen.String())
		}
	}
}

func TestWhatVerifiesAStepIsPrintedWithDetails(t *testing.T) {
	for _, l := range []Layout{{Verbose: true}, {Wide: true}} {
		text := planText(t, workersPlan(), l)
		for part, times := range map[string]int{
			"        verified: exactly one manager runs service\n":                                                           1,
			"        verified: cloud-controller-manager runs service; no kube-controller-manager runs route\n":               1,
			"        verified: the kubelet runs with these flags, and its node is Ready with the uid, providerID, addresses": 41,
		} {
			if n := strings.Count(text, part); n != times {
				t.Errorf("%+v: it says %d times, not %d: %s:\n%.3000s", l, n, times, part, text)
			}
		}
	}
	if text := planText(t, workersPlan(), Layout{Folded: true}); strings.Contains(text, "verified:") {
		t.Errorf("without details:\n%s", text)
	}
}

func TestAPhaseSaysWhetherItCanBeTakenBack(t *testing.T) {
	p := &v1.Plan{Direction: planstep.Forward, Steps: []v1.Step{
		{ID: "a", Phase: "handover", Kind: v1.StepEditManifest, Undo: "x"},
		{ID: "b", Phase: "nodes", Kind: v1.StepInitializeNode, Undo: "x"},
		{ID: "c", Phase: "nodes", Kind: v1.StepInitializeNode, Undo: "x"},
		{ID: "d", Phase: "replace", Kind: v1.StepAwait, Undo: "x", Await: &v1.Await{}},
		{ID: "e", Phase: "verify", Kind: v1.StepVerify},
	}}
	text := planText(t, p, Layout{})
	for _, line := range []string{
		"phase 1  handover · reversible\n", "phase 2  nodes · not reversible: 2 steps\n", "phase 3  replace\n", "phase 4  verify\n",
		" · 5 steps, 3 reversible · ",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("it does not say %q:\n%s", line, text)
		}
	}
	var back strings.Builder
	p.Direction, p.Steps = planstep.Rollback, p.Steps[:1]
	if err := PrintPlan(&back, p, Layout{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"irreversible  nothing: you can migrate again\nphase 1  handover\n", " · 1 step · "} {
		if !strings.Contains(back.String(), line) {
			t.Errorf("a rollback does not say %q:\n%s", line, back.String())
		}
	}
}

func TestThePhaseOfKubeletsNamesItsCanaries(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Plan)
		want   string
	}{
		"no worker":    {func(p *v1.Plan) { p.Steps = p.Steps[:2] }, "kubelets · reversible\n"},
		"the defaults": {func(p *v1.Plan) { p.Options = v1.Options{} }, "kubelets · reversible · canary worker-1, watched for 10s · maxUnavailable 1\n"},
		"not watched":  {func(p *v1.Plan) { p.Options.Soak = "0s" }, "kubelets · reversible · canary worker-1 · maxUnavailable 10%\n"},
		"of several kinds": {onWorkers(numbers(2, 3, 4), func(s *v1.Step) { s.Canary, s.Batch = true, "" }),
			"kubelets · reversible · canaries worker-1, worker-2, worker-3 and 1 more, each watched for 10m · maxUnavailable 10%\n"},
	} {
		if text := planText(t, workersPlan(c.change), Layout{}); !strings.Contains(text, "phase 2  "+c.want) {
			t.Errorf("%s: it does not say %q:\n%.1000s", name, c.want, text)
		}
	}
}
