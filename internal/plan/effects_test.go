package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestThePlanCountsTheKubeletsThatItCannotReach(t *testing.T) {
	snap := &v1.Snapshot{
		Nodes: []v1.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Hosts: []v1.Host{{Name: "h1", NodeName: "a", Kubelet: &v1.Kubelet{}}, {Name: "h2", NodeName: "b", Kubelet: &v1.Kubelet{Error: "not read"}}},
	}
	all := strings.Join(effect.Describe(planstep.Forward, snap, nil, options.Defaults(v1.Options{})), "\n")
	if !strings.Contains(all, "the kubelets of 2 nodes") {
		t.Errorf("effects do not count nodes b and c:\n%s", all)
	}
	snap.Hosts = append(snap.Hosts, v1.Host{Name: "h3", NodeName: "c", Kubelet: &v1.Kubelet{}})
	snap.Hosts[1].Kubelet.Error = ""
	if all := strings.Join(effect.Describe(planstep.Forward, snap, nil, options.Defaults(v1.Options{})), "\n"); strings.Contains(all, "not changed") {
		t.Errorf("every kubelet is reached:\n%s", all)
	}
}

func TestEffectsOnLoadBalancersAndVolumes(t *testing.T) {
	for _, c := range []struct {
		name    string
		snap    func() *v1.Snapshot
		options v1.Options
		want    []string
		not     string
	}{
		{"a plan keeps load balancers", openstack20, v1.Options{}, []string{"load balancers: 1 kept, 0 recreated, 0 address changes", "gap: for about 45 s no manager runs the loops service, route, cloud-node-lifecycle",
			"volumes: those of kubernetes.io/cinder go to CSI node by node", "1 persistent volumes say that kubernetes.io/cinder made them"}, "again"},
		{
			"another cluster name makes them again on Azure",
			func() *v1.Snapshot {
				s := azure28()
				s.Services = []v1.Service{{Name: "web"}}
				return s
			},
			v1.Options{ClusterName: "other"},
			[]string{"0 kept, 1 recreated, 1 address changes", `the cluster's name becomes "other", and they were made under "`},
			"",
		},
		{
			"in tree, OpenStack named them by the Service",
			openstack20,
			v1.Options{ClusterName: "other"},
			[]string{"load balancers: 1 kept, 0 recreated, 0 address changes"},
			"made again",
		},
		{"Octavia in place of Neutron makes them again", func() *v1.Snapshot {
			s := openstack20()
			s.Hosts[0].CloudConfig.Settings = map[string]string{"LoadBalancer.use-octavia": "false"}
			return s
		}, v1.Options{}, []string{"0 kept, 1 recreated", "they are Neutron's"}, ""},
		{"on AWS the name does not matter", func() *v1.Snapshot {
			s := aws26()
			s.Services = []v1.Service{{Name: "web"}}
			return s
		}, v1.Options{ClusterName: "other"}, []string{"load balancers: 1 kept, 0 recreated"}, "made again"},
		{"volumes stay in-tree without a driver", func() *v1.Snapshot {
			s := openstack20()
			s.Volumes.CSIDrivers = nil
			return s
		}, v1.Options{}, []string{"volumes: those of kubernetes.io/cinder stay in-tree", "--volumes=csi"}, "drained"},
		{"the plugin stays while a kubelet cannot be reached", func() *v1.Snapshot {
			s := openstack20()
			s.Hosts = s.Hosts[:4]
			return s
		}, v1.Options{}, []string{"keeps the plugin, because the kubelets of worker-2 are not changed"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := strings.Join(mustMake(t, c.snap(), c.options).Effects, "\n")
			for _, part := range c.want {
				if !strings.Contains(all, part) {
					t.Errorf("the effects do not say %q:\n%s", part, all)
				}
			}
			if c.not != "" && strings.Contains(all, c.not) {
				t.Errorf("the effects say %q:\n%s", c.not, all)
			}
		})
	}
}
