package plan

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// officialAzure leaves nodes to a manager on each of them.
const officialAzure = "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager:v1.28.5"

// onAzure makes a cluster of AWS one of Azure, of the version that goes with the image.
func onAzure(s *v1.Snapshot) *v1.Snapshot {
	s.Cluster.Version, s.Cluster.Provider = "v1.28.5", "azure"
	for i := range s.Nodes {
		s.Nodes[i].ProviderID = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/" + s.Nodes[i].Name
	}
	inTree := func(c *v1.Component) {
		c.Image = "registry.k8s.io/" + c.Name + ":v1.28.5"
		if c.Flags["cloud-provider"] == "aws" {
			c.Flags["cloud-provider"] = "azure"
		}
		for i, a := range c.Command {
			c.Command[i] = strings.ReplaceAll(a, "=aws", "=azure")
		}
		if c.CloudConfig != nil {
			c.CloudConfig.Provider = "azure"
		}
	}
	for i := range s.Hosted {
		inTree(&s.Hosted[i])
	}
	for i := range s.Hosts {
		for j := range s.Hosts[i].Components {
			inTree(&s.Hosts[i].Components[j])
		}
		if k := s.Hosts[i].Kubelet; k != nil && k.Flags["cloud-provider"] == "aws" {
			k.Flags["cloud-provider"] = "azure"
		}
	}
	return s
}

func TestTheNodesOfAHostedControlPlaneGetAManagerOnAzure(t *testing.T) {
	const step = "start/" + layout.NodeManager
	for name, c := range map[string]struct {
		snap    *v1.Snapshot
		options v1.Options
		after   string
	}{
		"in a seed":               {onAzure(seeded(1)), v1.Options{}, "start/" + component.CCM},
		"on Deployments":          {onAzure(configuredDeployment()), v1.Options{}, "create/Deployment/kube-system/" + component.CCM},
		"external from the start": {onAzure(installed()), v1.Options{Part: v1.PartInstall, ClusterName: "x"}, "start/" + component.CCM},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Image = officialAzure
			p := mustMake(t, c.snap, c.options)
			at := positions(p)
			if at[step] < at[c.after] || at[step] > len(p.Steps)-2 {
				t.Errorf("%s is step %d of %d, and %s step %d", step, at[step], len(p.Steps), c.after, at[c.after])
			}
			s := find(t, p, step)
			if s.Ref != layout.NodeManagerDaemonSet || !strings.Contains(s.Object, "azure-cloud-node-manager:v1.28.5") {
				t.Errorf("the step makes %s: %s", s.Ref, s.Object)
			}
			if effects := strings.Join(p.Effects, "\n"); strings.Contains(effects, "not done: ") {
				t.Errorf("the effects deny it:\n%s", effects)
			}
			if !strings.Contains(s.Object, "--wait-routes=false") {
				t.Errorf("without routes a node would wait for one: %s", s.Object)
			}
			if start := find(t, p, c.after); !strings.Contains(start.Object, "--controllers=*,-cloud-node-controller") {
				t.Errorf("the manager in the seed initialises nodes, too: %s", start.Object)
			}
			if err := invariant.Verify(p, c.snap); err != nil {
				t.Error(err)
			}
			if _, ok := positions(rolledBackFrom(t, p, c.snap))["undo/"+step]; !ok {
				t.Error("the way back leaves it there")
			}
			p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.ID == step })
			if err := invariant.Verify(p, c.snap); err == nil || !strings.Contains(err.Error(), "P-31") {
				t.Errorf("a plan without it breaks no rule: %v", err)
			}

			c.snap.Workloads = append(c.snap.Workloads, v1.Workload{
				Ref: layout.NodeManagerDaemonSet, Role: v1.RoleNodeManager, Labels: map[string]string{"k8s-app": layout.NodeManager},
			})
			p = mustMake(t, c.snap, c.options)
			if _, ok := positions(p)[step]; ok {
				t.Error("one that another program installed is written over")
			}
			if effects := strings.Join(p.Effects, "\n"); !strings.Contains(effects, layout.NodeManager+" is there already") {
				t.Errorf("the effects are silent about it:\n%s", effects)
			}
		})
	}
}

func TestANodeManagerOfWindowsCoversNoNodeWithLinux(t *testing.T) {
	s := azure28()
	s.Workloads = append(s.Workloads, v1.Workload{
		Ref: "DaemonSet/kube-system/cloud-node-manager-windows", Role: v1.RoleNodeManager, NodeSelector: map[string]string{"kubernetes.io/os": "windows"},
	})
	find(t, mustMake(t, s, v1.Options{Image: officialAzure}), "start/"+layout.NodeManager)

	affine := &s.Workloads[len(s.Workloads)-1]
	affine.NodeSelector, affine.Nodes = nil, []string{"win-1"}
	s.Nodes = append(s.Nodes, v1.Node{Name: "win-1", OS: "windows", Ready: "True"})
	find(t, mustMake(t, s, v1.Options{Image: officialAzure}), "start/"+layout.NodeManager)
}
