package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// HasControlPlaneRole reports whether a Node is labelled as control plane. NodeRestriction keeps a kubelet from setting
// these labels.
func HasControlPlaneRole(labels map[string]string) bool {
	for _, role := range []string{"control-plane", "master"} {
		if _, is := labels["node-role.kubernetes.io/"+role]; is {
			return true
		}
	}
	return false
}

// isProven is the rule for which hosts may get what only the control plane has: those whose Node is labelled as control
// plane. Of a host that has no Node, the word of whoever named it counts, and hosts that are reached as Nodes were
// named by nobody. What a host's own files say is the word of its root, also which Node it is.
func isProven(isNode, isLabelled, hostsAreNodes bool) bool {
	return isLabelled || !isNode && !hostsAreNodes
}

// IsControlPlaneHost asks the API whether a host may get what only the control plane has.
func IsControlPlaneHost(ctx context.Context, kube kubernetes.Interface, host string, hostsAreNodes bool) (bool, error) {
	node, err := kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return isProven(false, false, hostsAreNodes), nil
	}
	if err != nil {
		return false, fmt.Errorf(
			"getting Node %s, to see whether host %s is of the control plane: %s",
			host,
			host,
			mask.Error(err),
		)
	}
	return isProven(true, HasControlPlaneRole(node.Labels), hostsAreNodes), nil
}

// CheckClaims takes the control plane out of hosts that nobody but they themselves put there. Root on a worker may
// write any manifest, and would get the manager's token for it.
func CheckClaims(g *collect.Collector) {
	for i := range g.Snap.Hosts {
		h := &g.Snap.Hosts[i]
		at := slices.IndexFunc(g.Snap.Nodes, func(n v1.Node) bool { return n.Name == h.Name })
		if len(h.Components) == 0 ||
			isProven(at >= 0, at >= 0 && HasControlPlaneRole(g.Snap.Nodes[at].Labels), g.HostsAreNodes) {
			continue
		}
		names := map[string]bool{}
		for _, c := range h.Components {
			names[c.Name] = true
		}
		h.Claims = slices.Sorted(maps.Keys(names))
		h.ControlPlane, h.Components, h.LeaderMigration, h.ManagerToken = false, nil, nil, nil
		h.CloudConfig, h.CloudConfigs = nil, slices.DeleteFunc(
			h.CloudConfigs,
			func(c v1.CloudConfig) bool { return !slices.Contains(c.UsedBy, component.Kubelet) },
		)
		forgetClaims(g, h.Name)
	}
}

// forgetClaims drops what could not be gathered of components that a host only claims to run.
func forgetClaims(g *collect.Collector, host string) {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	ofClaim := []string{"manifests/", "units/", "processes/", "leader-migration", "cloud-config", "manager-token"}
	g.Errors = slices.DeleteFunc(g.Errors, func(e v1.GatherError) bool {
		rest, is := strings.CutPrefix(e.Fact, "hosts/"+host+"/")
		return is && slices.ContainsFunc(ofClaim, func(fact string) bool { return strings.HasPrefix(rest, fact) })
	})
}
