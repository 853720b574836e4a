package plan

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestTheRulesHaveIDsInOrderAndSayWhy(t *testing.T) {
	for i, r := range invariant.Rules {
		if want := fmt.Sprintf("P-%02d", i+1); r.ID != want || r.Title == "" || r.Why == "" {
			t.Errorf("rule %d is %q (%q, %q)", i+1, r.ID, r.Title, r.Why)
		}
	}
}

// find is the first step whose ID begins so.
func find(t *testing.T, p *v1.Plan, prefix string) *v1.Step {
	t.Helper()
	for i := range p.Steps {
		if strings.HasPrefix(p.Steps[i].ID, prefix) {
			return &p.Steps[i]
		}
	}
	t.Fatalf("the plan has no step %s…", prefix)
	return nil
}

// move puts the first step of an ID before the first one of another.
func move(t *testing.T, p *v1.Plan, prefix, before string) {
	t.Helper()
	s := *find(t, p, prefix)
	p.Steps = slices.DeleteFunc(p.Steps, func(o v1.Step) bool { return o.ID == s.ID })
	at := slices.IndexFunc(p.Steps, func(o v1.Step) bool { return strings.HasPrefix(o.ID, before) })
	if at < 0 {
		t.Fatalf("the plan has no step %s…", before)
	}
	p.Steps = slices.Insert(p.Steps, at, s)
}

// set changes the value of an edit of a step.
func set(t *testing.T, s *v1.Step, flag, value string) {
	t.Helper()
	for i := range s.Edits {
		if s.Edits[i].Name == flag {
			s.Edits[i].Op, s.Edits[i].Value = v1.EditSetFlag, value
			return
		}
	}
	t.Fatalf("step %s has no edit of --%s", s.ID, flag)
}

func drop(s *v1.Step, flag string) {
	s.Edits = slices.DeleteFunc(s.Edits, func(e v1.Edit) bool { return e.Name == flag })
}

func replaceIn(text *string, old, with string) { *text = strings.ReplaceAll(*text, old, with) }

// broken are plans that break one rule each; which base they are made from is said where it matters.
var broken = []struct {
	rule, name, base string
	change           func(t *testing.T, p *v1.Plan)
}{
	{
		"P-01",
		"a manager starts while one in-tree manager does not know the lease",
		"lab",
		func(t *testing.T, p *v1.Plan) { move(t, p, "start/", "leader-migration/"+component.KCM+"@cp-2") },
	},
	{
		"P-01",
		"with downtime a manager starts while the owner runs",
		"openstack-1.20",
		func(t *testing.T, p *v1.Plan) { move(t, p, "start/", "external/"+component.KCM+"@cp-2") },
	},
	{"P-02", "an API server restarts before its host's manager gave the loops up", "lab", func(t *testing.T, p *v1.Plan) {
		move(t, p, "external/"+component.KAS+"@cp-2", "leader-migration/"+component.KCM+"@cp-1")
	}},
	{"P-02", "an API server restarts under the new owner", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		move(t, p, "start/"+component.CCM+"@cp-2", "external/"+component.KAS+"@cp-2")
	}},
	{"P-03", "the lease is granted after the managers need it", "lab", func(t *testing.T, p *v1.Plan) {
		move(t, p, "create/RoleBinding/kube-system/"+layout.MigrationRole, "leader-migration/"+component.KCM+"@cp-3")
	}},
	{"P-03", "create is granted for a name", "lab", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "create/Role/kube-system/"+layout.MigrationRole)
		replaceIn(&s.Object, `"get","list"`, `"create","get","list"`)
	}},
	{"P-04", "a manager is told of a file that comes later", "lab", func(t *testing.T, p *v1.Plan) {
		move(t, p, "write/"+layout.KCMMigration+"@cp-3", "leader-migration/"+component.KCM+"@cp-2")
	}},
	{"P-04", "a file goes while a manager names it", "lab", func(t *testing.T, p *v1.Plan) {
		move(t, p, "remove/"+layout.CCMMigration+"@cp-2", "finish/"+component.CCM+"@cp-2")
	}},
	{"P-05", "a kubelet is the first", "lab", func(t *testing.T, p *v1.Plan) { move(t, p, "external/kubelet@cp-1", "external/"+component.KCM) }},
	{"P-06", "a worker comes first", "lab", func(t *testing.T, p *v1.Plan) { move(t, p, "external/kubelet@worker-1", "external/kubelet@cp-1") }},
	{"P-06", "a kubelet is left out", "lab", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.ID == "external/kubelet@worker-2" })
	}},
	{"P-06", "two kubelets at once", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet@worker-1").Group = "workers" }},
	{
		"P-07",
		"a scheduler learns it after a kubelet",
		"openstack-1.20",
		func(t *testing.T, p *v1.Plan) { move(t, p, "gates/"+component.Scheduler+"@cp-2", "initialize/") },
	},
	{"P-07", "a manager never learns it", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		drop(find(t, p, "external/"+component.KCM+"@cp-3"), flagvalue.FlagFeatureGates)
	}},
	{"P-08", "the plugin goes before the last kubelet", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		move(t, p, "volumes/"+component.KCM+"@cp-1", "external/kubelet@worker-2")
	}},
	{"P-08", "the plugin loses its config", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/"+component.KCM+"@cp-1")
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagCloudConfig})
	}},
	{
		"P-09",
		"volumes are mounted and the node is not drained",
		"openstack-1.20",
		func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet@worker-1").Drain = false },
	},
	{"P-10", "a gate of another version", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		set(
			t,
			find(t, p, "gates/"+component.Scheduler),
			flagvalue.FlagFeatureGates,
			"EphemeralContainers=true,CSIMigrationOpenStack=true,InTreePluginOpenStackUnregister=true",
		)
	}},
	{"P-10", "a flag that the new manager never had", "vsphere-1.29", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "    - --leader-elect=true\n", "    - --leader-elect=true\n    - --port=0\n")
	}},
	{"P-11", "a gate of the owner is lost", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		set(t, find(t, p, "gates/"+component.Scheduler), flagvalue.FlagFeatureGates, "CSIMigrationOpenStack=true")
	}},
	{"P-12", "a controller of the owner is lost", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		set(t, find(t, p, "external/"+component.KCM), "controllers", "*,-node-ipam-controller")
	}},
	{"P-13", "node IPAM moves and stays", "gce-1.30", func(t *testing.T, p *v1.Plan) { drop(find(t, p, "external/"+component.KCM+"@cp-3"), "controllers") }},
	{"P-13", "node IPAM is in one config only", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "write/"+layout.CCMMigration)
		replaceIn(&s.Content, "- name: node-ipam-controller\n  component: "+component.CCM+"\n", "")
	}},
	{"P-13", "Azure's allocator runs next to the old one", "azure-1.28", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "start/"+component.CCM)
		replaceIn(&s.Content, ",-node-ipam", "")
	}},
	{
		"P-14",
		"a kubelet names a config that comes later",
		"azure-1.28",
		func(t *testing.T, p *v1.Plan) { move(t, p, "write/"+layout.CredentialConfig+"@worker-1", "patch/") },
	},
	{"P-14", "a kubelet names a binary that never comes", "azure-1.28", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepCopyFile && s.Host == "cp-2" })
	}},
	{"P-15", "another cluster name", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "--cluster-name=prod-eu", "--cluster-name=kubernetes")
	}},
	{"P-16", "routes are switched on", "aws-1.26-single", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "    - --configure-cloud-routes=false\n", "")
	}},
	{"P-17", "leader migration stays on", "lab", func(t *testing.T, p *v1.Plan) { drop(find(t, p, "external/"+component.KCM), "enable-leader-migration") }},
	{"P-18", "the in-tree config is overwritten", "lab", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "write/"+layout.CCMCloudConf+"@cp-1")
		s.Path = s.Source
	}},
	{"P-19", "a step that does not look at its file", "lab", func(t *testing.T, p *v1.Plan) {
		find(t, p, "external/"+component.KAS).Requires = []string{"cluster:uid"}
	}},
	{"P-19", "a step for any cluster", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet").Requires = nil }},
	{"P-20", "credentials in a manifest", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "start/").Content += "# AWS_SECRET_ACCESS_KEY=wJalr\n" }},
	{"P-20", "a secret in a manager's environment", "lab", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "    image:", "    env:\n    - name: AWS_SECRET_ACCESS_KEY\n      value: wJalr\n    image:")
	}},
	{"P-20", "a mask in a manager's manifest", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "start/").Content += "# (masked)\n" }},
	{"P-20", "a mask as a flag's value", "lab", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/"+component.KCM)
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "v", Value: "(masked)"})
	}},
	{"P-20", "a secret among the options", "lab", func(t *testing.T, p *v1.Plan) { p.Options.Env = append(p.Options.Env, "OS_PASSWORD=x") }},
	{"P-21", "a change without a way back", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet").Undo = "" }},
	{
		"P-22",
		"a node is filled in while kubelets change",
		"vsphere-1.29",
		func(t *testing.T, p *v1.Plan) { move(t, p, "initialize/", "external/kubelet@worker-1") },
	},
	{"P-22", "a node that has a providerID", "vsphere-1.29", func(t *testing.T, p *v1.Plan) { find(t, p, "initialize/").Ref = "Node/cp-1" }},
	{"P-23", "in the pod network", "lab", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "hostNetwork: true", "hostNetwork: false")
	}},
	{"P-23", "with the cluster's DNS", "lab", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "dnsPolicy: Default", "dnsPolicy: ClusterFirst")
	}},
	{"P-23", "without the toleration", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Object, component.TaintUninitialized, "other")
	}},
	{"P-23", "through kube-proxy", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Object, "KUBERNETES_SERVICE_HOST", "OTHER")
	}},
	{"P-24", "the port of the kube-controller-manager", "vsphere-1.29", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "--secure-port=10270", "--secure-port=10257")
	}},
	{"P-25", "a kubelet gets another name", "lab", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/kubelet")
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "hostname-override", Value: "other"})
	}},
	{"P-25", "a kubelet loses its name", "lab", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/kubelet")
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "hostname-override"})
	}},
	{"P-26", "the admission plugin stays", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		drop(find(t, p, "external/"+component.KAS), "enable-admission-plugins")
	}},
	{"P-27", "a restart that names no lease", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "finish/").Leases = nil }},
	{"P-27", "nobody looks in the end", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepVerify })
	}},
	{"P-28", "the old manager's names for the new one", "lab", func(t *testing.T, p *v1.Plan) {
		find(t, p, "write/"+layout.CCMMigration).Content = find(t, p, "write/"+layout.KCMMigration).Content
	}},
	{"P-29", "kubeadm is not told", "aws-1.26-single", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepPatchObject })
	}},
	{"P-30", "a private authority is forgotten", "azure-1.28", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "/usr/local/share/ca-certificates", "/srv")
	}},
	{"P-30", "the authority that the cloud config names is forgotten", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "/etc/kubernetes/keystone.pem", "/srv/keystone.pem")
	}},
	{"P-30", "a proxy is forgotten without a word", "lab", func(t *testing.T, p *v1.Plan) { p.Effects = nil }},
	{"P-31", "Azure's manager runs the node loop", "azure-1.28", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/"+component.CCM).Content, ",-cloud-node-controller", "")
	}},
	{"P-31", "no cloud-node-manager", "azure-1.28", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.ID == "start/"+layout.NodeManager })
	}},
	{"P-31", "our manager on Azure leaves nodes alone", "azure-1.28-ours", func(t *testing.T, p *v1.Plan) {
		const flag = "    - --leader-elect=true\n"
		replaceIn(&find(t, p, "start/"+component.CCM).Content, flag, flag+"    - --controllers=*,-cloud-node-controller\n")
	}},
	{"P-31", "a cloud-node-manager next to ours", "azure-1.28-ours", func(_ *testing.T, p *v1.Plan) {
		p.Steps = append(p.Steps, v1.Step{ID: "start/" + layout.NodeManager, Kind: v1.StepEnsureObject, Ref: layout.NodeManagerDaemonSet})
	}},
	{"P-06", "a kubelet of the control plane in a batch", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet@cp-1").Batch = "b" }},
	{"P-06", "no worker is watched", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet@worker-1").Canary = false }},
	{"P-06", "another worker before the canary", "lab", func(t *testing.T, p *v1.Plan) {
		move(t, p, "external/kubelet@worker-2", "external/kubelet@worker-1")
	}},
	{"P-06", "a canary behind other workers", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet@worker-3").Canary = true }},
	{"P-06", "the canary in a batch", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/kubelet@worker-1").Batch = "b" }},
	{"P-06", "a batch that is larger than the budget", "openstack-1.20", func(t *testing.T, p *v1.Plan) {
		again := *find(t, p, "external/kubelet@worker-2")
		find(t, p, "external/kubelet@worker-2").Batch = "b"
		again.ID, again.Host, again.Batch = "external/kubelet@worker-3", "worker-3", "b"
		at := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.ID == "external/kubelet@worker-2" })
		p.Steps = slices.Insert(p.Steps, at+1, again)
	}},
	{"P-06", "a kubelet that is changed twice", "lab", func(t *testing.T, p *v1.Plan) {
		again := *find(t, p, "external/kubelet@worker-1")
		again.ID += "/again"
		p.Steps = append(p.Steps, again)
	}},
	{"P-06", "something else side by side", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "external/"+component.KCM).Batch = "b" }},
	{"P-35", "an edit of a file that the step does not name", "lab", func(t *testing.T, p *v1.Plan) {
		find(t, p, "external/kubelet@cp-1").Edits[0].Path = "/etc/default/kubelet"
	}},
	{"P-35", "a flag that stays where it stands", "aws-1.26-single", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/kubelet@worker-1")
		for i := range s.Edits {
			s.Edits[i].Path = "/etc/default/kubelet"
		}
		s.Files = []string{"/etc/default/kubelet"}
		p.Facts = append(p.Facts, v1.Fact{ID: planstep.FileFact(s.Host, "/etc/default/kubelet")})
		s.Requires = append(s.Requires, planstep.FileFact(s.Host, "/etc/default/kubelet"))
	}},
	{"P-34", "no manager starts on any host", "lab", func(_ *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return strings.HasPrefix(s.ID, "start/") })
	}},
	{"P-34", "the last host gets no manager", "lab", func(_ *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.ID == "start/"+component.CCM+"@cp-2" })
	}},
	{"P-34", "the workload is removed", "gce-1.30", func(_ *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepEnsureObject && s.Component == component.CCM })
	}},
	{"P-33", "an API server that keeps a gate of the in-tree provider", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		set(t, find(t, p, "external/"+component.KAS), flagvalue.FlagFeatureGates, "APIServerTracing=true,DisableKubeletCloudCredentialProviders=false")
	}},
	{"P-32", "a provider that nobody has", "lab", func(t *testing.T, p *v1.Plan) {
		for i := range p.Steps {
			replaceIn(&p.Steps[i].Content, "--cloud-provider=aws", "--cloud-provider=cloudstack")
		}
	}},
	{"P-02", "with downtime an API server that is not upgraded restarts under an owner", "aws-1.26-upgrade-downtime", func(t *testing.T, p *v1.Plan) {
		find(t, p, "external/"+component.KAS+"@cp-1").Phase = planstep.PhaseHandover
	}},
	{"P-36", "a manager is upgraded before the last API server", "aws-1.26-upgrade", func(t *testing.T, p *v1.Plan) {
		move(t, p, "external/"+component.KCM+"@cp-1", "external/"+component.KAS+"@cp-2")
	}},
	{"P-36", "a scheduler is upgraded before the last API server", "aws-1.26-upgrade-downtime", func(t *testing.T, p *v1.Plan) {
		move(t, p, "upgrade/"+component.Scheduler+"@cp-1", "external/"+component.KAS+"@cp-2")
	}},
	{
		"P-37",
		"a manager keeps a flag that the new version does not know",
		"aws-1.26-upgrade",
		func(t *testing.T, p *v1.Plan) { drop(find(t, p, "external/"+component.KCM), "pod-eviction-timeout") },
	},
	{
		"P-37",
		"an API server keeps a gate that the new version does not know",
		"aws-1.26-upgrade",
		func(t *testing.T, p *v1.Plan) { drop(find(t, p, "external/"+component.KAS), "feature-gates") },
	},
	{
		"P-38",
		"one scheduler keeps its version",
		"aws-1.26-upgrade",
		func(t *testing.T, p *v1.Plan) { drop(find(t, p, "upgrade/"+component.Scheduler), component.Scheduler) },
	},
	{
		"P-38",
		"an image gets another version",
		"aws-1.26-upgrade",
		func(t *testing.T, p *v1.Plan) { find(t, p, "upgrade/"+component.Scheduler).Edits[0].Value = "v1.27.5" },
	},
	{"P-38", "kubeadm is not told", "aws-1.26-upgrade", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return strings.HasSuffix(s.ID, layout.FieldKubernetesVersion) })
	}},
	{"P-39", "a manager starts while the loops run", "hosted-downtime", func(t *testing.T, p *v1.Plan) { move(t, p, "start/", "loops-off/") }},
	{"P-39", "a manager starts before anybody has looked", "hosted-downtime", func(t *testing.T, p *v1.Plan) { move(t, p, "start/", "verify/loops-off") }},
	{"P-39", "one loop stays", "hosted-downtime", func(t *testing.T, p *v1.Plan) {
		set(t, find(t, p, "loops-off/"), "controllers", "*,bootstrapsigner,tokencleaner,-service,-route")
	}},
	{
		"P-39",
		"a manager starts before the other one respects the lease",
		"hosted-leader-migration",
		func(t *testing.T, p *v1.Plan) { move(t, p, "start/", "leader-migration/") },
	},
	{"P-39", "a first manager is installed, and another component is changed", "hosted-install", func(t *testing.T, p *v1.Plan) {
		p.Steps = append(p.Steps, v1.Step{ID: "edit", Kind: v1.StepEditWorkload, Ref: "Deployment/cluster-x/controller-manager", Undo: "no"})
	}},
	{"P-40", "the provider goes while machines need it", "hosted-downtime", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "loops-off/")
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"})
	}},
	{"P-40", "the provider goes before anybody has looked who owns the loops", "hosted-finish", func(t *testing.T, p *v1.Plan) { p.Steps = p.Steps[1:] }},
	{"P-41", "another namespace of the seed is changed", "hosted-downtime", func(t *testing.T, p *v1.Plan) {
		find(t, p, "loops-off/").Ref = "Deployment/cluster-y/controller-manager"
	}},
	{"P-41", "a Secret stands in the plan", "hosted-downtime", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "create/Secret/cluster-x/").Object, `"kind"`, `"data":{"kubeconfig":"eA=="},"kind"`)
	}},
	{"P-41", "the uid of the seed's namespace is not required", "hosted-downtime", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "loops-off/")
		s.Requires = slices.DeleteFunc(s.Requires, func(id string) bool { return id == "seed:uid" })
	}},
	{"P-42", "a file of cron is written", "lab", func(t *testing.T, p *v1.Plan) { find(t, p, "write/"+layout.KCMMigration).Path = "/etc/cron.d/x" }},
	{"P-43", "the manager's pod sees the whole host", "lab", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "start/").Content, "      path: "+layout.CCMKubeconfig, "      path: /")
	}},
	{"P-44", "a file of the operator is copied", "azure-1.28", func(t *testing.T, p *v1.Plan) { find(t, p, "copy/").Source = "/srv/admin/kubeconfig" }},
	{"P-45", "authorization is switched off", "lab", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/"+component.KAS)
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "authorization-mode", Value: "AlwaysAllow"})
	}},
	{"P-46", "a role grants more", "lab", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "create/ClusterRole/"+layout.CCMRole).Object, `"nodes/status"`, `"*"`)
	}},
	{"P-47", "a pod is replaced before the template changes", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		move(t, p, "finish/"+component.CCM+"@cp-3", "external/kubelet@cp-1")
	}},
	{"P-47", "the lease goes while pods need it", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		move(t, p, "delete/Role/", "finish/"+component.CCM+"@cp-3")
	}},
	{"P-47", "a pod is never replaced", "gce-1.30", func(t *testing.T, p *v1.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.ID == "finish/"+component.CCM+"@cp-3" })
	}},
}

// base makes a plan and the snapshot that it is for.
func base(t *testing.T, name string) (*v1.Plan, *v1.Snapshot) {
	t.Helper()
	if name == "lab" {
		s := lab(t)
		return mustMake(t, s, labOptions()), s
	}
	for _, c := range compact {
		if c.name == name {
			s := c.snap()
			return mustMake(t, s, c.options), s
		}
	}
	for _, c := range hostedPlans {
		if c.name == name {
			s := seeded(c.replicas)
			return mustMake(t, s, c.options), s
		}
	}
	if name == "hosted-install" {
		s := installed()
		return mustMake(t, s, v1.Options{Part: v1.PartInstall}), s
	}
	t.Fatalf("there is no base %q", name)
	return nil, nil
}

func TestAPlanThatBreaksARuleIsNamed(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range broken {
		tested[c.rule] = true
		t.Run(c.rule+": "+c.name, func(t *testing.T) {
			p, s := base(t, c.base)
			c.change(t, p)
			err := invariant.Verify(p, s)
			if err == nil || !strings.Contains(err.Error(), "rule "+c.rule+", ") {
				t.Errorf("it is not said to break %s: %v", c.rule, err)
			}
		})
	}
	for _, r := range invariant.Rules {
		if !tested[r.ID] {
			t.Errorf("no plan breaks rule %s", r.ID)
		}
	}
}

func TestAPlanFromAFileIsHeldToTheRulesWithoutItsSnapshot(t *testing.T) {
	for _, c := range compact {
		p, _ := base(t, c.name)
		if err := invariant.Verify(p, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	p, _ := base(t, "lab")
	move(t, p, "start/", "leader-migration/"+component.KCM+"@cp-2")
	if err := invariant.Verify(p, nil); err == nil || !regexp.MustCompile(`rule P-01, .*: start/.* comes before`).MatchString(err.Error()) {
		t.Errorf("a plan that starts a manager too early: %v", err)
	}
}

const rulesPage = "../../docs/reference/plan-rules.md"

// TestTheRulesAreInTheDocumentation keeps the page of the rules as they are here.
func TestTheRulesAreInTheDocumentation(t *testing.T) {
	var b strings.Builder
	b.WriteString(
		"# Rules of a plan\n\nEvery plan is held to these rules when it is made, and again when it is read from a file. A plan that breaks one is not executed.\n" +
			"This page is made from `internal/plan/invariant/rules.go`.\n\n| rule | what holds | what would happen otherwise |\n|---|---|---|\n",
	)
	for _, r := range invariant.Rules {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, r.Title, r.Why)
	}
	if *update {
		if err := os.WriteFile(rulesPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the rules say: run go test ./internal/plan -update", rulesPage)
	}
}
