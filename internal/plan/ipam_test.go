package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// allocating is a cluster of Deployments whose kube-controller-manager gives out pod CIDRs.
func allocating() *v1.Snapshot {
	s := deployedCluster()
	s.Hosted[0].Flags["allocate-node-cidrs"] = "true"
	return s
}

func TestAPlanSaysWhereNodeIPAMRunsAfterwardsAndWhy(t *testing.T) {
	move := v1.Options{NodeIPAM: v1.IPAMMove}
	for name, c := range map[string]struct {
		snap    *v1.Snapshot
		options v1.Options
		want    []string
	}{
		"it stays":                     {aws26HA(), v1.Options{}, []string{"node IPAM: stays", "needs no cloud", "--node-ipam=move"}},
		"it stays where none could go": {vsphere29(), v1.Options{Image: "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.29.0"}, []string{"node IPAM: stays", "v1.29.0 has none"}},
		"it is asked for":              {aws26HA(), move, []string{"node IPAM: moves", "--node-ipam=move", "keep the pod CIDRs"}},
		"it must":                      {gce30(), v1.Options{}, []string{"node IPAM: moves", "CloudAllocator asks the cloud"}},
		"of a Deployment it stays":     {allocating(), v1.Options{}, []string{"node IPAM: stays"}},
		"of a Deployment it moves":     {allocating(), move, []string{"node IPAM: moves"}},
		"with replaced hosts it stays": {aws26HA(), v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0"}, []string{"node IPAM: stays"}},
		"with replaced hosts it moves": {aws26HA(), v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0", NodeIPAM: v1.IPAMMove}, []string{"node IPAM: moves"}},
	} {
		effects := mustMake(t, c.snap, c.options).Effects
		i := slices.IndexFunc(effects, func(e string) bool { return strings.HasPrefix(e, "node IPAM") })
		if i < 0 {
			t.Errorf("%s: nothing is said of node IPAM: %q", name, effects)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(effects[i], part) {
				t.Errorf("%s: %q does not say %q", name, effects[i], part)
			}
		}
	}
}

// Our manager takes the alias ranges of instances, as the official one does: it is told to, and told that no route controller has the nodes' condition.
func TestOurManagerTakesPodCIDRsFromTheCloud(t *testing.T) {
	p := mustMake(t, gce30(), v1.Options{Image: cloudprovider.Own})
	if effects := strings.Join(p.Effects, "\n"); !strings.Contains(effects, "node IPAM: moves") || !strings.Contains(effects, "CloudAllocator asks the cloud") {
		t.Errorf("the effects are %s", effects)
	}
	var manifests []string
	for _, s := range p.Steps {
		for _, e := range s.Edits {
			manifests = append(manifests, e.Name+"="+e.Value)
		}
		manifests = append(manifests, s.Content)
	}
	text := strings.Join(manifests, "\n")
	for _, flag := range []string{"--controllers=*,node-ipam-controller", "--cidr-allocator-type=CloudAllocator", "--configure-cloud-routes=false", "--allocate-node-cidrs=true"} {
		if !strings.Contains(text, flag) {
			t.Errorf("the manager is not started with %s", flag)
		}
	}
	own := gce30()
	for _, h := range own.Hosts {
		for _, c := range h.Components {
			delete(c.Flags, "cidr-allocator-type")
		}
	}
	if effects := strings.Join(mustMake(t, own, v1.Options{Image: cloudprovider.Own}).Effects, "\n"); !strings.Contains(effects, "node IPAM: stays") {
		t.Errorf("the effects are %s", effects)
	}
}

func TestNodeIPAMOfADeploymentMoves(t *testing.T) {
	p := mustMake(t, allocating(), v1.Options{NodeIPAM: v1.IPAMMove})
	if s := find(t, p, "external/"+component.KCM); !planstep.SetsFlag(*s, "controllers", "*,-nodeipam") {
		t.Errorf("%s leaves it running: %v", s.ID, s.Edits)
	}
	if c := managerDeployment(t, p).Spec.Template.Spec.Containers[0]; !slices.Contains(c.Command, "--controllers=*,node-ipam-controller") ||
		!slices.Contains(c.Command, "--cluster-cidr=10.244.0.0/16") {
		t.Errorf("the new manager does not run it: %s", c.Command)
	}
	p = mustMake(t, allocating(), v1.Options{})
	if s := find(t, p, "external/"+component.KCM); planstep.SetsFlag(*s, "controllers", "*,-nodeipam") {
		t.Errorf("%s removes it though it stays", s.ID)
	}
	if c := managerDeployment(t, p).Spec.Template.Spec.Containers[0]; strings.Contains(strings.Join(c.Command, " "), "node-ipam") {
		t.Errorf("both run it: %s", c.Command)
	}
	cloud := allocating()
	for _, c := range append(componentsOf(cloud), cloud.Hosted) {
		for i := range c {
			c[i].Flags["cloud-provider"], c[i].Image = "gce", "registry.k8s.io/"+c[i].Name+":v1.28.1"
			delete(c[i].Flags, flagvalue.FlagCloudConfig)
		}
	}
	for i := range cloud.Hosts {
		cloud.Hosts[i].Kubelet.Flags["cloud-provider"] = "gce"
	}
	cloud.Cluster.Provider = "gce"
	cloud.Cluster.Version, cloud.Hosted[0].Flags["cidr-allocator-type"] = "v1.28.1", component.CloudAllocator
	p = mustMake(t, cloud, v1.Options{})
	s := find(t, p, "external/"+component.KCM)
	if !planstep.SetsFlag(*s, "controllers", "*,-nodeipam") && !planstep.SetsFlag(*s, "controllers", "*,-node-ipam-controller") ||
		!slices.Contains(s.Edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "cidr-allocator-type"}) {
		t.Errorf("an external manager would ask a cloud that it has not: %v", s.Edits)
	}
}

func TestTheLoopsOfADeploymentHaveOwnersInTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Component)
		option v1.Options
		want   map[string]string
	}{
		"with routes": {
			want: map[string]string{"service": component.CCM, "cloud-node-lifecycle": component.CCM, "route": component.CCM, "nodeipam": component.KCM},
		},
		"node IPAM moves": {
			option: v1.Options{NodeIPAM: v1.IPAMMove},
			want:   map[string]string{"service": component.CCM, "cloud-node-lifecycle": component.CCM, "route": component.CCM, "nodeipam": component.CCM},
		},
		"without routes": {
			change: func(m *v1.Component) { m.Flags["configure-cloud-routes"] = "false" },
			want:   map[string]string{"service": component.CCM, "cloud-node-lifecycle": component.CCM, "nodeipam": component.KCM},
		},
		"a loop is switched off": {
			change: func(m *v1.Component) { m.Flags["controllers"] = "*,-service" },
			want:   map[string]string{"cloud-node-lifecycle": component.CCM, "route": component.CCM, "nodeipam": component.KCM},
		},
	} {
		s := allocating()
		if c.change != nil {
			c.change(&s.Hosted[0])
		}
		if diff := cmp.Diff(c.want, find(t, mustMake(t, s, c.option), "verify/handed-over").Expect); diff != "" {
			t.Errorf("%s (-want +have):\n%s", name, diff)
		}
	}
}

func TestNodeIPAMMovesWithReplacedHosts(t *testing.T) {
	o := v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0", NodeIPAM: v1.IPAMMove}
	p := mustMake(t, aws26HA(), o)
	old, in, manager := find(t, p, "await/leader-migration"), find(t, p, "await/in/"+component.KCM+"/1"), find(t, p, "await/in/"+component.CCM+"/1")
	if text := strings.Join(old.Await.Instructions, "\n"); !strings.Contains(text, "name: nodeipam\n") {
		t.Errorf("an old manager would run it outside of the migration lease:\n%s", text)
	}
	text := strings.Join(in.Await.Instructions, "\n")
	for _, part := range []string{"--controllers=*,bootstrapsigner,tokencleaner,-nodeipam", "name: node-ipam-controller", "--controllers=*,node-ipam-controller"} {
		if !strings.Contains(text, part) {
			t.Errorf("the new nodes are not told %q:\n%s", part, text)
		}
	}
	if in.Await.Flags["controllers"] != "*,bootstrapsigner,tokencleaner,-nodeipam" || manager.Await.Flags["controllers"] != "*,node-ipam-controller" {
		t.Errorf("what is waited for would let two managers give out pod CIDRs: %v, %v", in.Await.Flags, manager.Await.Flags)
	}
	back := find(t, rolledBackFrom(t, p, afterReplacement(aws26HA())), "undo/await/in/1")
	if text := strings.Join(back.Await.Instructions, "\n"); !strings.Contains(text, "name: nodeipam\n") {
		t.Errorf("a manager of the old version that comes back would run it outside of the migration lease:\n%s", text)
	}
	o.NodeIPAM = ""
	stays := mustMake(t, aws26HA(), o)
	for _, s := range slices.Concat(stays.Steps, rolledBackFrom(t, stays, afterReplacement(aws26HA())).Steps) {
		if s.Await != nil && (s.Await.Flags["controllers"] != "" || strings.Contains(strings.Join(s.Await.Instructions, "\n"), "nodeipam")) {
			t.Errorf("step %s speaks of node IPAM, which stays", s.ID)
		}
	}
}

// allocatingSeed is a control plane in a seed whose pods say that they run node IPAM, too.
func allocatingSeed(replicas int32) *v1.Snapshot {
	s := seeded(replicas)
	s.Managers[0].Loops = append(s.Managers[0].Loops, "nodeipam")
	return s
}

// aliasedSeed is one whose nodes have pod CIDRs of GCE.
func aliasedSeed(replicas int32) *v1.Snapshot {
	s := allocatingSeed(replicas)
	s.Cluster.Provider, s.Nodes[0].ProviderID = "gce", "gce://project/eu-1a/n1"
	for i := range s.Hosted {
		s.Hosted[i].Flags["cloud-provider"] = "gce"
		s.Hosted[i].Command = []string{s.Hosted[i].Name, "--cloud-provider=gce"}
	}
	s.Hosted[1].CloudConfig.Provider, s.Hosted[1].Flags["cidr-allocator-type"] = "gce", component.CloudAllocator
	return s
}

func TestNodeIPAMMovesInASeedToo(t *testing.T) {
	off := "*,bootstrapsigner,tokencleaner,-service,-route,-cloud-node-lifecycle,-nodeipam"
	for name, c := range map[string]struct {
		snap     *v1.Snapshot
		options  v1.Options
		strategy string
	}{
		"pod CIDRs from the cloud":              {aliasedSeed(2), v1.Options{Image: cloudprovider.Own}, planstep.LeaderMigration},
		"pod CIDRs from the cloud, one replica": {aliasedSeed(1), v1.Options{Image: cloudprovider.Own}, planstep.Downtime},
		"asked for":                             {allocatingSeed(2), v1.Options{Image: cloudprovider.Own, NodeIPAM: v1.IPAMMove}, planstep.LeaderMigration},
	} {
		p := mustMake(t, c.snap, c.options)
		if p.Strategy != c.strategy {
			t.Errorf("%s: the strategy is %s", name, p.Strategy)
		}
		s := find(t, p, "loops-off/"+component.KCM)
		if !planstep.SetsFlag(*s, "controllers", off) || s.Expect["nodeipam"] == component.KCM {
			t.Errorf("%s: the in-tree manager would go on with node IPAM: %v, %v", name, s.Edits, s.Expect)
		}
		manager := find(t, p, "start/"+component.CCM).Object
		for _, want := range []string{"--controllers=*,node-ipam-controller", "--allocate-node-cidrs=true"} {
			if !strings.Contains(manager, want) {
				t.Errorf("%s: the new manager is started without %s: %s", name, want, manager)
			}
		}
		if have := c.snap.Hosted[1].Flags["cidr-allocator-type"]; have != "" && !strings.Contains(manager, "--cidr-allocator-type="+have) {
			t.Errorf("%s: the new manager would give out other pod CIDRs: %s", name, manager)
		}
		if owners := find(t, p, "verify/handed-over").Expect; owners["nodeipam"] != component.CCM {
			t.Errorf("%s: the owners in the end are %v", name, owners)
		}
		if c.strategy != planstep.LeaderMigration {
			continue
		}
		configs := manifests(p)
		if !strings.Contains(configs, "name: nodeipam\\n") || !strings.Contains(configs, "name: node-ipam-controller\\n") {
			t.Errorf("%s: node IPAM would run outside of the migration lease: %s", name, configs)
		}
		if owners := find(t, p, "leader-migration/"+component.KCM).Expect; owners["nodeipam"] != component.KCM {
			t.Errorf("%s: under the migration lease, the owners are %v", name, owners)
		}
	}
	if stays := mustMake(t, seeded(2), v1.Options{Image: seedImage}); strings.Contains(manifests(stays), "nodeipam") {
		t.Error("node IPAM moves, and nothing asks for that")
	}
}

func TestTheProviderStaysInASeedAsLongAsItGivesOutPodCIDRs(t *testing.T) {
	finish := v1.Options{Image: cloudprovider.Own, Part: v1.PartFinish}
	s := aliasedSeed(2)
	_, err := Make(s, finish, nil, now)
	if err == nil || !strings.Contains(err.Error(), "--cidr-allocator-type=CloudAllocator") || !strings.Contains(err.Error(), "plan the handover first") {
		t.Errorf("the error is %v", err)
	}
	s.Hosted[1].Flags["controllers"] = "*,-service,-route,-cloud-node-lifecycle,-nodeipam"
	s.Hosted = append(s.Hosted, v1.Component{
		Name: component.CCM, Runs: v1.RunsDeployment, Manifest: "Deployment/cluster-x/gce-cloud-controller-manager", SHA256: "m", Replicas: ptr.To[int32](2),
		Flags: map[string]string{"cloud-provider": "gce"},
	})
	edits := find(t, mustMake(t, s, finish), "external/"+component.KCM).Edits
	if !slices.Contains(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "cidr-allocator-type"}) {
		t.Errorf("an external manager would have the allocator of a cloud: %v", edits)
	}
}

func TestNodeIPAMThatCannotMoveIsRefused(t *testing.T) {
	move := v1.Options{NodeIPAM: v1.IPAMMove}
	none := func(s *v1.Snapshot) *v1.Snapshot {
		for i := range s.Hosts {
			if m := clusterview.FindComponent(s.Hosts[i], component.KCM); m != nil {
				delete(m.Flags, "allocate-node-cidrs")
			}
		}
		return s
	}
	fromCluster := gce30()
	for i := range fromCluster.Hosts {
		if m := clusterview.FindComponent(fromCluster.Hosts[i], component.KCM); m != nil {
			m.Flags["cidr-allocator-type"] = "IPAMFromCloud"
		}
	}
	for name, c := range map[string]struct {
		snap    *v1.Snapshot
		options v1.Options
		want    string
	}{
		"in a seed, at the end":     {seeded(2), v1.Options{NodeIPAM: v1.IPAMMove, Part: v1.PartFinish}, "node IPAM moves with the handover alone"},
		"in a seed, without":        {seeded(2), v1.Options{NodeIPAM: v1.IPAMMove, Image: seedImage}, "node IPAM cannot move"},
		"none runs":                 {none(aws26HA()), move, "gives out no pod CIDRs"},
		"none runs in a Deployment": {deployedCluster(), move, "gives out no pod CIDRs"},
		"none runs on replaced":     {none(aws26HA()), v1.Options{NodeIPAM: v1.IPAMMove, ReplaceHosts: true, TargetVersion: "v1.27.0"}, "gives out no pod CIDRs"},
		"another cloud allocator":   {fromCluster, v1.Options{}, "--cidr-allocator-type=IPAMFromCloud"},
		"an image without":          {allocating(), v1.Options{NodeIPAM: v1.IPAMMove, Image: seedImage}, "node IPAM cannot move"},
	} {
		if _, err := Make(c.snap, c.options, nil, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it should say %q: %v", name, c.want, err)
		}
	}
}
