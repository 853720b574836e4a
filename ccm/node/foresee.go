package node

import (
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// Foresee returns what the controller would write about a node whose instance has these metadata: its addresses, as it orders and filters them for a
// kubelet that was told its own, and the labels that it would set or change. It writes nothing. The error is the one for which the controller would
// leave the node as it is.
func Foresee(node *corev1.Node, metadata *cloudprovider.InstanceMetadata) ([]corev1.NodeAddress, map[string]string, error) {
	addresses, err := addressesOf(node, metadata.NodeAddresses)
	if err != nil {
		return nil, nil, err
	}
	labels, _ := labelsOf(node, metadata)
	return addresses, labels, nil
}
