package service

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// fingerprintVersion changes when what a fingerprint covers does. A leader does not believe those of another version.
const fingerprintVersion = "1"

// wantsLoadBalancer reports whether a Service asks for a load balancer of the cloud provider. One with a class is for
// another controller.
func wantsLoadBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil
}

// needsCleanup reports whether a Service carries the finalizer of a load balancer that it no longer needs. Its class
// does not matter: the finalizer is what keeps the Service from going, and no other controller may remove it.
func needsCleanup(service *corev1.Service) bool {
	return servicehelper.HasLBFinalizer(service) &&
		(service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// determining holds the fields of a Service that determine its load balancer. By upstream's rules, a load balancer
// needs an update when one of them changes. An absent list is an empty one.
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
		// a copy of the rest of the object, by kubectl: a changed label is in it too
		if key != corev1.LastAppliedConfigAnnotation {
			d.Annotations[key] = value
		}
	}
	for _, p := range service.Spec.Ports {
		target := fmt.Sprintf("%d %s", p.TargetPort.Type, p.TargetPort.String())
		d.Ports = append(d.Ports, determiningPort{p.Name, p.Protocol, p.Port, p.NodePort, target, p.AppProtocol})
	}
	return digest(d)
}

// needsUpdate reports whether a change of a Service is one that its load balancer has to follow.
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

// normal is a status as the API server would give it back: an address without a mode has mode VIP. Without this, a
// provider that leaves the mode out would make every look at the Service see a change, and every change a patch.
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

func isSameStatus(a, b *corev1.LoadBalancerStatus) bool {
	return equality.Semantic.DeepEqual(normal(a).Ingress, normal(b).Ingress)
}

// hasSameAddresses reports whether two statuses name the same addresses, in any order and whatever else they say of
// them. Providers fill ports and modes in when they ensure, and not always when they are asked.
func hasSameAddresses(a, b *corev1.LoadBalancerStatus) bool {
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

// operation is what a load balancer needs.
type operation int

const (
	opNone    operation = iota
	opOrphan            // its Service is gone, and the load balancer is kept; see chooseOperation
	opDelete            // its Service is gone, and the load balancer was being made or deleted
	opReplace           // its Service was deleted and made again: the load balancer is deleted, and another one made
	opCleanup           // its Service no longer needs it
	opEnsure            // it must follow its Service
	opUpdate            // its members have changed, and nothing else
	opStatus            // its Service's status is not what was written
	opResync            // it is ensured without a reason, to find what was changed in the cloud
	opCheck             // it is looked at
)

// facts are what chooseOperation looks at.
type facts struct {
	service *corev1.Service // nil when it is gone
	known   bool            // whether there is a state
	lb      lbState
	view    *view
	now     time.Time
}

// chooseOperation decides what the load balancer of one Service needs.
//
// A Service that disappears before its deletion started had lost our finalizer before. A user wants to keep the load
// balancer, and upstream keeps it. One that is being deleted and has no finalizer of ours is left alone for the same
// reason. What is half made goes, as it does upstream.
func chooseOperation(f facts) operation {
	switch {
	case f.service == nil:
		return judgeGone(f)
	case f.known && f.lb.uid != f.service.UID:
		return opReplace
	case needsCleanup(f.service), !wantsLoadBalancer(f.service) && f.known:
		return opCleanup
	case !wantsLoadBalancer(f.service), f.service.DeletionTimestamp != nil:
		return opNone
	}
	return judgeWanted(f)
}

func judgeGone(f facts) operation {
	switch {
	case !f.known, f.lb.gone:
		return opNone
	case f.lb.cleaning, f.lb.tried && !f.lb.isInSync(): // what it has in the cloud is not what anybody wants to keep
		return opDelete
	}
	return opOrphan
}

func judgeWanted(f facts) operation {
	lb := f.lb
	switch {
	case lb.spec != specPrint(f.service) || lb.cleaning || lb.gone: // a state that is not known has no fingerprint
		return opEnsure
	case lb.implementedElsewhere:
		return opNone
	case f.view.needsUpdate(lb.members):
		return opUpdate
	case lb.stored == nil, deviates(f.service, lb):
		return opStatus
	case isDue(lb.resync, f.now):
		return opResync
	case isDue(lb.check, f.now):
		return opCheck
	}
	return opNone
}

// deviates reports whether a Service's status is not what this process wrote. A cache that has not seen the write yet
// shows nothing.
func deviates(service *corev1.Service, lb lbState) bool {
	return lb.stored != nil && !isOlderVersion(service.ResourceVersion, lb.version) &&
		!isSameStatus(&service.Status.LoadBalancer, lb.stored)
}

// isRelevantUpdate reports whether a changed Service is worth looking at. Others must not be: a look at one that failed
// would not wait for its back-off.
func isRelevantUpdate(before, now *corev1.Service, known bool, lb lbState) bool {
	return before.UID != now.UID ||
		needsUpdate(before, now) ||
		needsCleanup(now) && !needsCleanup(before) ||
		known && lb.spec != "" && !lb.implementedElsewhere && wantsLoadBalancer(now) && deviates(now, lb)
}

// repairDelay is how long a status that another client keeps changing is left alone. Two writers that do not agree must
// not keep the API server busy. The first repair does not wait.
func repairDelay(repairs int) time.Duration {
	if repairs == 0 {
		return 0
	}
	return min(minRetryDelay<<min(repairs-1, 10), maxRetryDelay)
}

// isOlderVersion reports whether a resource version comes before another. What cannot be compared does not.
func isOlderVersion(version, than string) bool {
	a, b := parseVersion(version), parseVersion(than)
	return a != 0 && b != 0 && a < b
}
