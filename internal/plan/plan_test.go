package plan

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, p *v1.Plan) {
	t.Helper()
	have, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("the plan is not that in %s; review the difference and run go test ./internal/plan -update (-golden +now):\n%s", path, diff)
	}
}

func TestThePlanOfALab(t *testing.T) {
	golden(t, "lab.plan.yaml", mustMake(t, lab(t), labOptions()))
}

func TestTheSameSnapshotGivesTheSameBytes(t *testing.T) {
	var first []byte
	for i := range 20 {
		data, err := yaml.Marshal(mustMake(t, lab(t), labOptions()))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
		} else if diff := cmp.Diff(string(first), string(data)); diff != "" {
			t.Fatalf("plan %d differs:\n%s", i, diff)
		}
	}
}

func TestTheOwnersHostComesLast(t *testing.T) {
	for owner, want := range map[string][]string{
		"cp-1": {"cp-2", "cp-3", "cp-1"}, "cp-2": {"cp-1", "cp-3", "cp-2"}, "cp-3": {"cp-1", "cp-2", "cp-3"}, "": {"cp-1", "cp-2", "cp-3"},
	} {
		t.Run("owner "+owner, func(t *testing.T) {
			s := lab(t)
			for i := range s.Managers {
				s.Managers[i].Leads = nil
				if s.Managers[i].Host == owner {
					s.Managers[i].Leads = []string{component.KCM}
				}
			}
			p := mustMake(t, s, labOptions())
			for _, prefix := range []string{"leader-migration/", "external/" + component.KCM, "external/" + component.KAS, "start/", "finish/"} {
				if diff := cmp.Diff(want, hostsOf(p, prefix)); diff != "" {
					t.Errorf("%s (-want +have):\n%s", prefix, diff)
				}
			}
		})
	}
}

func TestTheOrderOnEachHost(t *testing.T) {
	p := mustMake(t, lab(t), labOptions())
	at := positions(p)
	for _, host := range []string{"cp-1", "cp-2", "cp-3"} {
		order := []string{
			"create/RoleBinding/kube-system/" + layout.MigrationRole, // a manager that may not use the lease runs no loop, and nothing says so
			"leader-migration/" + component.KCM + "@" + host,
			"external/" + component.KCM + "@" + host,
			"external/" + component.KAS + "@" + host, // no API server is restarted under an owner
			"start/" + component.CCM + "@" + host,
			"verify/handed-over",
			"finish/" + component.CCM + "@" + host,
			"remove/" + layout.CCMMigration + "@" + host, // not while a manager names it
			"delete/Lease/kube-system/" + component.MigrationLease,
			"delete/RoleBinding/kube-system/" + layout.MigrationRole,
		}
		for i := 1; i < len(order); i++ {
			before, ok := at[order[i-1]]
			after, ok2 := at[order[i]]
			if !ok || !ok2 || before >= after {
				t.Errorf("step %s (%d) must come before %s (%d)", order[i-1], before, order[i], after)
			}
		}
		for _, file := range []string{layout.KCMMigration, layout.CCMMigration, layout.CCMCloudConf, layout.CCMKubeconfig} {
			if at["write/"+file+"@"+host] >= at["leader-migration/"+component.KCM+"@"+host] {
				t.Errorf("%s must be on host %s before a manager is told of it", file, host)
			}
		}
	}
	// Leader migration reaches every host before the first one goes external; on the owner's host another one's CCM runs by then.
	if at["leader-migration/"+component.KCM+"@cp-2"] > at["external/"+component.KCM+"@cp-1"] {
		t.Error("a manager without leader migration is left when the first one goes external")
	}
	for _, host := range []string{"cp-1", "cp-3"} {
		if at["start/"+component.CCM+"@"+host] > at["external/"+component.KCM+"@cp-2"] {
			t.Errorf("%s on %s must run before the owner's %s is made external", component.CCM, host, component.KCM)
		}
	}
}

func TestEveryStepRequiresWhatItWasMadeFrom(t *testing.T) {
	p := mustMake(t, lab(t), labOptions())
	facts := map[string]v1.Fact{}
	for _, f := range p.Facts {
		facts[f.ID] = f
	}
	seen := map[string]bool{}
	for _, s := range p.Steps {
		if seen[s.ID] {
			t.Errorf("step %s is there twice", s.ID)
		}
		seen[s.ID] = true
		if s.Title == "" || s.Phase == "" {
			t.Errorf("step %s has no title or phase", s.ID)
		}
		required := map[string]bool{}
		for _, id := range s.Requires {
			required[id] = true
			if _, ok := facts[id]; !ok {
				t.Errorf("step %s requires %s, which the plan does not state", s.ID, id)
			}
		}
		switch s.Kind {
		case v1.StepEditManifest, v1.StepAddManifest, v1.StepWriteFile, v1.StepRemoveFile, v1.StepKubelet:
			if !required[planstep.FileFact(s.Host, s.Path)] || !required["cluster:uid"] {
				t.Errorf("step %s changes %s on %s and requires only %v", s.ID, s.Path, s.Host, s.Requires)
			}
			if s.Source != "" && !planstep.IsToken(s) && !required[planstep.FileFact(s.Host, s.Source)] {
				t.Errorf("step %s derives from %s and does not require it", s.ID, s.Source)
			}
			if s.Undo == "" {
				t.Errorf("step %s does not say how it is undone", s.ID)
			}
		default:
		}
		if len(s.Leases) > 0 && (s.Group == "" || len(s.Successors) == 0) {
			t.Errorf("step %s restarts an owner and has no group or successor", s.ID)
		}
	}
	if f := facts[planstep.FileFact("cp-1", "/etc/kubernetes/manifests/kube-controller-manager.yaml")]; !strings.Contains(f.Detail, "\n--cloud-provider=aws\n") ||
		len(f.Value) != 64 {
		t.Errorf("the fact of a manifest names its arguments, so that a change can be named; it is %+v", f)
	}
	if f := facts[planstep.FileFact("cp-1", layout.CCMManifest)]; f.Value != "absent" {
		t.Errorf("the fact of a file that is not there is %+v", f)
	}
}

func TestAPlanHoldsNoSecret(t *testing.T) {
	data, err := yaml.Marshal(mustMake(t, lab(t), labOptions()))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"SECRET_ACCESS_KEY=", "lab-only", "AKIA", "BEGIN ", "eyJ"} {
		if strings.Contains(string(data), word) {
			t.Errorf("the plan contains %q", word)
		}
	}
}

func TestTheNewManagerGetsWhatTheOldOneHad(t *testing.T) {
	s := cluster(func(s *v1.Snapshot) {
		for h := range s.Hosts {
			for k, v := range map[string]string{"cluster-cidr": "10.1.0.0/16", "configure-cloud-routes": "false", "node-monitor-period": "7s", "leader-elect-retry-period": "3s"} {
				kcmOf(s, h).Flags[k] = v
			}
		}
	})
	p := mustMake(t, s, v1.Options{ClusterName: "other", Env: []string{"AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/{host}.credentials"}})
	at := positions(p)
	manifest := p.Steps[at["start/"+component.CCM+"@cp-1"]].Content
	for _, part := range []string{"--cluster-cidr=10.1.0.0/16", "--configure-cloud-routes=false", "--node-monitor-period=7s", "--cluster-name=other", "--bind-address=10.0.0.1",
		"--leader-elect-retry-period=250ms", "/etc/kubernetes/cp-1.credentials", options.DefaultImage} {
		if !strings.Contains(manifest, part) {
			t.Errorf("the manifest has no %s:\n%s", part, manifest)
		}
	}
	want := []v1.Edit{
		{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "cloud-config"}, {Op: v1.EditUnsetFlag, Name: "enable-leader-migration"},
		{Op: v1.EditUnsetFlag, Name: "leader-migration-config"}, {Op: v1.EditSetFlag, Name: "leader-elect-retry-period", Value: "3s"},
		{Op: v1.EditUnsetFlag, Name: "leader-elect-renew-deadline"}, {Op: v1.EditRemoveHostPath, Name: "transplant-leader-migration", Value: layout.KCMMigration},
	}
	if diff := cmp.Diff(want, p.Steps[at["external/"+component.KCM+"@cp-1"]].Edits); diff != "" {
		t.Errorf("an election period that was there comes back, one that was not goes (-want +have):\n%s", diff)
	}
	expect := p.Steps[at["verify/handed-over"]].Expect
	if diff := cmp.Diff(map[string]string{"service": component.CCM, "cloud-node-lifecycle": component.CCM, "nodeipam": component.KCM}, expect); diff != "" {
		t.Errorf("a loop that did not run before is not waited for (-want +have):\n%s", diff)
	}
}

func TestLeaderMigrationIsKeptWhenAskedTo(t *testing.T) {
	p := mustMake(t, cluster(), v1.Options{KeepLeaderMigration: true})
	for _, s := range p.Steps {
		if s.Phase == planstep.PhaseFinish {
			t.Errorf("step %s finishes what was to be kept", s.ID)
		}
	}
	if last := p.Steps[len(p.Steps)-1].ID; last != "verify/handed-over" {
		t.Errorf("the last step is %s", last)
	}
}

func TestPartsThatAreExternalAlreadyAreLeftAlone(t *testing.T) {
	p := mustMake(t, cluster(func(s *v1.Snapshot) {
		s.Hosts[0].Kubelet.Flags["cloud-provider"] = "external"
		s.Hosts[1].Kubelet.Error = "no flags"
		clusterview.FindComponent(s.Hosts[0], component.KAS).Flags["cloud-provider"] = ""
		clusterview.FindComponent(s.Hosts[1], component.KAS).Flags["cloud-config"] = "/etc/kubernetes/cloud.conf"
	}), v1.Options{})
	if have := hostsOf(p, "external/kubelet@"); have != nil {
		t.Errorf("kubelets of %v are changed", have)
	}
	if diff := cmp.Diff([]string{"cp-2"}, hostsOf(p, "external/"+component.KAS)); diff != "" {
		t.Errorf("API servers (-want +have):\n%s", diff)
	}
	edits := p.Steps[positions(p)["external/"+component.KAS+"@cp-2"]].Edits
	if len(edits) != 2 || edits[1] != (v1.Edit{Op: v1.EditUnsetFlag, Name: "cloud-config"}) {
		t.Errorf("the API server keeps a cloud config that nothing reads: %v", edits)
	}
}

func TestOnlyFindingsThatDidNotPassGoIntoThePlan(t *testing.T) {
	p, err := Make(
		cluster(),
		v1.Options{},
		[]v1.Finding{{Code: "A", Outcome: v1.Pass}, {Code: "B", Outcome: v1.Warn}, {Code: "C", Outcome: v1.Skip}, {Code: "D", Outcome: v1.Fail}},
		now,
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Findings) != 2 || p.Findings[0].Code != "B" || p.Findings[1].Code != "D" {
		t.Errorf("findings: %+v", p.Findings)
	}
}
