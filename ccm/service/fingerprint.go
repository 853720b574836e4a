package service

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// fingerprintVersion changes when what a fingerprint covers does. A leader does not believe those of another version.
const fingerprintVersion = "1"

// wantsLoadBalancer is whether a Service asks for a load balancer of the cloud provider. One with a class asks somebody else.
func wantsLoadBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil
}

// needsCleanup is whether a Service carries the finalizer of a load balancer that it no longer needs. Its class does not matter: the finalizer
// is what keeps the Service from going, and nobody else may take it away.
func needsCleanup(service *corev1.Service) bool {
	return servicehelper.HasLBFinalizer(service) && (service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// determining is what of a Service determines its load balancer, by upstream's rules of when one needs an update. An absent list is an empty one.
type determining struct {
	UID            string
	Annotations    map[string]string
	Ports          []determiningPort
	Affinity       corev1.ServiceAffinity
	AffinityConfig *corev1.SessionAffinityConfig
	Address        string
	SourceRanges   []string `json:",omitempty"`
	ExternalIPs    []string `json:",omitempty"`
	TrafficPolicy  corev1.ServiceExternalTrafficPolicy
	HealthPort     int32
	Families       int // which they are cannot change, how many can
}

type determiningPort struct {
	Name           string
	Protocol       corev1.Protocol
	Port, NodePort int32
	TargetPort     string
	AppProtocol    *string
}

// specPrint is the fingerprint of what a Service asks of its load balancer.
func specPrint(service *corev1.Service) string {
	d := determining{
		UID:            string(service.UID),
		Annotations:    map[string]string{},
		Affinity:       service.Spec.SessionAffinity,
		AffinityConfig: service.Spec.SessionAffinityConfig,
		Address:        service.Spec.LoadBalancerIP,
		SourceRanges:   service.Spec.LoadBalancerSourceRanges,
		ExternalIPs:    service.Spec.ExternalIPs,
		TrafficPolicy:  service.Spec.ExternalTrafficPolicy,
		HealthPort:     service.Spec.HealthCheckNodePort,
		Families:       len(service.Spec.IPFamilies),
	}
	for key, value := range service.Annotations {
		if key != corev1.LastAppliedConfigAnnotation { // a copy of the rest of the object, by kubectl: a changed label is in it too
			d.Annotations[key] = value
		}
	}
	for _, p := range service.Spec.Ports {
		target := fmt.Sprintf("%d %s", p.TargetPort.Type, p.TargetPort.String())
		d.Ports = append(d.Ports, determiningPort{p.Name, p.Protocol, p.Port, p.NodePort, target, p.AppProtocol})
	}
	return digest(d)
}

// needsUpdate is whether a change of a Service is one that its load balancer has to follow.
func needsUpdate(before, now *corev1.Service) bool {
	if wantsLoadBalancer(before) != wantsLoadBalancer(now) {
		return true
	}
	return wantsLoadBalancer(now) && specPrint(before) != specPrint(now)
}

// digest is a short fingerprint of a value. encoding/json writes the keys of maps in order.
func digest(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be marshalled: %v", value, err)) // it holds texts and numbers
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// normal is a status as the API server would give it back: an address without a mode has mode VIP. Without this, a provider that leaves the mode
// out would make every look at the Service see a change, and every change a patch.
func normal(status *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
	out := status.DeepCopy()
	for i := range out.Ingress {
		if in := &out.Ingress[i]; in.IP != "" && in.IPMode == nil {
			vip := corev1.LoadBalancerIPModeVIP
			in.IPMode = &vip
		}
	}
	return out
}

func sameStatus(a, b *corev1.LoadBalancerStatus) bool {
	return equality.Semantic.DeepEqual(normal(a).Ingress, normal(b).Ingress)
}

// sameAddresses is whether two statuses name the same addresses, in any order and whatever else they say of them: providers fill ports and modes in
// when they ensure, and not always when they are asked.
func sameAddresses(a, b *corev1.LoadBalancerStatus) bool {
	return slices.Equal(addresses(a), addresses(b))
}

func addresses(status *corev1.LoadBalancerStatus) []string {
	var out []string
	for _, in := range status.Ingress {
		out = append(out, in.IP+" "+in.Hostname)
	}
	slices.Sort(out)
	return out
}
