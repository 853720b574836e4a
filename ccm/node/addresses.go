package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"
)

// addressesOf returns the addresses that a node should have. The kubelet's hostname stays unless the cloud knows a
// better one. The IPs that the kubelet was told to use come first and are the only ones of their types. Without
// addresses from the cloud the node's are left as they are (nil). An error is that the kubelet was told to use an IP
// that is not the instance's.
func addressesOf(node *corev1.Node, ofInstance []corev1.NodeAddress) ([]corev1.NodeAddress, error) {
	provided, ok := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if ok {
		if _, err := helpers.GetNodeAddressesFromNodeIP(provided, ofInstance); err != nil {
			return nil, err
		}
	}
	if len(ofInstance) == 0 {
		return nil, nil
	}
	addresses := slices.Clone(ofInstance) // the provider may keep its slice
	isHostname := func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName }
	if !slices.ContainsFunc(addresses, isHostname) {
		for _, address := range node.Status.Addresses {
			if isHostname(address) {
				addresses = append(addresses, address)
			}
		}
	}
	if !ok {
		return addresses, nil
	}
	return helpers.GetNodeAddressesFromNodeIP(provided, addresses)
}

// hasSameAddresses reports whether two lists mean the same. The order of types does not matter, the order within a type
// does. Of two IPs, one per family, the first is the node's primary one.
func hasSameAddresses(a, b []corev1.NodeAddress) bool {
	if len(a) != len(b) {
		return false
	}
	of := func(list []corev1.NodeAddress) map[corev1.NodeAddressType][]string {
		byType := map[corev1.NodeAddressType][]string{}
		for _, address := range list {
			byType[address.Type] = append(byType[address.Type], address.Address)
		}
		return byType
	}
	inB := of(b)
	for kind, addresses := range of(a) {
		if !slices.Equal(addresses, inB[kind]) {
			return false
		}
	}
	return true
}
