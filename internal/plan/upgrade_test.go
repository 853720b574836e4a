package plan

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/hosted"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// awsUpgrade is an HA cluster of 1.26 with flags and gates that 1.27 no longer takes.
func awsUpgrade() *v1.Snapshot {
	s := kubeadmCluster{
		provider: "aws", version: "v1.26.0", hosts: 3, workers: 2, config: "/etc/kubernetes/cloud.conf", ca: []string{"/etc/ssl/certs"},
		kas: map[string]string{"feature-gates": "ExpandPersistentVolumes=true,APIServerTracing=true", "master-service-namespace": "default"},
		kcm: map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "pod-eviction-timeout": "2m0s", "enable-taint-manager": "true",
			"feature-gates": "IdentifyPodOS=true"},
		providerID: func(i int, _ string) string { return fmt.Sprintf("aws:///eu-central-1a/i-%017d", i) },
	}.snapshot()
	s.Kubeadm.ClusterConfiguration += "kubernetesVersion: v1.26.0\n"
	return s
}

func TestAnUpgradeOnTheWayIsRefused(t *testing.T) {
	image := func(name, ref string) func(*v1.Snapshot) {
		return func(s *v1.Snapshot) { clusterview.FindComponent(s.Hosts[1], name).Image = ref }
	}
	flag := func(name, flag, value string) func(*v1.Snapshot) {
		return func(s *v1.Snapshot) {
			for _, h := range s.Hosts {
				if c := clusterview.FindComponent(h, name); c != nil {
					c.Flags[flag] = value
				}
			}
		}
	}
	for _, c := range []struct {
		name, target string
		change       func(*v1.Snapshot)
		want         []string
	}{
		{"two minors up", "v1.28.0", nil, []string{"each of 9 components (kube-apiserver on host cp-1, ", "6 more) is v1.26.0", "one minor version at a time", "v1.27 first"}},
		{"a minor down", "v1.25.4", nil, []string{"is not taken back to v1.25.4"}},
		{"a patch down", "v1.26.0", image(component.KAS, "registry.k8s.io/kube-apiserver:v1.26.3"), []string{"kube-apiserver on host cp-2 is v1.26.3"}},
		{"no version", "latest", nil, []string{`target version "latest"`}},
		{"a digest", "v1.27.4", image(component.KCM, "registry.k8s.io/kube-controller-manager@sha256:"+strings.Repeat("ab", 32)), []string{"named by its digest"}},
		{"a tag and a digest", "v1.27.4", image(component.KCM, "registry.k8s.io/kube-controller-manager:v1.26.0@sha256:"+strings.Repeat("ab", 32)), []string{"kube-controller-manager on host cp-2", "named by its digest"}},
		{"a tag of a distribution", "v1.27.4", image(component.Scheduler, "example.org/kube-scheduler:v1.26.0-acme.1"), []string{"kube-scheduler on host cp-2", "its name for v1.27.4 is not known"}},
		{"a unit", "v1.27.4", func(s *v1.Snapshot) {
			c := clusterview.FindComponent(s.Hosts[2], component.KAS)
			c.Runs, c.Unit = v1.RunsSystemd, "kube-apiserver.service"
		}, []string{"kube-apiserver on host cp-3 runs as unit kube-apiserver.service", "transplant does not install its program"}},
		{"a flag that nobody knows", "v1.27.4", flag(component.KAS, "acme-mode", "on"), []string{"--acme-mode is in no version of kube-apiserver", "remove it from the manifests"}},
		{"a gate that nobody knows", "v1.27.4", flag(component.KCM, "feature-gates", "AcmeMode=true"), []string{"the feature gate AcmeMode is not known"}},
		{"a kind of lock that ends", "v1.27.4", func(s *v1.Snapshot) {
			flag(component.KCM, "leader-elect-resource-lock", "endpoints")(s)
		}, []string{"--leader-elect-resource-lock=endpoints"}},
		{"an old kubelet", "v1.27.4", func(s *v1.Snapshot) { s.Nodes[4].KubeletVersion = "v1.24.3" }, []string{"worker-2 (v1.24.3)", "1.25 at least"}},
		{"volumes that the provider still attaches", "v1.27.4", func(s *v1.Snapshot) {
			inTree(s, "kubernetes.io/aws-ebs", "worker-1")
			for _, h := range s.Hosts {
				if h.Kubelet != nil {
					h.Kubelet.Version = "v1.25.0"
					h.Kubelet.Flags["feature-gates"] = "CSIMigrationAWS=false"
				}
			}
		}, []string{"volumes of kubernetes.io/aws-ebs", "no in-tree provider aws"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := awsUpgrade()
			if c.change != nil {
				c.change(s)
			}
			_, err := Make(s, v1.Options{TargetVersion: c.target}, nil, now)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it should say %q: %v", want, err)
				}
			}
		})
	}
}

func TestAControlPlaneOfDeploymentsIsNotUpgradedOnTheWay(t *testing.T) {
	if err := hosted.RefuseUpgrade(v1.Options{TargetVersion: "v1.27.4"}); err == nil || !strings.Contains(err.Error(), "leave out --target-version") {
		t.Error(err)
	}
	if err := hosted.RefuseUpgrade(v1.Options{}); err != nil {
		t.Error(err)
	}
}

func TestAMirroredImageKeepsItsRegistry(t *testing.T) {
	s := awsUpgrade()
	for i := range 3 {
		clusterview.FindComponent(s.Hosts[i], component.KAS).Image = "registry.example:5000/k8s/kube-apiserver:1.26.0"
	}
	p := mustMake(t, s, v1.Options{TargetVersion: "v1.27.4"})
	if c := find(t, p, "external/"+component.KAS).Changes[0]; c.After != "registry.example:5000/k8s/kube-apiserver:1.27.4" {
		t.Errorf("%+v", c)
	}
}

func TestACustomManagerHasToFitTheNewVersion(t *testing.T) {
	_, err := Make(awsUpgrade(), v1.Options{TargetVersion: "v1.27.4", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.28.1"}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "of 1.28, which does not fit API servers of v1.27.4") {
		t.Error(err)
	}
}

func TestAVersionThatIsThereAlreadyChangesNoImage(t *testing.T) {
	with, without := mustMake(t, awsUpgrade(), v1.Options{TargetVersion: "v1.26.0"}), mustMake(t, awsUpgrade(), v1.Options{})
	for _, s := range with.Steps {
		if planstep.ChangesImage(s) {
			t.Errorf("step %s changes an image", s.ID)
		}
	}
	if len(with.Steps) != len(without.Steps) {
		t.Errorf("%d steps, and %d without the version", len(with.Steps), len(without.Steps))
	}
}

// The way up and the way back from every step, whatever the cluster: no manager is ever newer than an API server. Make and MakeRollback look at that
// themselves, so that an error which names the rule is a defect of the planner.
func TestWhateverTheClusterAnUpgradeKeepsTheSkew(t *testing.T) {
	const stride = 5 // of all clusters together, every kind of step is stopped behind
	made := map[string]int{}
	for seed := range int64(80) {
		s, o := anyCluster(rand.New(rand.NewSource(seed)))
		n, err := clusterview.ParseMinor("", s.Cluster.Version)
		if err != nil {
			t.Fatal(err)
		}
		o.TargetVersion = fmt.Sprintf("v1.%d.1", n+1)
		p, err := Make(s, o, nil, now)
		if err != nil {
			if strings.Contains(err.Error(), "rule P-") {
				t.Errorf("seed %d (%s %s, %+v): %v", seed, s.Cluster.Provider, s.Cluster.Version, o, err)
			}
			continue
		}
		made[p.Strategy]++
		if err := invariant.CheckWellFormed(p); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		endState(t, seed, s, p)
		for until := int(seed) % stride; until < len(p.Steps); until += stride {
			back, err := rollback.Make(stoppedAt(p, until+1), after(s, p, until+1), now)
			if err != nil {
				t.Fatalf("seed %d, back from %s: %v", seed, p.Steps[until].ID, err)
			}
			whole(t, seed, s, p.Steps[:until+1], back)
		}
	}
	if made[planstep.LeaderMigration] < 5 || made[planstep.Downtime] < 5 {
		t.Errorf("too few were made: %v", made)
	}
}

// stoppedAt is the journal of a run that was stopped behind so many steps.
func stoppedAt(p *v1.Plan, steps int) *v1.Journal {
	j := &v1.Journal{Run: "r", Plan: *p}
	for _, s := range p.Steps[:steps] {
		j.Records = append(j.Records, v1.StepRecord{ID: s.ID, Started: now, Ended: &now, Result: v1.StepResultDone, BackupSHA256: "x"})
	}
	return j
}

// after is a snapshot of the cluster behind so many steps, as far as versions go.
func after(s *v1.Snapshot, p *v1.Plan, steps int) *v1.Snapshot {
	out := *s
	out.Hosts = slices.Clone(s.Hosts)
	for i := range out.Hosts {
		h := &out.Hosts[i]
		h.Components = slices.Clone(h.Components)
		for j := range h.Components {
			for _, step := range p.Steps[:steps] {
				if step.Host == h.Name && step.Component == h.Components[j].Name {
					h.Components[j].Image = planstep.ImageAfter(step, h.Components[j].Image)
				}
			}
		}
	}
	return &out
}

// whole looks whether a rollback takes every image back that some step had changed.
func whole(t *testing.T, seed int64, s *v1.Snapshot, done []v1.Step, back *v1.Plan) {
	t.Helper()
	for _, h := range s.Hosts {
		for _, c := range h.Components {
			image := c.Image
			for _, step := range slices.Concat(done, back.Steps) {
				if step.Host == h.Name && step.Component == c.Name {
					image = planstep.ImageAfter(step, image)
				}
			}
			if image != c.Image {
				t.Errorf("seed %d, back from %s: %s on %s ends with %s", seed, done[len(done)-1].ID, c.Name, h.Name, image)
			}
		}
	}
}

func TestWhatAnUpgradeDropsIsNamedWhereItChangesSomething(t *testing.T) {
	s := awsUpgrade()
	for i := range 3 {
		clusterview.FindComponent(s.Hosts[i], component.KCM).Flags["enable-taint-manager"] = "false"
	}
	p := mustMake(t, s, v1.Options{TargetVersion: "v1.27.4"})
	named := func(part string) bool {
		return slices.ContainsFunc(p.Effects, func(e string) bool { return strings.Contains(e, part) })
	}
	if !named("loses --enable-taint-manager=false") || !named("loses --pod-eviction-timeout=2m0s") {
		t.Errorf("effects: %q", p.Effects)
	}
	if named("IdentifyPodOS") || named("master-service-namespace") {
		t.Errorf("what changes nothing is named: %q", p.Effects)
	}
	if g := catalogue.GateFor(component.KCM, "IdentifyPodOS", 27); g.Known {
		t.Skip("the gate of this test is still there")
	}
	for _, id := range []string{"external/" + component.KCM, "external/" + component.KAS} {
		step := find(t, p, id)
		for _, e := range step.Edits {
			if e.Name == flagvalue.FlagFeatureGates && e.Op == v1.EditSetFlag &&
				(strings.Contains(e.Value, "IdentifyPodOS") || strings.Contains(e.Value, "ExpandPersistentVolumes")) {
				t.Errorf("step %s keeps a gate: %+v", step.ID, e)
			}
		}
	}
}

func TestARollbackThatLeavesAManagerNewerIsNotMade(t *testing.T) {
	s := awsUpgrade()
	p := mustMake(t, s, v1.Options{TargetVersion: "v1.27.4"})
	now26 := after(s, p, len(p.Steps))
	back, err := rollback.Make(stoppedAt(p, len(p.Steps)), now26, now)
	if err != nil {
		t.Fatal(err)
	}
	if n := slices.IndexFunc(back.Effects, func(e string) bool {
		return strings.Contains(e, "not promised: objects that API servers of v1.27.4 wrote")
	}); n < 0 {
		t.Errorf("effects: %q", back.Effects)
	}
	move(t, back, "undo/external/"+component.KAS+"@cp-1", "undo/upgrade/"+component.Scheduler)
	if err := invariant.VerifyRollback(
		back,
		now26,
	); err == nil ||
		!strings.Contains(err.Error(), "rule P-36: after step undo/external/kube-apiserver@cp-1 kube-scheduler on cp-1 is of 1.27") {
		t.Errorf("an API server goes back before the schedulers: %v", err)
	}
}

// TestARollbackKnowsTheProviderOfItsPlan: after a migration to a DaemonSet no file of a host says it, and with that of AWS the state of another provider's
// manager was no object of a migration.
func TestARollbackKnowsTheProviderOfItsPlan(t *testing.T) {
	p, s := base(t, "gce-1.30")
	later := *s
	later.Cluster.Provider = ""
	back, err := rollback.Make(stoppedAt(p, len(p.Steps)), &later, now)
	if err != nil {
		t.Fatal(err)
	}
	if back.Cluster.Provider != "gce" {
		t.Errorf("the provider is %q", back.Cluster.Provider)
	}
	if err := invariant.CheckAllowed(back, nil); err != nil {
		t.Error(err)
	}
}

func TestARollbackNamesKubeletsThatWereUpgradedMeanwhile(t *testing.T) {
	s := awsUpgrade()
	p := mustMake(t, s, v1.Options{TargetVersion: "v1.27.4"})
	later := after(s, p, len(p.Steps))
	later.Nodes = slices.Clone(later.Nodes)
	later.Nodes[3].KubeletVersion = "v1.27.4"
	back, err := rollback.Make(stoppedAt(p, len(p.Steps)), later, now)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(back.Effects, func(e string) bool { return strings.Contains(e, "the kubelets of worker-1 (v1.27.4) are newer") }) {
		t.Errorf("effects: %q", back.Effects)
	}
}
