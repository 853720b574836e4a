package plan

import (
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// edited adds an edit to a step, in place of the one that the flag has there.
func edited(prefix string, e v1.Edit) func(t *testing.T, p *v1.Plan) {
	return func(t *testing.T, p *v1.Plan) {
		t.Helper()
		s := find(t, p, prefix)
		drop(s, e.Name)
		s.Edits = append(s.Edits, e)
	}
}

// with adds an item to the list that a flag has in the snapshot or gets in the step.
func with(prefix, flag, item string) func(t *testing.T, p *v1.Plan) {
	return func(t *testing.T, p *v1.Plan) {
		t.Helper()
		s := find(t, p, prefix)
		was, _ := planstep.LastEdit(*s, flag)
		edited(prefix, v1.Edit{Op: v1.EditSetFlag, Name: flag, Value: strings.TrimPrefix(was.Value+","+item, ",")})(t, p)
	}
}

// valueAttacks change a list of the cluster's owner in a plan of a journal.
var valueAttacks = []struct {
	name, base, step string
	change           func(t *testing.T, p *v1.Plan)
}{
	{"NodeRestriction is switched off", "lab", "external/" + component.KAS, with("external/"+component.KAS, flagvalue.FlagDisablePlugins, "NodeRestriction")},
	{
		"NodeRestriction is left out",
		"lab",
		"external/" + component.KAS,
		edited("external/"+component.KAS, v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagEnablePlugins}),
	},
	{
		"another plugin takes its place",
		"lab",
		"external/" + component.KAS,
		edited("external/"+component.KAS, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagEnablePlugins, Value: "AlwaysAdmit"}),
	},
	{
		"a plugin comes next to it",
		"lab",
		"external/" + component.KAS,
		edited("external/"+component.KAS, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagEnablePlugins, Value: "NodeRestriction,AlwaysAdmit"}),
	},
	{"every alpha gate of the API server", "lab", "external/" + component.KAS, with("external/"+component.KAS, flagvalue.FlagFeatureGates, "AllAlpha=true")},
	{
		"a gate of the manager",
		"lab",
		"external/" + component.KCM,
		with("external/"+component.KCM, flagvalue.FlagFeatureGates, "LegacyServiceAccountTokenNoAutoGeneration=false"),
	},
	{
		"a gate of the scheduler",
		"openstack-1.20",
		"gates/" + component.Scheduler,
		with("gates/"+component.Scheduler, flagvalue.FlagFeatureGates, "PodSchedulingReadiness=false"),
	},
	{"a gate of a kubelet", "gce-1.30", "external/kubelet", with("external/kubelet", flagvalue.FlagFeatureGates, "RotateKubeletServerCertificate=false")},
	{
		"a gate that is said twice",
		"lab",
		"external/" + component.KAS,
		with("external/"+component.KAS, flagvalue.FlagFeatureGates, "AnonymousAuthConfigurableEndpoints=true,AnonymousAuthConfigurableEndpoints=false"),
	},
	{
		"a controller is switched off",
		"lab",
		"external/" + component.KCM,
		edited("external/"+component.KCM, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagControllers, Value: "*,bootstrapsigner,tokencleaner,-podgc"}),
	},
	{
		"every other controller ends",
		"lab",
		"external/" + component.KCM,
		edited("external/"+component.KCM, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagControllers, Value: "bootstrapsigner,tokencleaner"}),
	},
	{
		"a controller begins",
		"lab",
		"external/" + component.KCM,
		edited("external/"+component.KCM, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagControllers, Value: "*,bootstrapsigner,tokencleaner,ttl-after-finished"}),
	},
	{"a gate of kubeadm's API server", "lab", "external/" + component.KAS, func(t *testing.T, p *v1.Plan) {
		s := *find(t, p, "external/"+component.KAS)
		s.ID, s.Kind, s.Host, s.Path, s.Ref, s.Derive = "patch/evil", v1.StepPatchObject, "", "", layout.KubeadmConfigRef, layout.DeriveKubeadm
		s.Edits = []v1.Edit{{Op: v1.EditSetFlag, Name: flagvalue.FlagFeatureGates, Value: "AllAlpha=true"}}
		p.Steps = append(p.Steps, s)
	}},
	{"a target version of long ago knows no authorization", "lab", "external/" + component.KAS, func(t *testing.T, p *v1.Plan) {
		p.Options.TargetVersion = "v1.2.3"
		edited("external/"+component.KAS, v1.Edit{Op: v1.EditUnsetFlag, Name: "authorization-mode"})(t, p)
	}},
	{"a target version of long ago knows no gates", "lab", "external/" + component.KAS, func(t *testing.T, p *v1.Plan) {
		p.Options.TargetVersion = "v1.2.3"
		with("external/"+component.KAS, flagvalue.FlagFeatureGates, "AllAlpha=true")(t, p)
	}},
	{"another name of a kubelet", "lab", "external/kubelet", edited("external/kubelet", v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagHostname, Value: "other"})},
	{
		"an election that takes a year",
		"lab",
		"leader-migration/" + component.KCM,
		edited("leader-migration/"+component.KCM, v1.Edit{Op: v1.EditSetFlag, Name: "leader-elect-retry-period", Value: "8760h"}),
	},
	{"no pod CIDRs", "lab", "external/" + component.KCM, edited("external/"+component.KCM, v1.Edit{Op: v1.EditSetFlag, Name: "allocate-node-cidrs", Value: "false"})},
	{
		"the API server loses its audit policy",
		"lab",
		"external/" + component.KAS,
		edited("external/"+component.KAS, v1.Edit{Op: v1.EditRemoveHostPath, Name: "audit", Value: "/etc/kubernetes/audit"}),
	},
	{
		"the manager loses its flexvolumes",
		"lab",
		"external/" + component.KCM,
		edited("external/"+component.KCM, v1.Edit{Op: v1.EditRemoveHostPath, Name: "flexvolume-dir", Value: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"}),
	},
	{"kubeadm mounts no audit policy", "lab", "external/" + component.KAS, func(t *testing.T, p *v1.Plan) {
		s := *find(t, p, "external/"+component.KAS)
		s.ID, s.Kind, s.Host, s.Path, s.Ref, s.Derive = "patch/evil", v1.StepPatchObject, "", "", layout.KubeadmConfigRef, layout.DeriveKubeadm
		s.Edits = []v1.Edit{{Op: v1.EditRemoveHostPath, Name: "etcd", Value: "/etc/kubernetes/pki/etcd"}}
		p.Steps = append(p.Steps, s)
	}},
}

// TestAListOfTheOwnerKeepsWhatIsNoneOfAMigrations: the value in a planted journal is compared with the live one.
func TestAListOfTheOwnerKeepsWhatIsNoneOfAMigrations(t *testing.T) {
	for _, a := range valueAttacks {
		t.Run(a.name, func(t *testing.T) {
			p, s := base(t, a.base)
			a.change(t, p)
			if err := invariant.CheckAllowed(p, s); err == nil || !strings.Contains(err.Error(), "rule P-45") {
				t.Errorf("with its cluster in view the plan is not refused: %v", err)
			}
			refused := false
			for _, step := range p.Steps {
				refused = refused || allowed.CheckStep(p, step, s) != nil
			}
			if !refused {
				t.Error("the engine would execute each of its steps")
			}
		})
	}
}

// TestAListIsComparedRightBeforeItIsWritten: what runs on the host counts, whatever a snapshot says, and in-tree code never comes back.
func TestAListIsComparedRightBeforeItIsWritten(t *testing.T) {
	p, _ := base(t, "lab")
	up := *p
	up.Options.TargetVersion = "v1.27.4"
	disable := *p
	disable.Options.DisableInTree = true
	for _, c := range []struct {
		name, component, flag, now, then string
		plan                             *v1.Plan
		holds                            bool
	}{
		{"the labels' plugin goes", component.KAS, flagvalue.FlagEnablePlugins, "NodeRestriction," + flagvalue.PluginPVLabels, "NodeRestriction", p, true},
		{"the labels' plugin comes", component.KAS, flagvalue.FlagEnablePlugins, "NodeRestriction", "NodeRestriction," + flagvalue.PluginPVLabels, p, false},
		{"another plugin goes", component.KAS, flagvalue.FlagEnablePlugins, "NodeRestriction," + flagvalue.PluginPVLabels, flagvalue.PluginPVLabels, p, false},
		{"a plugin that ended is enabled no longer", component.KAS, flagvalue.FlagDisablePlugins, "PodSecurityPolicy,EventRateLimit", "EventRateLimit", &up, true},
		{"a plugin that ended, without another version", component.KAS, flagvalue.FlagDisablePlugins, "PodSecurityPolicy", "", p, false},
		{"a plugin that others rely on ended", component.KAS, flagvalue.FlagEnablePlugins, "NodeRestriction,PodSecurityPolicy", "NodeRestriction", &up, false},
		{"CSI comes", component.KCM, flagvalue.FlagFeatureGates, "A=true", "A=true,CSIMigration=true,CSIMigrationAWS=true", p, true},
		{"CSI goes", component.KCM, flagvalue.FlagFeatureGates, "A=true,CSIMigrationAWS=true", "A=true", p, false},
		{"CSI is switched off", component.KCM, flagvalue.FlagFeatureGates, "A=true", "A=true,CSIMigrationAWS=false", p, false},
		{"another provider's CSI", component.KCM, flagvalue.FlagFeatureGates, "", "CSIMigrationGCE=true", p, false},
		{"the in-tree providers end", component.KCM, flagvalue.FlagFeatureGates, "DisableCloudProviders=false", "", p, true},
		{"the in-tree providers come back", component.KCM, flagvalue.FlagFeatureGates, "", "DisableCloudProviders=false", p, false},
		{"the in-tree providers are switched off, and nobody asked for that", component.KCM, flagvalue.FlagFeatureGates, "", "DisableCloudProviders=true", p, false},
		{"the in-tree providers are switched off", component.KCM, flagvalue.FlagFeatureGates, "A=true", "A=true,DisableCloudProviders=true", &disable, true},
		{"they come back in spite of the option", component.KCM, flagvalue.FlagFeatureGates, "", "DisableCloudProviders=false", &disable, false},
		{"another gate changes", component.KCM, flagvalue.FlagFeatureGates, "A=true,B=false", "A=true,B=true", p, false},
		{"another gate goes", component.KCM, flagvalue.FlagFeatureGates, "A=true", "", p, false},
		{"a gate goes that the new version does not know", component.KCM, flagvalue.FlagFeatureGates, "EphemeralContainers=true,A=true", "A=true", &up, true},
		{"a gate comes that the new version does not know", component.KCM, flagvalue.FlagFeatureGates, "A=true", "A=true,EphemeralContainers=false", &up, false},
		{"a gate that no version knows goes", component.KCM, flagvalue.FlagFeatureGates, "A=true", "", &up, false},
		{"the cloud loops end", component.KCM, flagvalue.FlagControllers, "", "*,-service,-route,-cloud-node-lifecycle", p, true},
		{"the cloud loops begin", component.KCM, flagvalue.FlagControllers, "*,-service", "*", p, false},
		{"node IPAM ends, which stays", component.KCM, flagvalue.FlagControllers, "*,x", "*,x,-nodeipam", p, false},
		{"another loop ends", component.KCM, flagvalue.FlagControllers, "*", "*,-service,-podgc", p, false},
	} {
		s := v1.Step{ID: "x", Kind: v1.StepEditManifest, Host: "cp-1", Component: c.component, Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: c.flag, Value: c.then}}}
		if c.then == "" {
			s.Edits[0].Op = v1.EditUnsetFlag
		}
		if c.plan == &up {
			s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetImage, Name: c.component, Value: "v1.27.4"})
		}
		if err := allowed.CheckCommand(c.plan, s, []string{c.component, "--" + c.flag + "=" + c.now}); (err == nil) != c.holds {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s := v1.Step{ID: "x", Host: "cp-1", Component: component.KAS, Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: flagvalue.FlagFeatureGates, Value: "B=true"}}}
	if err := allowed.CheckCommand(p, s, []string{component.KAS, "--feature-gates=A=true", "--feature-gates=B=true"}); err == nil {
		t.Error("a gate of the first of two --feature-gates is lost")
	}
}

// TestAListThatIsPutBackKeepsWhatItsOwnerChangedSince.
func TestAListThatIsPutBackKeepsWhatItsOwnerChangedSince(t *testing.T) {
	p, _ := base(t, "lab")
	for _, c := range []struct{ flag, now, was, want string }{
		{flagvalue.FlagFeatureGates, "A=true,CSIMigrationAWS=true", "A=true", "A=true"},
		{flagvalue.FlagFeatureGates, "B=true,CSIMigrationAWS=true", "A=true", "B=true"},
		{flagvalue.FlagFeatureGates, "B=true", "A=true,CSIMigrationAWS=false", "B=true,CSIMigrationAWS=false"},
		{flagvalue.FlagControllers, "*,-service,-route", "", ""},
		{flagvalue.FlagControllers, "*,-service,-podgc", "", "*,-podgc"},
		{flagvalue.FlagControllers, "*,-podgc", "*,-service", "*,-podgc,-service"},
		{flagvalue.FlagEnablePlugins, "NodeRestriction,X", "NodeRestriction," + flagvalue.PluginPVLabels, "NodeRestriction,X," + flagvalue.PluginPVLabels},
		{"cloud-provider", "external", "aws", "aws"},
	} {
		if have := allowed.RestoreValue(p, v1.Step{Component: component.KCM}, c.flag, c.now, c.was); have != c.want {
			t.Errorf("--%s=%s after --%s=%s: %q, not %q", c.flag, c.now, c.flag, c.was, have, c.want)
		}
	}
}

// TestOnlyWhatAStepChangedIsTakenBack of a command line.
func TestOnlyWhatAStepChangedIsTakenBack(t *testing.T) {
	p, _ := base(t, "hosted-downtime")
	s := *find(t, p, "loops-off/")
	now := []string{component.KCM, "--cloud-provider=aws", "--controllers=*,-service", "--feature-gates=A=true"}
	for name, c := range map[string]struct {
		back  []string
		holds bool
	}{
		"its own flag":                    {[]string{component.KCM, "--cloud-provider=aws", "--controllers=*", "--feature-gates=A=true"}, true},
		"its own flag goes":               {[]string{component.KCM, "--cloud-provider=aws", "--feature-gates=A=true"}, true},
		"another item of its own flag":    {[]string{component.KCM, "--cloud-provider=aws", "--controllers=*,-podgc", "--feature-gates=A=true"}, false},
		"a flag of another step":          {[]string{component.KCM, "--cloud-provider=external", "--controllers=*", "--feature-gates=A=true"}, false},
		"a list that it has not changed":  {[]string{component.KCM, "--cloud-provider=aws", "--controllers=*", "--feature-gates=A=false"}, false},
		"a flag of no step of the plan's": {[]string{component.KCM, "--cloud-provider=aws", "--controllers=*", "--feature-gates=A=true", "--kubeconfig=/x"}, false},
	} {
		if err := allowed.CheckRestored(p, s, now, c.back); (err == nil) != c.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryPlanIsAllowedWhereverItsRunHasCome: of a run that was interrupted anywhere the plan is as allowed as at its start, and each step right before it.
func TestEveryPlanIsAllowedWhereverItsRunHasCome(t *testing.T) {
	for _, name := range []string{"lab", "hosted-downtime", "hosted-leader-migration", "hosted-finish"} {
		p, s := base(t, name)
		eachProgressAllowed(t, name, p, s)
	}
	for _, c := range compact {
		p, s := base(t, c.name)
		eachProgressAllowed(t, c.name, p, s)
	}
	s := awsUpgrade()
	eachProgressAllowed(t, "upgrade", mustMake(t, s, v1.Options{TargetVersion: "v1.27.4"}), s)
	for seed := range int64(30) {
		s, o := anyCluster(rand.New(rand.NewSource(seed)))
		if p, err := Make(s, o, nil, now); err == nil {
			eachProgressAllowed(t, s.Cluster.Provider, p, s)
		}
	}
}

func eachProgressAllowed(t *testing.T, name string, p *v1.Plan, s *v1.Snapshot) {
	t.Helper()
	live := copied(t, s)
	for _, step := range p.Steps {
		if len(step.Edits) == 0 {
			continue
		}
		if bases := allowed.FlagBases(step, live); len(bases) > 0 {
			if err := allowed.CheckFlags(p, step, bases...); err != nil {
				t.Errorf("%s: right before step %s: %v", name, step.ID, err)
			}
		}
		carryOut(live, step)
		if err := invariant.CheckJournaled(p, live); err != nil {
			t.Errorf("%s: after step %s: %v", name, step.ID, err)
			return
		}
	}
}

func copied(t *testing.T, s *v1.Snapshot) *v1.Snapshot {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := &v1.Snapshot{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// carryOut makes a snapshot show what a step changes.
func carryOut(s *v1.Snapshot, step v1.Step) {
	flags := func(of *map[string]string) {
		out := flagvalue.MergeFlags(nil, *of)
		for _, e := range step.Edits {
			switch e.Op {
			case v1.EditSetFlag:
				out[e.Name] = e.Value
			case v1.EditUnsetFlag:
				delete(out, e.Name)
			default: // no other edit is about this
			}
		}
		*of = out
	}
	manager := func(c *v1.Component) {
		if c == nil {
			return
		}
		flags(&c.Flags)
		c.Command = []string{c.Name}
		for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
			c.Command = append(c.Command, "--"+name+"="+c.Flags[name])
		}
		for _, e := range step.Edits {
			if e.Op == v1.EditSetImage {
				c.Image, _ = controlplane.Retag(c.Image, e.Value)
			}
		}
	}
	if step.Ref == layout.KubeadmConfigRef {
		args := s.Kubeadm.ExtraArgs[kubeadm.Sections[step.Component]]
		flags(&args)
		if s.Kubeadm.ExtraArgs == nil {
			s.Kubeadm.ExtraArgs = map[string]map[string]string{}
		}
		s.Kubeadm.ExtraArgs[kubeadm.Sections[step.Component]] = args
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		switch {
		case h.Name != step.Host:
		case step.Component == component.Kubelet:
			flags(&h.Kubelet.Flags)
		default:
			for c := range h.Components {
				if h.Components[c].Name == step.Component {
					manager(&h.Components[c])
				}
			}
			if h.CloudConfig != nil && step.Component == component.KCM {
				for _, c := range h.Components {
					if c.Name == component.KCM && c.Flags[flagvalue.FlagCloudConfig] == "" && h.CloudConfig != nil {
						for _, f := range clusterview.ConfigFileMounts(*h, &c) {
							c.HostPaths[f.Path] = f.Path // or it could not have read them
						}
						h.CloudConfig = nil
					}
				}
			}
		}
	}
	for i := range s.Hosted {
		if c := &s.Hosted[i]; c.Manifest == step.Ref && c.Name == step.Component {
			manager(c)
		}
	}
}
