package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"
)

// Foresee returns what the controller would write about a node whose instance has these metadata. These are its
// addresses, ordered and filtered for a kubelet that was told its own, and the labels that it would set or change. It
// writes nothing. The error is the one for which the controller would leave the node as it is.
func Foresee(
	node *corev1.Node,
	metadata *cloudprovider.InstanceMetadata,
) ([]corev1.NodeAddress, map[string]string, error) {
	addresses, err := addressesOf(node, metadata.NodeAddresses)
	if err != nil {
		return nil, nil, err
	}
	labels, _ := labelsOf(node, metadata)
	return addresses, labels, nil
}

// pairs are the labels that exist under two keys. The beta one is what the other follows, as upstream has it: tools of
// old clusters write that.
var pairs = []struct{ beta, stable string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelInstanceType, corev1.LabelInstanceTypeStable},
}

// unequalLabels returns the labels that make the stable ones of a node follow their beta pairs.
func unequalLabels(labels map[string]string) map[string]string {
	var set map[string]string
	for _, pair := range pairs {
		value, ok := labels[pair.beta]
		if !ok {
			continue
		}
		if stable, ok := labels[pair.stable]; !ok || stable != value {
			if set == nil {
				set = map[string]string{}
			}
			set[pair.stable] = value
		}
	}
	return set
}

// labelsOf returns the labels that a node does not have yet and gets from its instance. It also returns what is wrong
// with those that the API server would refuse.
func labelsOf(node *corev1.Node, metadata *cloudprovider.InstanceMetadata) (set map[string]string, invalid []string) {
	set = map[string]string{}
	add := func(value string, keys ...string) {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			invalid = append(invalid, fmt.Sprintf("%s=%q: %s", strings.Join(keys, ", "), value, strings.Join(problems, "; ")))
			return
		}
		for _, key := range keys {
			if has, ok := node.Labels[key]; !ok || has != value {
				set[key] = value
			}
		}
	}
	if metadata.InstanceType != "" {
		add(metadata.InstanceType, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable)
	}
	if metadata.Zone != "" {
		add(metadata.Zone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone)
	}
	if metadata.Region != "" {
		add(metadata.Region, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.AdditionalLabels)) {
		if _, there := node.Labels[key]; there || isReservedLabel(key) {
			continue // what others have set stays, and what Kubernetes reserves is not a provider's to set
		}
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			invalid = append(invalid, fmt.Sprintf("%q: %s", key, strings.Join(problems, "; ")))
			continue
		}
		add(metadata.AdditionalLabels[key], key)
	}
	return set, invalid
}

// isReservedLabel reports whether a label's domain is one of Kubernetes' own.
func isReservedLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(own string) bool {
		return domain == own || strings.HasSuffix(domain, "."+own)
	})
}
