// Package instances decides which instance is a node's, for an inventory: the one that the provider's own code finds,
// as the new manager would. What is not answered of a node is unknown.
package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/cloud"
)

// Question is how a provider is asked.
type Question struct {
	Provider cloud.InstancesLister
	// IDOf is the ID of the instance that a providerID names; empty for none.
	IDOf func(providerID string) string
	// None is why no instance at all is found. Every node's instance gone at once is not what happened, and would be read
	// as "will be deleted".
	None string
}

// List asks for the instances of nodes. A node whose question has no answer is left out, and is in the error.
func (q Question) List(ctx context.Context, nodes []v1.Node) ([]v1.CloudInstance, error) {
	objects := make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		objects[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.SystemUUID}},
		}
	}
	states, err := q.Provider.ListInstances(ctx, objects, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata)
	if err != nil {
		return nil, err
	}
	var (
		out     []v1.CloudInstance
		unknown []string
		found   int
	)
	for i, state := range states {
		if state.Err != nil && !state.Exists {
			unknown = append(unknown, state.Err.Error())
			continue
		}
		if state.Exists {
			found++
		}
		out = append(out, q.instance(nodes[i], state))
	}
	if found == 0 && len(out) > 0 {
		return nil, fmt.Errorf("none of the nodes' %d instances is found: %s", len(out), q.None)
	}
	slices.SortFunc(out, func(a, b v1.CloudInstance) int { return strings.Compare(a.Node, b.Node) })
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return out, errors.New(strings.Join(slices.Compact(unknown), "; "))
	}
	return out, nil
}

func (q Question) instance(n v1.Node, state cloud.InstanceState) v1.CloudInstance {
	out := v1.CloudInstance{Node: n.Name, ID: q.IDOf(n.ProviderID), Found: state.Exists}
	switch {
	case state.Terminated:
		out.State = "terminated"
	case state.Shutdown:
		out.State = "stopped"
	case state.Exists:
		out.State = "running"
	}
	if m := state.Metadata; m != nil {
		out.ID, out.Zone, out.Type = q.IDOf(m.ProviderID), m.Zone, m.InstanceType
	}
	return out
}
