package gce

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"
)

// The annotations that are looked at before upstream is.
const (
	oldTypeAnnotation   = "cloud.google.com/load-balancer-type"
	addressesAnnotation = "networking.gke.io/load-balancer-ip-addresses"
)

// balancerTypes are the kinds of load balancers. Upstream makes an external one for any other word, which shows an
// internal Service to the Internet.
var balancerTypes = []string{"", "Internal", "internal", "External", "external"}

// validateService returns an error for a Service that upstream would make something else of than it asks for.
func validateService(service *corev1.Service) error {
	var problems []error
	for _, annotation := range []string{upstream.ServiceAnnotationLoadBalancerType, oldTypeAnnotation} {
		if kind := service.Annotations[annotation]; !slices.Contains(balancerTypes, kind) {
			problems = append(problems, fmt.Errorf("the annotation %s has to be Internal or External, and is %q", annotation, kind))
		}
	}
	if _, err := upstream.GetServiceNetworkTier(service); err != nil {
		problems = append(problems, fmt.Errorf("the annotation %s has to be Standard or Premium: %w",
			upstream.NetworkTierAnnotationKey, err))
	}
	if _, has := service.Annotations[addressesAnnotation]; has {
		problems = append(problems, fmt.Errorf("the annotation %s is not read: use spec.loadBalancerIP with the address itself",
			addressesAnnotation))
	}
	for _, port := range service.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP && port.Protocol != corev1.ProtocolUDP && port.Protocol != "" {
			problems = append(problems, fmt.Errorf("port %d has protocol %s; there are TCP and UDP", port.Port, port.Protocol))
		}
	}
	if families := service.Spec.IPFamilies; len(families) > 0 && !slices.Contains(families, corev1.IPv4Protocol) {
		problems = append(problems, errors.New("it has IPv6 alone, and these load balancers have IPv4 addresses"))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("no load balancer can be made for Service %s/%s: %w", service.Namespace, service.Name, errors.Join(problems...))
}
