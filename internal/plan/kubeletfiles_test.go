package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/plan/diff"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const defaults = "/etc/default/kubelet"

// briefEdits are the edits of a step, each with the file where it is not the step's own.
func briefEdits(s v1.Step) string {
	var out []string
	for _, e := range s.Edits {
		text := string(e.Op) + " " + e.Name + " " + e.Value
		if e.Path != "" {
			text += " in " + e.Path
		}
		out = append(out, strings.ReplaceAll(text, "  ", " "))
	}
	return strings.Join(out, "; ")
}

func TestFlagsOfAKubeletAreChangedInTheFilesWhereTheyStand(t *testing.T) {
	const config = "/var/lib/kubelet/config.yaml"
	for _, c := range []struct {
		name   string
		change func(k *v1.Kubelet)
		path   string
		files  []string
		edits  string
	}{
		{"all in one file", func(*v1.Kubelet) {}, kubeletfile.KubeletFlagsFile, nil, "setFlag cloud-provider external; unsetFlag cloud-config "},
		{"all in another file than the others", func(k *v1.Kubelet) {
			k.Sources = map[string]string{"cloud-provider": defaults, "cloud-config": defaults}
		}, defaults, nil, "setFlag cloud-provider external; unsetFlag cloud-config "},
		{"spread over two files", func(k *v1.Kubelet) { k.Sources = map[string]string{"cloud-config": defaults} }, kubeletfile.KubeletFlagsFile, []string{defaults},
			"setFlag cloud-provider external; unsetFlag cloud-config in " + defaults},
		{"one flag in two files", func(k *v1.Kubelet) { k.Also = map[string][]string{"cloud-provider": {defaults}} }, kubeletfile.KubeletFlagsFile, []string{defaults},
			"setFlag cloud-provider external in " + defaults + "; setFlag cloud-provider external; unsetFlag cloud-config "},
		{"a gate in the configuration file", func(k *v1.Kubelet) {
			k.Config.FeatureGates = map[string]bool{catalogue.DisableCloudProviders: false, "Other": true}
		}, kubeletfile.KubeletFlagsFile, []string{config},
			"setFlag cloud-provider external; unsetFlag cloud-config ; unsetGate " + catalogue.DisableCloudProviders + " in " + config},
		{"a gate in a drop-in of the configuration", func(k *v1.Kubelet) {
			k.Config.FeatureGates, k.Config.GateFiles = map[string]bool{catalogue.DisableCloudProviders: false}, map[string]string{catalogue.DisableCloudProviders: "/etc/kubelet.d/10-gates.conf"}
		}, kubeletfile.KubeletFlagsFile, []string{"/etc/kubelet.d/10-gates.conf"},
			"setFlag cloud-provider external; unsetFlag cloud-config ; unsetGate " + catalogue.DisableCloudProviders + " in /etc/kubelet.d/10-gates.conf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := aws26()
			s.Kubeadm = nil
			c.change(s.Hosts[1].Kubelet)
			for _, at := range []string{defaults, config, "/etc/kubelet.d/10-gates.conf"} {
				s.Hosts[1].Kubelet.Files = append(s.Hosts[1].Kubelet.Files, v1.File{Path: at, Present: true, SHA256: sum(at)})
			}
			p := mustMake(t, s, v1.Options{})
			step := find(t, p, "external/kubelet@worker-1")
			if step.Path != c.path || !slices.Equal(step.Files, c.files) || briefEdits(*step) != c.edits {
				t.Errorf("path %s, files %v, edits %q\nwant %s, %v, %q", step.Path, step.Files, briefEdits(*step), c.path, c.files, c.edits)
			}
			for _, at := range c.files {
				if !slices.ContainsFunc(p.Facts, func(f v1.Fact) bool { return f.ID == planstep.FileFact("worker-1", at) && f.Value == sum(at) }) {
					t.Errorf("the plan does not state what %s holds", at)
				}
				if !strings.Contains(strings.Join(step.Manual, "\n"), at) {
					t.Errorf("by hand, %s is not changed: %q", at, step.Manual)
				}
			}
			if _, err := diff.Differences(p, s, nil); err != nil {
				t.Errorf("the difference cannot be shown: %v", err)
			}
		})
	}
}

func TestAGateOfCSIIsSwitchedOnWhereItIsOff(t *testing.T) {
	s := openstack20()
	for i := range s.Hosts {
		s.Hosts[i].Kubelet.Config.FeatureGates = map[string]bool{"CSIMigrationOpenStack": false}
	}
	p := mustMake(t, s, compact[0].options)
	step := find(t, p, "external/kubelet@worker-1")
	e, _ := planstep.LastEdit(*step, flagvalue.FlagFeatureGates)
	gates := flagvalue.ParseGates(e.Value)
	if _, twice := gates["CSIMigrationOpenStack"]; twice ||
		!strings.Contains(briefEdits(*step), "setGate CSIMigrationOpenStack true in /var/lib/kubelet/config.yaml") {
		t.Errorf("edits: %s", briefEdits(*step))
	}
	if !step.Drain {
		t.Error("the node is not drained")
	}
	step.Drain = false
	if err := invariant.Verify(p, s); err == nil || !strings.Contains(err.Error(), "rule P-09") {
		t.Errorf("without a drain: %v", err)
	}
	step.Drain = true
	drop(find(t, p, "external/"+component.KCM+"@cp-3"), flagvalue.FlagFeatureGates)
	if err := invariant.Verify(p, s); err == nil || !strings.Contains(err.Error(), "rule P-07") {
		t.Errorf("with a manager that does not know it: %v", err)
	}
}

func TestWorkersChangeInBatchesThatTheBudgetAllows(t *testing.T) {
	for _, c := range []struct {
		name, budget string
		workers      int
		want         string // the batch of each worker's step; - for one that is done alone
	}{
		{"one at a time unless it was asked for", "", 4, "canary - - -"},
		{"two at a time", "2", 4, "canary kubelets-1 kubelets-1 kubelets-2"},
		{"a share that is less than one node", "5%", 4, "canary - - -"},
		{"half of seven nodes", "50%", 6, "canary kubelets-1 kubelets-1 kubelets-1 kubelets-2 kubelets-2"},
		{"more than there are", "100", 3, "canary kubelets-1 kubelets-1"},
		{"a single worker", "5", 1, "canary"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustMake(t, fleet(c.workers), v1.Options{MaxUnavailable: c.budget, PauseAfterCanary: true})
			var have []string
			for _, s := range p.Steps {
				switch {
				case s.Kind != v1.StepKubelet || !strings.HasPrefix(s.Host, "worker-"):
				case s.Canary:
					have = append(have, "canary")
				case s.Batch == "":
					have = append(have, "-")
				default:
					have = append(have, s.Batch)
				}
			}
			if all := strings.Join(have, " "); all != c.want {
				t.Errorf("%s, want %s", all, c.want)
			}
			if p.Until != "external/kubelet@worker-1" {
				t.Errorf("it pauses behind %q", p.Until)
			}
		})
	}
}

// fleet is a cluster with a control-plane host and some workers.
func fleet(workers int) *v1.Snapshot {
	return kubeadmCluster{
		provider: "aws", version: "v1.26.0", hosts: 1, workers: workers, config: "/etc/kubernetes/cloud.conf", ca: []string{"/etc/ssl/certs"},
		kcm:        map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "configure-cloud-routes": "false"},
		providerID: func(i int, _ string) string { return fmt.Sprintf("aws:///eu-central-1a/i-%017d", i) },
	}.snapshot()
}

// TestNoBatchIsLargerThanItsBudget makes plans of clusters and budgets by chance: P-06 is among the rules that each is held to.
func TestNoBatchIsLargerThanItsBudget(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same every time
	for range 60 {
		workers := 1 + dice.IntN(40)
		budget := fmt.Sprint(1 + dice.IntN(50))
		if dice.IntN(2) == 0 {
			budget = fmt.Sprint(1+dice.IntN(100)) + "%"
		}
		p := mustMake(t, fleet(workers), v1.Options{MaxUnavailable: budget})
		size, all := map[string]int{}, 0
		for _, s := range p.Steps {
			if s.Batch != "" {
				size[s.Batch]++
			}
			if s.Kind == v1.StepKubelet {
				all++
			}
		}
		for name, n := range size {
			if n > options.MaxUnavailable(p.Options, workers+1) {
				t.Errorf("%d workers, budget %s: batch %s has %d nodes", workers, budget, name, n)
			}
		}
		if all != workers+1 {
			t.Errorf("%d workers, budget %s: %d kubelets change", workers, budget, all)
		}
	}
}

func TestEveryFileThatStartsAKubeletIsAFactOfItsChange(t *testing.T) {
	const config, unit = "/var/lib/kubelet/config.yaml", "/usr/lib/systemd/system/kubelet.service"
	s := aws26()
	k := s.Hosts[1].Kubelet
	k.Config = &v1.KubeletConfig{Path: config}
	k.Files = nil
	for _, at := range []string{unit, kubeletfile.KubeletFlagsFile, defaults, config} {
		k.Files = append(k.Files, v1.File{Path: at, Present: true, SHA256: sum(at)})
	}
	p := mustMake(t, s, v1.Options{})
	host := s.Hosts[1].Name
	i := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepKubelet && s.Host == host })
	if i < 0 {
		t.Fatal("no step changes the kubelet")
	}
	values := map[string]string{}
	for _, f := range p.Facts {
		values[f.ID] = f.Value
	}
	for id, want := range map[string]string{
		planstep.FileFact(host, unit): sum(unit), planstep.FileFact(host, defaults): sum(defaults), planstep.FileFact(host, config): sum(config),
		planstep.KubeletFilesFact(host): defaults + " " + unit + " " + kubeletfile.KubeletFlagsFile,
	} {
		if values[id] != want || !slices.Contains(p.Steps[i].Requires, id) {
			t.Errorf("fact %s is %q, not %q, or the step does not require it: %q", id, values[id], want, p.Steps[i].Requires)
		}
	}
}
