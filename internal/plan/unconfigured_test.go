package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// unconfigured removes the cloud config from every component of a cluster and from what kubeadm keeps, or leaves an empty flag behind.
func unconfigured(s *v1.Snapshot, empty bool) *v1.Snapshot {
	strip := func(flags map[string]string) {
		if _, has := flags[flagvalue.FlagCloudConfig]; has && empty {
			flags[flagvalue.FlagCloudConfig] = ""
		} else {
			delete(flags, flagvalue.FlagCloudConfig)
		}
	}
	for i := range s.Hosts {
		s.Hosts[i].CloudConfig = nil
		for _, c := range s.Hosts[i].Components {
			strip(c.Flags)
			delete(c.HostPaths, "/etc/kubernetes/cloud.conf")
		}
		if s.Hosts[i].Kubelet != nil {
			strip(s.Hosts[i].Kubelet.Flags)
		}
	}
	for i := range s.Hosted {
		s.Hosted[i].CloudConfig = nil
		strip(s.Hosted[i].Flags)
	}
	if s.Kubeadm != nil {
		s.Kubeadm.ExtraVolumes, s.Kubeadm.ClusterConfiguration = nil, ""
		for _, flags := range s.Kubeadm.ExtraArgs {
			strip(flags)
		}
	}
	return s
}

func unconfiguredAWS() *v1.Snapshot { return unconfigured(aws26HA(), false) }

// TestAManagerWithoutACloudConfigIsFollowedByOneWithout plans with the normal case of AWS: --cloud-provider=aws and nothing else.
func TestAManagerWithoutACloudConfigIsFollowedByOneWithout(t *testing.T) {
	for _, empty := range []bool{false, true} {
		for _, c := range []struct {
			name    string
			snap    *v1.Snapshot
			options v1.Options
			starts  int
		}{
			{"static pods", unconfigured(aws26HA(), empty), v1.Options{}, 3},
			{"volumes stay in tree", unconfigured(aws26HA(), empty), v1.Options{Volumes: v1.VolumesInTree}, 3},
			{"a DaemonSet", unconfigured(aws26HA(), empty), v1.Options{Shape: v1.ShapeDaemonSet}, 1},
			{"units", units(unconfigured(aws26HA(), empty)), v1.Options{Volumes: v1.VolumesInTree}, 3},
			{"downtime", unconfigured(aws26(), empty), v1.Options{}, 1},
			{"an upgrade on the way", unconfigured(awsUpgrade(), empty), v1.Options{TargetVersion: "v1.27.4"}, 3},
			{"a seed", unconfigured(seeded(2), empty), v1.Options{Image: seedImage}, 1},
			{"a seed with one replica", unconfigured(seeded(1), empty), v1.Options{Image: seedImage}, 1},
			{"a Deployment", unconfigured(deployedCluster(), empty), v1.Options{Image: seedImage}, 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := mustMake(t, c.snap, c.options)
				if err := invariant.CheckWellFormed(p); err != nil {
					t.Error(err)
				}
				starts := 0
				for _, s := range p.Steps {
					if s.Derive == layout.DeriveCloudConfig || s.Derive == layout.DeriveSeedCloudConfig {
						t.Errorf("step %s derives a config from nothing", s.ID)
					}
					if s.Component != component.CCM || s.Kind != v1.StepAddManifest && s.Kind != v1.StepEnsureObject {
						continue
					}
					starts++
					text := s.Content + s.Object
					if strings.Contains(text, flagvalue.FlagCloudConfig) || strings.Contains(text, layout.CCMCloudConf) || !strings.Contains(text, "--cloud-provider=aws") {
						t.Errorf("step %s tells the manager of a config that is not there:\n%s", s.ID, text)
					}
				}
				if starts != c.starts {
					t.Errorf("%d managers are started, want %d", starts, c.starts)
				}
				if !strings.Contains(strings.Join(p.Effects, "\n"), "cloud config: "+component.KCM+" has none") {
					t.Errorf("the effects do not say where the manager finds its cloud:\n%s", strings.Join(p.Effects, "\n"))
				}
			})
		}
	}
}

func TestReplacedHostsAreToldOfNoCloudConfigThatIsNotThere(t *testing.T) {
	options := v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0"}
	told := func(s *v1.Snapshot) string {
		p := mustMake(t, s, options)
		return strings.Join(find(t, p, "await/in/"+component.KCM+"/1").Await.Instructions, "\n")
	}
	if text := told(unconfiguredAWS()); strings.Contains(text, layout.CCMCloudConf) || !strings.Contains(text, layout.CCMKubeconfig) {
		t.Errorf("a new node is to be made so:\n%s", text)
	}
	if text := told(aws26HA()); !strings.Contains(text, "file "+layout.CCMCloudConf) {
		t.Errorf("a new node of a cluster with a cloud config is to be made so:\n%s", text)
	}
}

// TestACloudConfigIsAskedForWhereTheProviderNeedsOne goes through every shape of control plane.
func TestACloudConfigIsAskedForWhereTheProviderNeedsOne(t *testing.T) {
	as := func(provider, version string, s *v1.Snapshot) *v1.Snapshot {
		s.Cluster.Provider, s.Cluster.Version = provider, version
		for _, list := range append([][]v1.Component{s.Hosted}, componentsOf(s)...) {
			for i := range list {
				list[i].Flags["cloud-provider"] = provider
				list[i].Image = "registry.k8s.io/" + list[i].Name + ":" + version
			}
		}
		return unconfigured(s, true)
	}
	for provider, version := range map[string]string{"azure": "v1.26.0", "openstack": "v1.25.0", "vsphere": "v1.26.0"} {
		for name, c := range map[string]struct {
			snap    *v1.Snapshot
			options v1.Options
			where   string
		}{
			"hosts":    {as(provider, version, aws26HA()), v1.Options{}, "on host cp-1"},
			"replaced": {as(provider, version, aws26HA()), v1.Options{ReplaceHosts: true, TargetVersion: version}, "on node cp-1"},
			"seed":     {as(provider, version, seeded(1)), v1.Options{}, "on Deployment/cluster-x/controller-manager"},
			"deployed": {as(provider, version, deployedCluster()), v1.Options{}, "on Deployment/kube-system/kube-controller-manager"},
		} {
			_, err := Make(c.snap, c.options, nil, now)
			if err == nil || !strings.Contains(err.Error(), c.where+" has no --cloud-config, and with provider "+provider) {
				t.Errorf("%s, %s: %v", provider, name, err)
			}
		}
	}
}

func componentsOf(s *v1.Snapshot) [][]v1.Component {
	out := make([][]v1.Component, 0, len(s.Hosts))
	for i := range s.Hosts {
		out = append(out, s.Hosts[i].Components)
	}
	return out
}

func TestAManagerThatNeedsTheMetadataServiceIsNotKeptFromIt(t *testing.T) {
	o := v1.Options{Env: []string{"AWS_EC2_METADATA_DISABLED=true"}}
	if _, err := Make(unconfiguredAWS(), o, nil, now); err == nil || !strings.Contains(err.Error(), "leave the variable out") {
		t.Errorf("without a config: %v", err)
	}
	mustMake(t, aws26HA(), o)
	o.Env = []string{"AWS_EC2_METADATA_DISABLED=false"}
	mustMake(t, unconfiguredAWS(), o)
}

func TestADaemonSetWantsACloudConfigOnAllHostsOrNone(t *testing.T) {
	s := aws26HA()
	s.Hosts[2].CloudConfig = nil
	delete(kcmOf(s, 2).Flags, flagvalue.FlagCloudConfig)
	_, err := Make(s, v1.Options{Shape: v1.ShapeDaemonSet}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "none on host cp-3") || !strings.Contains(err.Error(), "--shape="+v1.ShapeStaticPod) {
		t.Errorf("error: %v", err)
	}
	p := mustMake(t, s, v1.Options{})
	for host, want := range map[string]bool{"cp-1": true, "cp-2": true, "cp-3": false} {
		if have := strings.Contains(find(t, p, "start/"+component.CCM+"@"+host).Content, "--cloud-config="+layout.CCMCloudConf); have != want {
			t.Errorf("host %s: the manager has a cloud config: %t, want %t", host, have, want)
		}
	}
}
