package plan

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// anyCluster is a cluster that may be met: some provider in some version that still has it, with what its owner may have changed.
func anyCluster(r *rand.Rand) (*v1.Snapshot, v1.Options) {
	var providers []cloudprovider.Provider
	for _, p := range cloudprovider.Providers() {
		if p.Unsupported == "" {
			providers = append(providers, p)
		}
	}
	p := providers[r.Intn(len(providers))]
	minor := 20 + r.Intn(min(p.LastInTree, 30)-19)
	pick := func(values ...string) string { return values[r.Intn(len(values))] }
	flags := func(all map[string][]string) map[string]string {
		out := map[string]string{}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for k := range all {
				if !yield(k) {
					return
				}
			}
		}) {
			if v := pick(append(all[name], "")...); v != "" {
				out[name] = v
			}
		}
		return out
	}
	again := ""
	if minor >= 29 {
		again = "DisableCloudProviders=false"
	}
	gates := func() []string {
		migration := p.Plugins[0].MigrationGate
		if g := catalogue.GateAt(migration, minor); !g.Known || g.Locked {
			return []string{again, strings.Trim("AllAlpha=false,"+again, ",")}
		}
		return []string{migration + "=true", migration + "=false", "AllAlpha=false," + migration + "=true"}
	}
	withAgain := func(m map[string]string) map[string]string {
		if again != "" && !strings.Contains(m["feature-gates"], again) {
			m["feature-gates"] = strings.Trim(m["feature-gates"]+","+again, ",")
		}
		return m
	}
	withBoth := func(m map[string]string) map[string]string {
		if again != "" {
			m["feature-gates"] = again + ",DisableKubeletCloudCredentialProviders=false"
		}
		return m
	}
	c := kubeadmCluster{
		provider: p.Name,
		version:  fmt.Sprintf("v1.%d.%d", minor, r.Intn(10)),
		hosts:    []int{1, 3, 3, 5}[r.Intn(4)],
		workers:  r.Intn(4),
		config:   "/etc/kubernetes/cloud.conf",
		ca:       clusterview.TrustDirs[:r.Intn(len(clusterview.TrustDirs))],
		kas:      withBoth(flags(map[string][]string{"enable-admission-plugins": {"NodeRestriction,PersistentVolumeLabel", "PersistentVolumeLabel"}})),
		kcm: withAgain(flags(map[string][]string{
			"cluster-name": {
				"prod",
				"x",
			},
			"allocate-node-cidrs":    {"true", "false"},
			"cluster-cidr":           {"10.0.0.0/8"},
			"configure-cloud-routes": {"true", "false"},
			"feature-gates":          gates(),
			"controllers": {
				"*,-route",
				"*,bootstrapsigner",
				"*,-service-lb-controller",
				"*",
			},
			"cidr-allocator-type":         {"RangeAllocator", component.CloudAllocator},
			"leader-elect-renew-deadline": {"20s"},
			"leader-elect-retry-period":   {"3s"},
			"v":                           {"4"},
		})),
		scheduler: flags(map[string][]string{"feature-gates": gates()}),
		kubelet:   withAgain(flags(map[string][]string{"feature-gates": gates(), "node-ip": {"10.0.0.1"}})),
		providerID: func(i int, name string) string {
			if r.Intn(6) == 0 {
				return ""
			}
			return p.Name + ":///" + name
		},
	}
	s := c.snapshot()
	for _, plugin := range p.Plugins {
		if r.Intn(2) == 0 {
			inTree(s, plugin.Name, pick("cp-1", "worker-1"))
		}
		if r.Intn(2) == 0 {
			driver(s, plugin.Driver)
		}
	}
	if r.Intn(4) == 0 {
		s.Volumes = nil
	}
	if r.Intn(3) == 0 {
		s.Kubeadm = nil
	}
	if c.workers > 0 && r.Intn(4) == 0 {
		s.Hosts = s.Hosts[:len(s.Hosts)-1] // a worker that cannot be reached
	}
	o := v1.Options{
		Strategy: pick(
			"",
			"",
			"",
			planstep.LeaderMigration,
			planstep.Downtime,
		),
		Shape:               pick("", v1.ShapeDaemonSet, v1.ShapeStaticPod),
		NodeIPAM:            pick("", "", v1.IPAMKeep, v1.IPAMMove),
		Volumes:             pick("", "", "", v1.VolumesCSI, v1.VolumesInTree),
		KeepLeaderMigration: r.Intn(4) == 0,
		DisableInTree:       r.Intn(3) == 0,
		Image: pick(
			"",
			"registry/transplant-dev/"+p.Name+"-cloud-controller-manager:v0.1.0",
			fmt.Sprintf("registry/%s-cloud-controller-manager:v1.%d.3", p.Name, minor),
		),
	}
	if r.Intn(3) == 0 {
		o.CredentialProvider, o.CredentialProviderSHA256 = "bin/provider", sha
	}
	return s, o
}

func TestWhateverTheClusterThePlanKeepsTheRules(t *testing.T) {
	const tries = 250
	made := map[string]int{}
	for seed := range int64(tries) {
		s, o := anyCluster(rand.New(rand.NewSource(seed)))
		p, err := Make(s, o, nil, now)
		if err != nil {
			if strings.Contains(err.Error(), "rule P-") {
				t.Errorf("seed %d (%s %s, %+v): %v", seed, s.Cluster.Provider, s.Cluster.Version, o, err)
			}
			continue
		}
		made[s.Cluster.Provider+" "+p.Strategy]++
		if err := invariant.CheckWellFormed(p); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		endState(t, seed, s, p)
	}
	for _, p := range []string{"aws", "azure", "gce", "openstack", "vsphere"} {
		if made[p+" "+planstep.Downtime] == 0 || made[p+" "+planstep.LeaderMigration] == 0 {
			t.Errorf("of %d clusters none of %s was planned for with one of the strategies: %v", tries, p, made)
		}
	}
}

// endState applies the edits to the flags of the snapshot and looks at what is left: no in-tree provider where a step could reach it, no leader
// migration in a kube-controller-manager, and everything that the owner said about anything else.
func endState(t *testing.T, seed int64, s *v1.Snapshot, p *v1.Plan) {
	t.Helper()
	for _, h := range s.Hosts {
		after := func(name string, flags map[string]string) map[string]string {
			out := merged(flags)
			for _, step := range p.Steps {
				if step.Host != h.Name || step.Component != name {
					continue
				}
				for _, e := range step.Edits {
					switch e.Op {
					case v1.EditSetFlag:
						out[e.Name] = e.Value
					case v1.EditUnsetFlag:
						delete(out, e.Name)
					default: // no other edit is about this
					}
				}
			}
			return out
		}
		for _, c := range h.Components {
			have := after(c.Name, c.Flags)
			if v := have["cloud-provider"]; c.Name != component.Scheduler && v != "external" && v != "" {
				t.Errorf("seed %d: %s on %s ends with --cloud-provider=%s", seed, c.Name, h.Name, v)
			}
			if have["enable-leader-migration"] != "" || (have[flagvalue.FlagVolumePlugin] != "") != (have[flagvalue.FlagCloudConfig] != "") {
				t.Errorf("seed %d: %s on %s ends with %v", seed, c.Name, h.Name, have)
			}
			for _, name := range []string{"cluster-name", "cluster-cidr", "leader-elect-retry-period", "leader-elect-renew-deadline", "allocate-node-cidrs"} {
				if have[name] != c.Flags[name] {
					t.Errorf("seed %d: %s on %s ends with --%s=%q, it had %q", seed, c.Name, h.Name, name, have[name], c.Flags[name])
				}
			}
		}
		if h.Kubelet == nil || h.Kubelet.Flags["cloud-provider"] == "" {
			continue
		}
		if have := after(
			component.Kubelet,
			h.Kubelet.Flags,
		); have["cloud-provider"] != "external" || have["hostname-override"] != h.Kubelet.Flags["hostname-override"] ||
			have["node-ip"] != h.Kubelet.Flags["node-ip"] {
			t.Errorf("seed %d: the kubelet on %s ends with %v", seed, h.Name, have)
		}
	}
}

func TestWhateverTheClusterTheSameSnapshotGivesTheSameBytes(t *testing.T) {
	for seed := range int64(40) {
		var first string
		for i := range 3 {
			s, o := anyCluster(rand.New(rand.NewSource(seed)))
			p, err := Make(s, o, nil, now)
			data, _ := yaml.Marshal(p)
			text := fmt.Sprint(string(data), err)
			if i == 0 {
				first = text
			} else if diff := cmp.Diff(first, text); diff != "" {
				t.Fatalf("seed %d, plan %d differs:\n%s", seed, i, diff)
			}
		}
	}
}

func TestAPlanForFiveHundredNodesIsMadeInOneLook(t *testing.T) {
	c := kubeadmCluster{
		provider: "openstack", version: "v1.20.15", hosts: 3, workers: 500, config: "/etc/kubernetes/cloud.conf",
		kcm: map[string]string{"allocate-node-cidrs": "true"}, providerID: func(_ int, _ string) string { return "" },
	}
	s := c.snapshot()
	inTree(s, "kubernetes.io/cinder", "worker-7")
	driver(s, "cinder.csi.openstack.org")
	p := mustMake(t, s, v1.Options{})
	if n := len(hostsOf(p, "external/kubelet@")); n != 503 {
		t.Errorf("%d kubelets have a step", n)
	}
}
