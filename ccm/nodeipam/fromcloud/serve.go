package fromcloud

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// Reasons of events. The first two are upstream's.
const (
	notAvailable     = "CIDRNotAvailable"
	assignmentFailed = "CIDRAssignmentFailed"
	conflict         = "CIDRConflict"
)

func (c *Controller) runJobs(ctx, calls context.Context) {
	for j := range c.jobs {
		if ctx.Err() == nil && calls.Err() == nil {
			c.finishJob(ctx, calls, j.node.Name, c.serveNode(calls, j))
		}
		c.queue.Done(j.node.Name)
	}
}

func (c *Controller) finishJob(ctx, calls context.Context, name string, err error) {
	switch {
	case err == nil:
		c.queue.Forget(name)
	case ctx.Err() != nil || term.IsFinal(calls, err):
	default:
		klog.FromContext(ctx).V(2).Info("Giving podCIDRs to a node failed, will be retried", "node", name, "err", err)
		c.queue.AddRateLimited(name)
	}
}

// serveNode gives a node its podCIDRs if it has none, and says that its network is there.
func (c *Controller) serveNode(calls context.Context, j job) error {
	defer c.reader.Tracker.Start("giving podCIDRs to node " + j.node.Name)()
	node, err := c.nodes.Get(j.node.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && node.UID != j.node.UID: // it has changed while the cloud was asked
		return nil
	case err != nil:
		return fmt.Errorf("reading node %q: %w", j.node.Name, err)
	}
	if len(node.Spec.PodCIDRs) == 0 {
		if node, err = c.give(calls, node, j.state); err != nil || node == nil {
			return err
		}
	}
	switch {
	case j.state.Err != nil:
		return j.state.Err
	case !j.state.Exists || !c.isAsCloudSays(node, j.state.PodCIDRs) || !c.lacksNetwork(node):
		return nil
	}
	return c.setNetworkAvailable(calls, node)
}

// give writes what the cloud says to a node that has no podCIDRs. It returns the node as it is then; nil for one that
// is gone.
func (c *Controller) give(calls context.Context, node *corev1.Node, state cloud.InstanceState) (*corev1.Node, error) {
	if state.Err != nil {
		return nil, c.wait(node, notAvailable, fmt.Errorf("asking the cloud: %w", state.Err))
	}
	if !state.Exists {
		return nil, c.wait(node, notAvailable, fmt.Errorf("the cloud has no instance %s", node.Spec.ProviderID))
	}
	prefixes, err := choose(c.families, state.PodCIDRs)
	if err != nil {
		return nil, c.wait(node, notAvailable, err)
	}
	if other := c.claim(node, prefixes); other != "" {
		return nil, c.wait(node, conflict, fmt.Errorf(
			"the cloud says %s, which node %s has: that node has to be deleted first", spell(prefixes), other))
	}
	cidrs := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		cidrs[i] = prefix.String()
	}
	updated, err := podcidr.Set(calls, c.client, node, cidrs)
	if err != nil {
		if !term.IsFinal(calls, err) {
			podcidr.TellStatus(c.recorder, node, assignmentFailed)
			klog.FromContext(calls).Error(err, "Giving podCIDRs to a node, will be retried", "node", node.Name)
		}
		return nil, err
	}
	if updated != nil {
		c.noteHeld(updated)
	}
	return updated, nil
}

// claim keeps a range for a node. It returns the name of the node that has it already; empty for none.
func (c *Controller) claim(node *corev1.Node, prefixes []netip.Prefix) string {
	other := c.holders.claim(node, prefixes)
	if other != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.blocked[node.Name] = true
	}
	return other
}

// wait notes why there are no podCIDRs for a node, and tells so, though not each time. It returns what makes the queue
// try again.
func (c *Controller) wait(node *corev1.Node, reason string, why error) error {
	err := fmt.Errorf("node %s waits for its podCIDRs: %w", node.Name, why)
	if c.waiting.Add(node.Name, c.clock.Now()) {
		klog.ErrorS(err, "A node has no podCIDRs, will be retried")
		c.recorder.Eventf(podcidr.Reference(node), corev1.EventTypeWarning, reason,
			"Node %s waits for its podCIDRs: %v", node.Name, why)
	}
	return err
}

// family is one of IP addresses.
type family string

const (
	four family = "IPv4"
	six  family = "IPv6"
)

func familyOf(prefix netip.Prefix) family {
	if prefix.Addr().Is4() {
		return four
	}
	return six
}

// familiesOf are the families of which nodes get podCIDRs, in their order.
func familiesOf(services, cluster string) (all []family, err error) {
	ranges, err := podcidr.ParseList("--service-cluster-ip-range", services)
	if err == nil && len(ranges) == 0 {
		ranges, err = podcidr.ParseList("--cluster-cidr", cluster)
	}
	for _, prefix := range ranges {
		all = append(all, familyOf(prefix))
	}
	if len(all) == 0 {
		all = []family{four}
	}
	return all, err
}

// choose returns the first range of each family that the cloud says, in the order of families.
func choose(families []family, said []string) (chosen []netip.Prefix, err error) {
	all, err := parseAll(said)
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		found := false
		for _, prefix := range all {
			if found = familyOf(prefix) == f; found {
				chosen = append(chosen, prefix)
				break
			}
		}
		if !found {
			return nil, fmt.Errorf("the cloud gives its instance no %s range for pods, but %s", f, orNone(said))
		}
	}
	return chosen, nil
}

func parseAll(said []string) (all []netip.Prefix, err error) {
	for _, text := range said {
		prefix, err := podcidr.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("the cloud says %q, which is no range: %w", text, err)
		}
		all = append(all, prefix)
	}
	return all, nil
}

func spell(prefixes []netip.Prefix) string {
	var out []string
	for _, prefix := range prefixes {
		out = append(out, prefix.String())
	}
	return strings.Join(out, " and ")
}

func orNone(said []string) string {
	if len(said) == 0 {
		return "none at all"
	}
	return strings.Join(said, " and ")
}
