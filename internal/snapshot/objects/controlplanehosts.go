package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// isProven reports whether a host may get what only the control plane has: its Node is labelled as control plane. Of a
// host that has no Node, the user's flag counts. Hosts that are reached as Nodes were not named by a flag. What a
// host's own files say is the word of its root, also which Node it is.
func isProven(isNode, isLabelled, hostsAreNodes bool) bool {
	return isLabelled || !isNode && !hostsAreNodes
}

// Verdict says whether a host may get what only the control plane has.
type Verdict struct {
	// Why not, and what to do; empty where it may.
	Why string
	// MayPass reports whether that may be over soon: an API server that restarts announces no address for a moment.
	MayPass bool
}

// ControlPlane is what is known of the hosts of a control plane next to what the API says.
type ControlPlane struct {
	// HostsAreNodes reports whether hosts are reached as Nodes, so that no flag named them.
	HostsAreNodes bool
	// Named are those that the operator says are of the control plane.
	Named []string
	// Before is what proved them when the run began; nil where that is not known.
	Before *hostproof.Evidence
}

// Judge asks the API whether a host may get what only the control plane has.
func (c ControlPlane) Judge(ctx context.Context, kube kubernetes.Interface, host string) (Verdict, error) {
	node, err := kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
	isNode := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return Verdict{}, fmt.Errorf(
			"getting Node %s, to see whether host %s is of the control plane: %w",
			host,
			host,
			err,
		)
	}
	if !isProven(isNode, isNode && component.HasControlPlaneRole(node.Labels), c.HostsAreNodes) {
		return Verdict{Why: hostproof.Unlabelled(host)}, nil
	}
	if !isNode {
		return Verdict{}, nil
	}
	e, err := ReadEvidence(ctx, kube)
	if err != nil {
		return Verdict{}, fmt.Errorf("to see whether host %s is of the control plane: %w", host, err)
	}
	return c.verdictOf(e, host), nil
}

// JudgeLabelled asks the API the same of each Node with a label, by which a workload finds its hosts. Some are left
// out. The first that may not get the workload is told.
func (c ControlPlane) JudgeLabelled(
	ctx context.Context,
	kube kubernetes.Interface,
	label string,
	isLeftOut func(node string) bool,
) (Verdict, error) {
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return Verdict{}, fmt.Errorf("listing the Nodes with the label %s: %w", label, err)
	}
	e, err := ReadEvidence(ctx, kube)
	if err != nil {
		return Verdict{}, fmt.Errorf("to see whether the Nodes with the label %s are of the control plane: %w", label, err)
	}
	for _, n := range nodes.Items {
		if isLeftOut(n.Name) {
			continue
		}
		if v := c.verdictOf(e, n.Name); v.Why != "" {
			return v, nil
		}
	}
	return Verdict{}, nil
}

// Nodes asks the API which Nodes are of the control plane, and returns what says why one is not; empty where it is. The
// label is enough where no Node has an address that the API servers announce. A Node that has just joined was named by
// no operator yet. Those of known need no label.
func (c ControlPlane) Nodes(
	ctx context.Context,
	kube kubernetes.Interface,
	known map[string]bool,
) (func(node string) string, error) {
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes: %w", err)
	}
	e, err := ReadEvidence(ctx, kube)
	if err != nil {
		return nil, fmt.Errorf("to see which Nodes are of the control plane: %w", err)
	}
	labelled := map[string]bool{}
	for _, n := range nodes.Items {
		labelled[n.Name] = component.HasControlPlaneRole(n.Labels)
	}
	return func(node string) string {
		switch isLabelled, exists := labelled[node]; {
		case !exists && known[node]: // its pods stay for a while
			return "does not count: its Node is gone"
		case known[node]:
			return ""
		case !isLabelled:
			return "does not count: " + hostproof.Unlabelled(node)
		case e.Judge(node) == hostproof.LabelAlone:
			return ""
		}
		return c.verdictOf(e, node).Why
	}, nil
}

// verdictOf says whether the host of a labelled Node may get what only the control plane has.
func (c ControlPlane) verdictOf(e *hostproof.Evidence, host string) Verdict {
	e.Name(c.Named...)
	switch result := e.Judge(host); {
	case result == hostproof.Elsewhere, result == hostproof.LabelAlone:
		return Verdict{Why: e.Why(host), MayPass: true}
	case c.Before != nil && result != hostproof.Shared:
		why := e.WhyChanged(host, c.Before)
		return Verdict{Why: why, MayPass: why != ""}
	}
	return Verdict{Why: e.Why(host)}
}

// ReadEvidence asks the API which addresses the API servers announce, and which Nodes have them.
func ReadEvidence(ctx context.Context, kube kubernetes.Interface) (*hostproof.Evidence, error) {
	servers, err := readAPIServers(ctx, kube)
	e := hostproof.New(servers)
	if err != nil || len(servers) == 0 {
		return e, err
	}
	list := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return kube.CoreV1().Nodes().List(ctx, o)
	}))
	err = list.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if n, is := o.(*corev1.Node); is {
			e.AddNode(n.Name, internalIPs(n))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return e, nil
}

func internalIPs(n *corev1.Node) []string {
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

// readAPIServers returns the addresses that the API servers announce; none where they announce none.
func readAPIServers(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
	var out []string
	slice, err := kube.DiscoveryV1().EndpointSlices(hostproof.Namespace).Get(ctx, hostproof.Slice, metav1.GetOptions{})
	if err == nil {
		for _, e := range slice.Endpoints {
			out = append(out, e.Addresses...)
		}
		return out, nil
	}
	if apierrors.IsNotFound(err) { // before 1.21 there is v1beta1 alone
		older, olderErr := kube.DiscoveryV1beta1().
			EndpointSlices(hostproof.Namespace).
			Get(ctx, hostproof.Slice, metav1.GetOptions{})
		if apierrors.IsNotFound(olderErr) {
			return nil, nil
		}
		if err = olderErr; err == nil {
			for _, e := range older.Endpoints {
				out = append(out, e.Addresses...)
			}
			return out, nil
		}
	}
	return nil, fmt.Errorf("getting EndpointSlice %s/%s: %w", hostproof.Namespace, hostproof.Slice, err)
}

// CheckClaims removes the control plane from hosts that only claim it themselves. Root on a worker may write any
// manifest, and would get the manager's token for it.
func CheckClaims(g *collect.Collector) {
	for i := range g.Snap.Hosts {
		h := &g.Snap.Hosts[i]
		at := slices.IndexFunc(g.Snap.Nodes, func(n v1.Node) bool { return n.Name == h.Name })
		if len(h.Components) == 0 ||
			isProven(at >= 0, at >= 0 && component.HasControlPlaneRole(g.Snap.Nodes[at].Labels), g.HostsAreNodes) {
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
