// Package podcidr decides how podCIDRs reach a node, whichever allocator they come from. They are written once, to the
// very node that was read, and never in the place of others.
package podcidr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// MarkAnnotation is what a new leader changes on the nodes that have no podCIDR. It goes away with the PATCH that sets
// them.
const MarkAnnotation = "node-ipam.transplant.dev/seen-by-new-leader"

// Workers is how many nodes are written at the same time, as many as upstream's.
const Workers = 30

// EventSource is the component that events name, as upstream's.
const EventSource = "cidrAllocator"

// conflictRetries is how often a PATCH is sent again at once because the node has changed. Half a dozen components
// write to a new node.
const conflictRetries = 5

// Set writes podCIDRs to a node that has none. The node that was read is what it is for: one that has changed since is
// read again. It returns the node once it has podCIDRs, whichever they are, and nil when the node is gone.
func Set(
	calls context.Context,
	client kubernetes.Interface,
	node *corev1.Node,
	cidrs []string,
) (*corev1.Node, error) {
	for range conflictRetries {
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": node.UID, "resourceVersion": node.ResourceVersion, "annotations": map[string]any{MarkAnnotation: nil},
			},
			"spec": map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs},
		})
		if err != nil {
			return nil, fmt.Errorf("encoding podCIDRs of node %q: %w", node.Name, err)
		}
		updated, err := client.CoreV1().
			Nodes().
			Patch(calls, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
		if err == nil {
			klog.FromContext(calls).Info("Set podCIDRs", "node", node.Name, "podCIDRs", cidrs)
			return updated, nil
		}
		failure := fmt.Errorf("patching podCIDRs %v of node %q: %w", cidrs, node.Name, err)
		if term.IsFinal(calls, err) {
			return nil, failure
		}
		// Perhaps it was executed. What was chosen stays the node's in any case.
		current, err := client.CoreV1().Nodes().Get(calls, node.Name, metav1.GetOptions{}) // from etcd, not from a cache
		switch {
		case apierrors.IsNotFound(err), err == nil && current.UID != node.UID:
			return nil, nil // the event of its removal frees the blocks
		case err != nil:
			return nil, errors.Join(failure, fmt.Errorf("reading node %q: %w", node.Name, err))
		case len(current.Spec.PodCIDRs) > 0:
			return current, nil
		case !apierrors.IsConflict(failure):
			return nil, failure
		}
		node = current
	}
	return nil, fmt.Errorf("node %q has changed %d times while it was given podCIDRs", node.Name, conflictRetries)
}

// Reference is the node as events name it.
func Reference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       "Node",
		Name:       node.Name,
		UID:        node.UID,
	}
}

// TellStatus makes an event of a node in upstream's words.
func TellStatus(recorder record.EventRecorder, node *corev1.Node, status string) {
	recorder.Eventf(Reference(node), corev1.EventTypeNormal, status, "Node %s status is now: %s", node.Name, status)
}

// Parse reads a CIDR as leniently as Kubernetes does: leading zeros are let pass, and bits behind the mask do not
// count.
func Parse(cidr string) (netip.Prefix, error) {
	_, network, err := netutils.ParseCIDRSloppy(cidr)
	if err != nil {
		return netip.Prefix{}, err
	}
	size, width := network.Mask.Size()
	addr, ok := netip.AddrFromSlice(network.IP)
	if !ok || addr.BitLen() != width || addr.Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is neither IPv4 nor IPv6", cidr)
	}
	return netip.PrefixFrom(addr, size), nil
}

// ParseList reads a list of at most one CIDR of each family.
func ParseList(flag, value string) ([]netip.Prefix, error) {
	if value = strings.TrimSpace(value); value == "" {
		return nil, nil
	}
	var all []netip.Prefix
	for _, part := range strings.Split(value, ",") {
		prefix, err := Parse(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("parsing %s %q: %w", flag, value, err)
		}
		all = append(all, prefix)
	}
	switch {
	case len(all) > 2:
		return nil, fmt.Errorf("%s %q has %d ranges, but two are the most: one of each family", flag, value, len(all))
	case len(all) == 2 && all[0].Addr().Is4() == all[1].Addr().Is4():
		return nil, fmt.Errorf("%s %q has two ranges of one family, but two must be one of each", flag, value)
	}
	return all, nil
}
