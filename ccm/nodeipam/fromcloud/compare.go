package fromcloud

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// isAsCloudSays reports whether all podCIDRs of a node are ranges of its instance. If not, it makes an event and counts
// the node, until they are or it is gone.
func (c *Controller) isAsCloudSays(node *corev1.Node, said []string) bool {
	foreign := foreignOf(node.Spec.PodCIDRs, said)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(foreign) == 0 {
		c.dropConflict(node.UID)
		return true
	}
	text := fmt.Sprintf("Node %s has the podCIDR %s, but the cloud gives its instance %s: pods on it may not be reached. "+
		"Drain and delete the node, and let it register again", node.Name, strings.Join(foreign, " and "), orNone(said))
	if c.conflicts[node.UID] != text {
		c.recorder.Event(podcidr.Reference(node), corev1.EventTypeWarning, conflict, text)
	}
	c.conflicts[node.UID] = text
	podcidr.Conflicts.Set(float64(len(c.conflicts)))
	return false
}

// dropConflict is for a node whose podCIDRs are its instance's, or that is gone. The caller has the lock.
func (c *Controller) dropConflict(uid types.UID) {
	delete(c.conflicts, uid)
	podcidr.Conflicts.Set(float64(len(c.conflicts)))
}

// foreignOf are those of a node's podCIDRs that are none of what the cloud says.
func foreignOf(cidrs, said []string) (foreign []string) {
	for _, cidr := range cidrs {
		prefix, err := podcidr.Parse(cidr)
		isSaid := err == nil && slices.ContainsFunc(said, func(text string) bool {
			other, err := podcidr.Parse(text)
			return err == nil && other == prefix
		})
		if !isSaid {
			foreign = append(foreign, cidr)
		}
	}
	return foreign
}

// compareUntil compares all nodes at once and then in each period.
func (c *Controller) compareUntil(ctx, reads context.Context) {
	ticker := c.clock.NewTicker(podcidr.SweepPeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		c.compareAll(ctx, reads)
		select {
		case <-ticker.C():
		case <-ctx.Done():
		}
	}
}

// compareAll compares the nodes that have podCIDRs with the cloud, and takes notice again of those that need work.
func (c *Controller) compareAll(ctx, reads context.Context) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return
	}
	c.forgetMissing(nodes)
	var having []*corev1.Node
	for _, node := range nodes {
		switch {
		case c.needsWork(node):
			c.consider(node)
		case len(node.Spec.PodCIDRs) > 0 && node.Spec.ProviderID != "":
			having = append(having, node)
		}
	}
	reader := c.reader
	reader.Class = cloud.ClassOther
	for group := range slices.Chunk(having, reader.Size()) {
		for i, state := range reader.Group(reads, group, wanted, 0) {
			switch {
			case ctx.Err() != nil:
				return
			case state.Err != nil:
				klog.FromContext(ctx).V(2).Info("The podCIDRs of a node are not compared, will be retried",
					"node", group[i].Name, "err", state.Err)
			case state.Exists:
				c.isAsCloudSays(group[i], state.PodCIDRs)
			}
		}
	}
}

// forgetMissing forgets all nodes but those that there are.
func (c *Controller) forgetMissing(nodes []*corev1.Node) {
	present := make(map[types.UID]bool, len(nodes))
	for _, node := range nodes {
		present[node.UID] = true
	}
	c.holders.retain(present)
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.conflicts {
		if !present[uid] {
			c.dropConflict(uid)
		}
	}
	for uid := range c.written {
		if !present[uid] {
			delete(c.written, uid)
		}
	}
}
