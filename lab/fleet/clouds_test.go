package fleet

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/azurelab"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/gcelab"
	"github.com/transplant-dev/transplant/lab/openstacklab"
	"github.com/transplant-dev/transplant/lab/seed"
	"github.com/transplant-dev/transplant/lab/vspherelab"
)

// TestUserClustersOfOtherCloudsAreMigrated takes a cluster of each further cloud to this project's manager, and to new machines. These have an external
// kubelet: all that they have of their cloud they have of the new manager.
func TestUserClustersOfOtherCloudsAreMigrated(t *testing.T) {
	onlyWithAll(t)
	w := newWorldOf(t, []string{"azure", "gce", "openstack", "vsphere"}, "kubernetes-v1.24.17", "kubernetes-v1.25.0")
	must(t, w.InstallOperator(within(t), append(quick, "--ccm-image=azure=ours,gce=ours,openstack=ours,vsphere=ours")...))
	for _, of := range []struct {
		name, provider string // of the Cluster
		kind           cluster.Kind
		version        string // the last one that may have this provider in tree; see rules.InTreeEnds
	}{
		{"westeurope", "azure", azurelab.Kind{}, seed.Version},
		{"aliased", "gcp", gcelab.Kind{PodsFromCloud: true}, seed.Version},
		{"octavia", "openstack", openstacklab.Simulated(), "v1.25.0"},
		{"datacenter", "vsphere", vspherelab.Kind{}, "v1.24.17"},
	} {
		t.Run(of.provider, func(t *testing.T) {
			ctx := within(t)
			c, err := w.AddCluster(ctx, seed.ClusterOptions{Name: of.name, Kind: of.kind, Version: of.version})
			must(t, err)
			isServed := func(ctx context.Context) error { return served(ctx, c, of.kind) }
			must(t, c.AddMachines(ctx, "pool", 1))
			for _, s := range of.kind.Services() {
				_, err := c.Client().CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{})
				must(t, err)
			}
			must(t, seed.Await(ctx, "load balancers and ranges for pods", isServed))
			before, old := addresses(ctx, t, c), nodes(ctx, t, c)
			o, err := w.Create(ctx, kv1.GroupName, of.name, map[string]any{
				// Google's driver needs a key of a service account, and this control plane has the tokens of a metadata server. Those of the last two are of
				// no account here: volumes are another matter.
				"disableCsiDriver": of.provider != "azure",

				"version":  of.version,
				"cloud":    map[string]any{"dc": "lab", "providerName": of.provider},
				"features": map[string]any{kv1.FeatureExternalCloudProvider: false},
			})
			must(t, err)
			must(t, o.PatchStatus(ctx, map[string]any{"versions": map[string]any{
				"controlPlane": of.version, "apiserver": of.version, "controllerManager": of.version, "scheduler": of.version,
			}}))
			must(t, o.AwaitPhase(ctx, kv1.PhaseNotNeeded))

			must(t, o.Feature(ctx, true))
			must(t, o.AwaitCondition(ctx, kv1.ConditionCCMReady, Condition{Status: "True"}))
			must(t, o.AwaitPhase(ctx, kv1.PhaseMachines))
			must(t, c.RestartMachines(ctx, "pool"))
			must(t, c.AwaitMachines(ctx, "pool", 1)) // none has the taint of a node that is not initialised
			must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))

			must(t, seed.Await(ctx, "load balancers and ranges for pods of new machines", isServed))
			if now := nodes(ctx, t, c); slices.ContainsFunc(now, func(n string) bool { return slices.Contains(old, n) }) {
				t.Errorf("the nodes are %v, and %v were to be replaced", now, old)
			}
			if now := addresses(ctx, t, c); !slices.Equal(now, before) {
				t.Errorf("the load balancers have %v, and had %v", now, before)
			}
			for _, call := range c.Cloud().Unknown() {
				t.Errorf("the simulated cloud was asked for %s, which it does not know", call)
			}
		})
	}
}

// served returns an error that names what the cloud has not given yet: a load balancer, or a node's own facts and range for pods.
func served(ctx context.Context, c *seed.Cluster, kind cluster.Kind) error {
	services, err := c.Client().CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		if s := &services.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("service %s has no load balancer", s.Name)
		}
	}
	list, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	hasRegions := kind.Provider() != "vsphere" // its config names no tags
	for i := range list.Items {
		n := &list.Items[i]
		if n.Spec.ProviderID == "" || hasRegions && n.Labels[corev1.LabelTopologyRegion] == "" || n.Spec.PodCIDR == "" {
			return fmt.Errorf("node %s has provider ID %q, region %q and range %q", n.Name, n.Spec.ProviderID, n.Labels[corev1.LabelTopologyRegion], n.Spec.PodCIDR)
		}
		if err := c.Missing(n.Name, n.Spec.PodCIDR); err != nil {
			return err
		}
	}
	return nil
}

// addresses are those of the load balancers, by Service.
func addresses(ctx context.Context, t *testing.T, c *seed.Cluster) (out []string) {
	t.Helper()
	list, err := c.Client().CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	for i := range list.Items {
		for _, ingress := range list.Items[i].Status.LoadBalancer.Ingress {
			out = append(out, list.Items[i].Name+" "+ingress.IP)
		}
	}
	return out
}

func nodes(ctx context.Context, t *testing.T, c *seed.Cluster) (out []string) {
	t.Helper()
	list, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}
