package node

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// hasCloudTaint reports whether a node has the taint that the kubelet registers it with and that goes when it is
// initialised.
func hasCloudTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isCloudTaint)
}

func isCloudTaint(taint corev1.Taint) bool {
	return taint.Key == cloudproviderapi.TaintExternalCloudProvider
}

// needsWork reports whether something is to be done for a node apart from comparing its addresses once per period.
func needsWork(node *corev1.Node) bool {
	return hasCloudTaint(node) || len(unequalLabels(node.Labels)) > 0
}

// hasRelevantChange reports whether an update of a node may change what is to be done. Heartbeats do not: a node that
// cannot be initialised now has its back-off.
func hasRelevantChange(old, updated *corev1.Node) bool {
	annotation := cloudproviderapi.AnnotationAlphaProvidedIPAddr
	return old.UID != updated.UID || old.Spec.ProviderID != updated.Spec.ProviderID ||
		hasCloudTaint(old) != hasCloudTaint(updated) ||
		old.Annotations[annotation] != updated.Annotations[annotation] || len(unequalLabels(updated.Labels)) > 0
}

// initialisation is what a node gets when it is initialised.
type initialisation struct {
	addresses  []corev1.NodeAddress // nil: as they are
	labels     map[string]string
	invalid    []string // labels that were left out
	providerID string   // empty: as it is
	taints     []corev1.Taint
}

// metadataOf returns what is known of a node's instance, or why the node cannot be initialised with what the cloud has
// said.
func metadataOf(node *corev1.Node, state cloud.InstanceState) (*cloudprovider.InstanceMetadata, error) {
	switch {
	case errors.Is(
		state.Err,
		cloudprovider.InstanceNotFound,
	) || state.Err == nil && state.Metadata == nil && !state.Exists:
		return nil, passing(InstanceMissing, fmt.Errorf("the cloud has no instance for node %q", node.Name))
	case state.Err != nil:
		return nil, passing(ReadingInstanceFailed, fmt.Errorf("reading the instance of node %q: %w", node.Name, state.Err))
	case state.Metadata == nil:
		return nil, lasting(CloudMetadataMissing, "the cloud provider has no metadata for node %q", node.Name)
	}
	return state.Metadata, nil
}

// judgeInitialisation says what a node gets from its instance. A node without provider ID stays tainted. Load balancers
// need the ID, the judgement of whether its instance is gone needs it, and no other controller sets it later. Only a
// provider of the first generation may have none at all.
func judgeInitialisation(node *corev1.Node, state cloud.InstanceState, idsOptional bool) (initialisation, error) {
	metadata, err := metadataOf(node, state)
	if err != nil {
		return initialisation{}, err
	}
	var does initialisation
	if node.Spec.ProviderID == "" {
		if metadata.ProviderID == "" && !idsOptional {
			return does, lasting(ProviderIDMissing, "the cloud provider has no provider ID for node %q", node.Name)
		}
		does.providerID = metadata.ProviderID
	}
	if does.addresses, err = addressesOf(node, metadata.NodeAddresses); err != nil {
		return does, lasting(ProvidedIPMismatch, "finding the addresses of node %q: %w", node.Name, err)
	}
	does.labels, does.invalid = labelsOf(node, metadata)
	does.taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), isCloudTaint)
	return does, nil
}
