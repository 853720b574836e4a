package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// units turns the components of a cluster's hosts into systemd units whose flags stand in environment files.
func units(s *v1.Snapshot) *v1.Snapshot {
	s.Kubeadm = nil
	for h := range s.Hosts {
		for c := range s.Hosts[h].Components {
			k := &s.Hosts[h].Components[c]
			k.Runs, k.Unit, k.Manifest, k.HostPaths = v1.RunsSystemd, k.Name+".service", "/etc/default/"+k.Name, nil
		}
	}
	return s
}

// aws26HA is aws26 with three control-plane hosts.
func aws26HA() *v1.Snapshot {
	return kubeadmCluster{
		provider: "aws", version: "v1.26.0", hosts: 3, workers: 1, config: "/etc/kubernetes/cloud.conf",
		kcm:        map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "cluster-name": "prod", "configure-cloud-routes": "false"},
		providerID: func(_ int, name string) string { return "aws:///eu-central-1a/i-" + name },
	}.snapshot()
}

func TestAControlPlaneOfUnitsIsChangedWhereItsFlagsStand(t *testing.T) {
	p := mustMake(t, units(aws26HA()), v1.Options{Volumes: v1.VolumesInTree})
	at := positions(p)
	s := p.Steps[at["external/"+component.KCM+"@cp-1"]]
	if s.Kind != v1.StepEditUnit || s.Unit != component.KCM+".service" || s.Path != "/etc/default/"+component.KCM {
		t.Errorf("step %+v", s)
	}
	for _, s := range p.Steps {
		for _, e := range s.Edits {
			if s.Kind == v1.StepEditUnit && strings.HasSuffix(string(e.Op), "HostPath") {
				t.Errorf("step %s mounts a file into a unit", s.ID)
			}
		}
		if s.Kind == v1.StepEditManifest && s.Component != component.CCM {
			t.Errorf("step %s edits a manifest that is not there", s.ID)
		}
	}
	if start := p.Steps[at["start/"+component.CCM+"@cp-1"]]; start.Kind != v1.StepAddManifest {
		t.Errorf("the cloud-controller-manager is an image, and the kubelet has a directory for it: %+v", start.Kind)
	}
	back := rolledBackFrom(t, p, units(aws26HA()))
	last := map[string]v1.Step{}
	for _, s := range back.Steps {
		if s.Component == component.KCM {
			last[s.Host] = s
		}
	}
	for _, h := range []string{"cp-1", "cp-2", "cp-3"} {
		if s := last[h]; s.Kind != v1.StepEditUnit || s.Unit == "" || s.Restore != "leader-migration/"+component.KCM+"@"+h {
			t.Errorf("the way back on %s ends with %+v", h, s)
		}
	}
}

func TestAUnitHasItsNewFlagsBeforeItIsStopped(t *testing.T) {
	snap := aws26()
	p := mustMake(t, units(snap), v1.Options{})
	at := positions(p)
	stop, start := p.Steps[at["stop/"+component.KCM+"@cp-1"]], p.Steps[at["external/"+component.KCM+"@cp-1"]]
	if stop.Kind != v1.StepStopUnit || start.Kind != v1.StepStartUnit || stop.Path != start.Path {
		t.Fatalf("%s, %s", stop.Kind, start.Kind)
	}
	if diff := cmp.Diff(start.Edits, stop.Edits); diff != "" || !planstep.SetsFlag(stop, "cloud-provider", "external") {
		t.Errorf("what starts the unit again would start it otherwise (-start +stop):\n%s", diff)
	}
	if have := strings.Join(
		stop.Manual,
		"\n",
	); !strings.Contains(have, "--cloud-provider=external") ||
		!strings.HasSuffix(have, "systemctl stop "+component.KCM+".service'") {
		t.Errorf("by hand:\n%s", have)
	}
	if want := "ssh cp-1 'sudo systemctl start " + component.KCM + ".service'"; strings.Join(start.Manual, "\n") != want {
		t.Errorf("by hand: %q, want %s", start.Manual, want)
	}
	back := rolledBackFrom(t, p, snap)
	if s := back.Steps[positions(back)["undo/start/"+stop.ID]]; s.Kind != v1.StepStartUnit || s.Restore != stop.ID {
		t.Errorf("the way back takes the file from before %s: %+v", s.Restore, s)
	}
	pods := mustMake(t, aws26(), v1.Options{})
	if s := pods.Steps[positions(pods)["stop/"+component.KCM+"@cp-1"]]; len(s.Edits) > 0 {
		t.Errorf("a manifest that is moved away is edited: %v", s.Edits)
	}
}

// rolledBackFrom is the way back of a plan of which every step was done.
func rolledBackFrom(t *testing.T, p *v1.Plan, s *v1.Snapshot) *v1.Plan {
	t.Helper()
	j := &v1.Journal{TypeMeta: v1.Type(v1.KindJournal), Run: "r", Started: now, Plan: *p}
	for _, step := range p.Steps {
		j.Records = append(j.Records, v1.StepRecord{ID: step.ID, Result: v1.StepResultDone})
	}
	back, err := rollback.Make(j, s, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := invariant.CheckWellFormed(back); err != nil {
		t.Errorf("the way back: %v", err)
	}
	return back
}

func TestFlagsOfAUnitThatAreSpreadOverFilesAreRefusedByName(t *testing.T) {
	s := units(aws26HA())
	kcmOf(s, 0).Sources = map[string]string{"cloud-provider": "/etc/systemd/system/kube-controller-manager.service.d/cloud.conf"}
	_, err := Make(s, v1.Options{Volumes: v1.VolumesInTree}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "--cloud-provider in /etc/systemd/system/kube-controller-manager.service.d/cloud.conf") {
		t.Errorf("error: %v", err)
	}
}

func TestTheShapeOfTheManagerWhereTheKubeletReadsNoManifests(t *testing.T) {
	for _, c := range []struct {
		name   string
		host   v1.Host
		choice string
		want   string
	}{
		{"a static pod is there", v1.Host{Components: []v1.Component{{Manifest: "/srv/pods/a.yaml"}}}, "", v1.ShapeStaticPod},
		{
			"a unit next to a kubelet with a directory",
			v1.Host{Components: []v1.Component{{Runs: v1.RunsSystemd, Manifest: "/etc/default/a"}}, Kubelet: &v1.Kubelet{Flags: map[string]string{"pod-manifest-path": "/srv/pods"}}},
			"",
			v1.ShapeStaticPod,
		},
		{"the directory stands in the kubelet's configuration", v1.Host{Kubelet: &v1.Kubelet{Config: &v1.KubeletConfig{StaticPodPath: "/srv/pods"}}}, "", v1.ShapeStaticPod},
		{"no directory", v1.Host{Kubelet: &v1.Kubelet{}}, "", v1.ShapeDaemonSet},
		{"no kubelet", v1.Host{}, "", v1.ShapeDaemonSet},
		{"a choice goes first", v1.Host{}, v1.ShapeStaticPod, v1.ShapeStaticPod},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &draft.Draft{Options: v1.Options{Shape: c.choice}}
			if have := ccm.ShapeFor(d, c.host); have != c.want {
				t.Errorf("%s, want %s", have, c.want)
			}
		})
	}
}

func TestReplacedHostsAreNeverTouched(t *testing.T) {
	s := aws26HA()
	p := mustMake(t, s, v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.3"})
	if err := invariant.CheckWellFormed(p); err != nil {
		t.Error(err)
	}
	var ids []string
	for _, step := range p.Steps {
		if step.Host != "" || step.Path != "" {
			t.Errorf("step %s touches a host", step.ID)
		}
		if step.Kind == v1.StepAwait {
			ids = append(ids, step.ID)
		}
	}
	want := []string{
		"await/leader-migration",
		"await/in/" + component.KCM + "/1",
		"await/in/" + component.CCM + "/1",
		"await/out/cp-1",
		"await/in/" + component.KCM + "/2",
		"await/in/" + component.CCM + "/2",
		"await/out/cp-3",
		"await/in/" + component.KCM + "/3",
		"await/in/" + component.CCM + "/3",
		"await/out/cp-2",
		"await/finish",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("one in, one out, the owner cp-2 last (-want +have):\n%s", diff)
	}
	first := strings.Join(p.Steps[positions(p)["await/in/"+component.KCM+"/1"]].Await.Instructions, "\n")
	for _, part := range []string{
		"version v1.27.3",
		"--cloud-provider=external",
		"no --enable-leader-migration",
		"kind: LeaderMigrationConfiguration",
		"--leader-migration-config=" + layout.CCMMigration,
		"--cluster-name=prod",
		layout.CCMKubeconfig,
	} {
		if !strings.Contains(first, part) {
			t.Errorf("the instructions do not say %q:\n%s", part, first)
		}
	}
	back := rolledBackFrom(t, p, s)
	for _, step := range back.Steps {
		if step.Host != "" {
			t.Errorf("step %s of the way back touches a host", step.ID)
		}
	}
	want26 := find(t, mustMake(t, s, v1.Options{}), "verify/handed-over").Expect
	checkOwners(t, p, back, want26)
}

// TestANewHostIsToldWhatItsVersionDoesNotTake: the gates that an in-tree provider needs in 1.30 are locked in 1.31, and nothing starts with them.
func TestANewHostIsToldWhatItsVersionDoesNotTake(t *testing.T) {
	p := mustMake(t, gce30(), v1.Options{Image: cloudprovider.Own, ReplaceHosts: true, TargetVersion: "v1.31.0"})
	lines := find(t, p, "await/in/"+component.KCM+"/1").Await.Instructions
	text := strings.Join(lines, "\n")
	for _, part := range []string{
		"flags of " + component.KAS + " that differ:\n    --cloud-provider=external\n    no --cloud-config\n    --feature-gates=APIServerTracing=true\n",
		"flags of the kubelet: --cloud-provider=external, no --cloud-config, neither as a flag nor in a file the gates DisableCloudProviders and DisableKubeletCloudCredentialProviders\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the instructions do not say %q:\n%s", part, text)
		}
	}
	if !slices.Contains(lines, "    no --feature-gates") {
		t.Errorf("the gates of %s stay:\n%s", component.KCM, text)
	}
	tagged := gce30() // by a distribution: what people make of it is no edit of the image
	for h := range tagged.Hosts {
		for i := range tagged.Hosts[h].Components {
			tagged.Hosts[h].Components[i].Image += "-distro.1"
		}
	}
	own := mustMake(t, tagged, v1.Options{Image: cloudprovider.Own, ReplaceHosts: true, TargetVersion: "v1.31.0"})
	if diff := cmp.Diff(lines, find(t, own, "await/in/"+component.KCM+"/1").Await.Instructions); diff != "" {
		t.Errorf("with tags of a distribution (-want +have):\n%s", diff)
	}
	same := mustMake(t, gce30(), v1.Options{Image: cloudprovider.Own, ReplaceHosts: true, TargetVersion: "v1.30.4"})
	for _, line := range find(t, same, "await/in/"+component.KCM+"/1").Await.Instructions {
		if strings.Contains(line, "neither as a flag nor in a file") {
			t.Errorf("the gates are not locked in 1.30: %s", line)
		}
	}
}

// checkOwners holds the last step of a plan to the owners that it expects, and the way back to the kube-controller-manager's.
func checkOwners(t *testing.T, p, back *v1.Plan, want map[string]string) {
	t.Helper()
	if want["service"] != component.CCM {
		t.Errorf("the service loop would run in %q", want["service"])
	}
	if diff := cmp.Diff(want, find(t, p, "verify/handed-over").Expect); diff != "" {
		t.Errorf("the owners in the end (-want +have):\n%s", diff)
	}
	in := map[string]string{}
	for loop := range want {
		in[loop] = component.KCM
	}
	if diff := cmp.Diff(in, find(t, back, "verify/rolled-back").Expect); diff != "" {
		t.Errorf("the owners after the way back (-want +have):\n%s", diff)
	}
}

func TestNoOwnersAreExpectedOfManagersThatDoNotSayWhatTheyRun(t *testing.T) {
	old := aws26HA()
	old.Cluster.Version = "v1.25.3"
	for name, p := range map[string]*v1.Plan{
		"1.25 is replaced by 1.26": mustMake(t, old, v1.Options{ReplaceHosts: true, TargetVersion: "v1.26.0"}),
		"an official manager":      mustMake(t, onAzure(aws26HA()), v1.Options{ReplaceHosts: true, TargetVersion: "v1.29.0", Image: officialAzure}),
	} {
		if expect := find(t, p, "verify/handed-over").Expect; expect != nil || !strings.Contains(strings.Join(p.Effects, "\n"), "not observed: which manager runs a loop") {
			t.Errorf("%s: expects %v, and the effects are %q", name, expect, p.Effects)
		}
	}
}

// afterReplacement is the cluster after hosts of another name, with an external kube-controller-manager, have taken the place of its own.
func afterReplacement(s *v1.Snapshot) *v1.Snapshot {
	for h := range s.Hosts {
		if m := clusterview.FindComponent(s.Hosts[h], component.KCM); m != nil {
			m.Flags["cloud-provider"] = "external"
			s.Hosts[h].Name, s.Hosts[h].NodeName = "new-"+s.Hosts[h].Name, "new-"+s.Hosts[h].Name
		}
	}
	return s
}

func TestTheWayBackOfReplacedHosts(t *testing.T) {
	before := aws26HA()
	p := mustMake(t, before, v1.Options{ReplaceHosts: true, TargetVersion: "1.27"})
	var ids []string
	for _, s := range rolledBackFrom(t, p, afterReplacement(aws26HA())).Steps {
		if s.Kind == v1.StepAwait {
			ids = append(ids, s.ID)
		}
	}
	want := []string{
		"again/await/leader-migration",
		"undo/await/in/1",
		"undo/await/out/new-cp-1",
		"undo/await/in/2",
		"undo/await/out/new-cp-2",
		"undo/await/in/3",
		"undo/await/out/new-cp-3",
		"undo/await/leader-migration",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

// A host is taken down, and a rollback is planned before kube-controller-manager has collected its pods.
func TestAHostThatWasTakenDownIsNotCountedOnTheWayBack(t *testing.T) {
	p := mustMake(t, aws26HA(), v1.Options{ReplaceHosts: true, TargetVersion: "1.27"})
	now := afterReplacement(aws26HA())
	left := aws26HA().Hosts[0]
	left.Name, left.NodeName, left.APIOnly = "node-that-left", "node-that-left", true
	now.Hosts = append(now.Hosts, left)
	if s := find(t, rolledBackFrom(t, p, now), "undo/await/in/1"); s.Await.Nodes != 1 {
		t.Errorf("it waits for %d nodes of the old version, and there is one", s.Await.Nodes)
	}
	now.Nodes = append(now.Nodes, v1.Node{Name: "node-that-left"})
	if s := find(t, rolledBackFrom(t, p, now), "undo/await/in/1"); s.Await.Nodes != 2 {
		t.Errorf("it waits for %d nodes of the old version, and one is there still", s.Await.Nodes)
	}
}

func TestReplacementsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   v1.Options
		change func(*v1.Snapshot)
		want   string
	}{
		{"no version", v1.Options{ReplaceHosts: true}, nil, "need --target-version"},
		{"two versions up", v1.Options{ReplaceHosts: true, TargetVersion: "v1.28.0"}, nil, "one minor version at a time"},
		{"no version at all", v1.Options{ReplaceHosts: true, TargetVersion: "latest"}, nil, "give a Kubernetes version"},
		{"one host", v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0"}, func(s *v1.Snapshot) { s.Hosts = s.Hosts[:1] }, "replacing needs two or more"},
		{"external already", v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0"}, func(s *v1.Snapshot) { kcmOf(s, 0).Flags["cloud-provider"] = "external" }, `node cp-1 runs with --cloud-provider="external"`},
		{"a version without replacing that is no tag", v1.Options{TargetVersion: "v1.27"}, nil, "give one, e.g. v1.27.4"},
		{"with downtime", v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0", Strategy: planstep.Downtime}, nil, "leave out --strategy downtime"},
		{"an unknown shape", v1.Options{Shape: "job"}, nil, `shape "job" is not known: use static-pod or daemonset`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := aws26HA()
			if c.change != nil {
				c.change(s)
			}
			_, err := Make(s, c.opts, nil, now)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it should say %q: %v", c.want, err)
			}
		})
	}
}

// deployedCluster is one whose kube-controller-manager is a Deployment.
func deployedCluster() *v1.Snapshot {
	s := aws26HA()
	s.Kubeadm = nil
	n := int32(2)
	s.Hosted = []v1.Component{
		{
			Name:     component.KCM,
			Runs:     v1.RunsDeployment,
			Manifest: "Deployment/kube-system/" + component.KCM,
			SHA256:   "t",
			Replicas: &n,
			Command:  []string{component.KCM, "--cloud-provider=aws"},
			Flags:    map[string]string{"cloud-provider": "aws", "cluster-name": "prod", "cluster-cidr": "10.244.0.0/16"},
		},
	}
	for h := range s.Hosts {
		kept := s.Hosts[h].Components[:0]
		for _, c := range s.Hosts[h].Components {
			if c.Name != component.KCM {
				kept = append(kept, c)
			}
		}
		s.Hosts[h].Components = kept
	}
	return s
}

func TestAManagerThatIsADeploymentIsChangedInPlaceAndNeverScaledToNone(t *testing.T) {
	p := mustMake(t, deployedCluster(), v1.Options{})
	if p.Strategy != planstep.Downtime {
		t.Errorf("strategy %q", p.Strategy)
	}
	if err := invariant.CheckWellFormed(p); err != nil {
		t.Error(err)
	}
	at := positions(p)
	external, start := at["external/"+component.KCM+"@Deployment/kube-system/"+component.KCM], at["create/Deployment/kube-system/"+component.CCM]
	if s := p.Steps[external]; s.Kind != v1.StepEditWorkload || len(s.Edits) != 1 ||
		s.Requires[len(s.Requires)-1] != "workload:Deployment/kube-system/"+component.KCM {
		t.Errorf("step %+v", s)
	}
	if start < external || p.Steps[start].Component != component.CCM || !strings.Contains(p.Steps[start].Object, "--cluster-name=prod") {
		t.Errorf("the cloud-controller-manager comes after the old pods have ended: %+v", p.Steps[start])
	}
	back := rolledBackFrom(t, p, deployedCluster())
	for _, s := range append(p.Steps, back.Steps...) {
		if s.Kind == v1.StepScale {
			t.Errorf("step %s scales the controller of its own Deployment", s.ID)
		}
	}
	at = positions(back)
	checkOwners(t, p, back, map[string]string{"service": component.CCM, "cloud-node-lifecycle": component.CCM})
	if gone, again := at["undo/create/Deployment/kube-system/"+component.CCM], at["undo/external/"+component.KCM+"@Deployment/kube-system/"+component.KCM]; gone >= again {
		t.Errorf("the in-tree manager comes back (%d) before the other one has gone (%d)", again, gone)
	}
}

func TestDeploymentsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   v1.Options
		change func(*v1.Component)
		want   string
	}{
		{"leader migration", v1.Options{Strategy: planstep.LeaderMigration}, nil, "use --strategy downtime"},
		{"a cloud config by no path", v1.Options{}, func(c *v1.Component) { c.Flags["cloud-config"] = "cloud.conf" }, "--cloud-config=cloud.conf, which is no absolute path"},
		{"a template that could not be read", v1.Options{}, func(c *v1.Component) { c.Error = "sh -c" }, "sh -c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := deployedCluster()
			if c.change != nil {
				c.change(&s.Hosted[0])
			}
			_, err := Make(s, c.opts, nil, now)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it should say %q: %v", c.want, err)
			}
		})
	}
}

func TestTheWayBackOfADowntime(t *testing.T) {
	for name, s := range map[string]func() *v1.Snapshot{"static pods": aws26, "units": func() *v1.Snapshot { return units(aws26()) }, "three hosts": aws26HA} {
		t.Run(name, func(t *testing.T) {
			p := mustMake(t, s(), v1.Options{Strategy: planstep.Downtime, Volumes: v1.VolumesInTree})
			back := rolledBackFrom(t, p, s())
			phase := map[string]int{}
			first, last := map[string]int{}, map[string]int{}
			for i, step := range back.Steps {
				key := step.Component + " " + string(step.Kind)
				if _, ok := first[key]; !ok {
					first[key] = i
				}
				last[key] = i
				phase[step.Phase] = i
			}
			startKind, stopKind := v1.StepRestoreManifest, v1.StepRemoveManifest
			if name == "units" {
				startKind, stopKind = v1.StepStartUnit, v1.StepStopUnit
			}
			gone := last[component.CCM+" "+string(v1.StepRemoveManifest)]
			stopped := last[component.KCM+" "+string(stopKind)]
			started := first[component.KCM+" "+string(startKind)]
			if gone == 0 || gone > stopped || stopped > started {
				t.Errorf("the cloud-controller-managers go (%d), the managers stop (%d), and come back as they were (%d)", gone, stopped, started)
			}
			for i, step := range back.Steps {
				if step.Component == component.KAS && (i < stopped || i > started) {
					t.Errorf("%s is restored (%d) while its host's manager runs (%d to %d)", step.ID, i, stopped, started)
				}
			}
		})
	}
}

func TestWhereAPlanMayBeCut(t *testing.T) {
	lm := mustMake(t, aws26HA(), v1.Options{Volumes: v1.VolumesInTree})
	for point, want := range map[string]string{
		planstep.PhaseMigration:            planstep.PhaseMigration,
		"external/kubelet@cp-1":            planstep.PhaseKubelets,
		"start/" + component.CCM + "@cp-3": planstep.PhaseHandover,
	} {
		n, err := planstep.Until(lm, point)
		if err != nil || lm.Steps[n-1].Phase != want {
			t.Errorf("%s: %d, %v", point, n, err)
		}
	}
	for point, want := range map[string]string{"nowhere": "its phases are prepare, leader-migration", "external/": "give the whole ID"} {
		if _, err := planstep.Until(lm, point); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", point, err)
		}
	}
	down := mustMake(t, aws26(), v1.Options{Volumes: v1.VolumesInTree})
	if _, err := planstep.Until(down, "external/"+component.KAS); err == nil || !strings.Contains(err.Error(), "is in the downtime: no manager would run the loops") {
		t.Errorf("a cut in the downtime: %v", err)
	}
	if n, err := planstep.Until(down, planstep.PhasePrepare); err != nil || planstep.Remaining(down, n)[0] == "" {
		t.Errorf("before the downtime: %v", err)
	}
}

// TestEveryFileGoesBackToWhatItWasFirst holds for every cluster, strategy and kind of control plane: whatever the plan changed several times ends with
// what was there before the first change, and every object that was patched is put back.
func TestEveryFileGoesBackToWhatItWasFirst(t *testing.T) {
	for _, c := range compact {
		for _, strategy := range []string{"", planstep.Downtime} {
			t.Run(c.name+" "+strategy, func(t *testing.T) {
				o := c.options
				o.Strategy = strategy
				p := mustMake(t, c.snap(), o)
				back := rolledBackFrom(t, p, c.snap())
				first, patched := map[string]string{}, map[string]bool{}
				for _, s := range p.Steps {
					if s.Kind == v1.StepPatchObject {
						patched[s.ID] = true
					}
					if s.Path != "" && s.Kind != v1.StepRemoveFile && first[s.Host+s.Path] == "" {
						first[s.Host+s.Path] = s.ID
					}
				}
				last := map[string]string{}
				for _, s := range back.Steps {
					delete(patched, s.Restore)
					if s.Restore != "" && s.Path != "" {
						last[s.Host+s.Path] = s.Restore
					}
				}
				if diff := cmp.Diff(first, last); diff != "" {
					t.Errorf("first step that changed a file, and what it is restored from (-want +have):\n%s", diff)
				}
				if len(patched) > 0 {
					t.Errorf("not put back: %v", patched)
				}
				at := positions(back)
				for id, i := range at { // a kubelet that goes back to the in-tree plugins needs a manager that still has them
					if strings.HasPrefix(id, "undo/external/kubelet") && strategy == "" {
						for later, k := range at {
							if strings.HasPrefix(later, "undo/volumes/"+component.KCM) && k > i || strings.HasPrefix(later, "undo/gates/") && k < i {
								t.Errorf("%s is at the wrong side of %s", later, id)
							}
						}
					}
				}
			})
		}
	}
}

func TestARollbackFromEveryStepOfEveryCluster(t *testing.T) {
	for _, c := range compact {
		p := mustMake(t, c.snap(), c.options)
		for n := range len(p.Steps) + 1 {
			j := &v1.Journal{TypeMeta: v1.Type(v1.KindJournal), Run: "r", Started: now, Plan: *p}
			for _, s := range p.Steps[:n] {
				j.Records = append(j.Records, v1.StepRecord{ID: s.ID, Result: v1.StepResultStarted})
			}
			back, err := rollback.Make(j, c.snap(), now)
			if err != nil {
				t.Fatalf("%s after %d steps: %v", c.name, n, err)
			}
			if err := invariant.CheckWellFormed(back); err != nil {
				t.Errorf("%s after %d steps: %v", c.name, n, err)
			}
			seen := map[string]bool{}
			for i, s := range back.Steps {
				if i > 0 && back.Steps[i-1].Phase != s.Phase && seen[s.Phase] {
					t.Errorf("%s after %d steps: phase %s is taken up again by %s", c.name, n, s.Phase, s.ID)
				}
				seen[s.Phase] = true
			}
		}
	}
}
