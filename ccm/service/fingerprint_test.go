package service

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"
)

func TestLoadBalancerFollowsWhatDeterminesIt(t *testing.T) {
	plain := func(*corev1.Service) {}
	set := func(change func(*corev1.ServiceSpec)) func(*corev1.Service) {
		return func(s *corev1.Service) { change(&s.Spec) }
	}
	externalIPs := func(ips ...string) func(*corev1.Service) {
		return set(func(s *corev1.ServiceSpec) { s.ExternalIPs = ips })
	}
	families := func(f ...corev1.IPFamily) func(*corev1.Service) {
		return set(func(s *corev1.ServiceSpec) { s.IPFamilies = f })
	}
	appProtocol := func(p string) func(*corev1.Service) {
		return set(func(s *corev1.ServiceSpec) { s.Ports[0].AppProtocol = &p })
	}
	target := func(p intstr.IntOrString) func(*corev1.Service) {
		return set(func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = p })
	}
	ports := func(numbers ...int32) func(*corev1.Service) {
		return set(func(s *corev1.ServiceSpec) {
			s.Ports = nil
			for _, n := range numbers {
				s.Ports = append(s.Ports, corev1.ServicePort{Port: n})
			}
		})
	}
	annotation := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Annotations = map[string]string{key: value} }
	}
	for _, tc := range []struct {
		name        string
		before, now func(*corev1.Service)
		want        bool
	}{
		{"the type changes from LoadBalancer to ClusterIP", plain, withType(corev1.ServiceTypeClusterIP), true},
		{"the type changes from NodePort to LoadBalancer", withType(corev1.ServiceTypeNodePort), plain, true},
		{"the ports change", ports(8000, 9000, 10000), ports(8001, 9001, 10001), true},
		{"the order of the ports changes", ports(1, 2), ports(2, 1), true},
		{"there is an external address more", externalIPs("192.0.2.1"), externalIPs("192.0.2.2", "192.0.2.3"), true},
		{"the external addresses change", externalIPs("192.0.2.1", "192.0.2.2"), externalIPs("192.0.2.3", "192.0.2.4"), true},
		{"it is another Service by the same name", withUID("old"), withUID("new"), true},
		{"the external traffic policy changes", plain, set(func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }), true},
		{"the health check port changes", plain, set(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30123 }), true},
		{"the target port changes", target(intstr.FromInt32(20)), target(intstr.FromInt32(21)), true},
		{"the target port becomes a name", target(intstr.FromInt32(22)), target(intstr.FromString("dns")), true},
		{"the target port becomes a name that looks like the number", target(intstr.FromInt32(22)), target(intstr.FromString("22")), true},
		{"the node port changes", plain, set(func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30001 }), true},
		{"the name of a port changes", plain, set(func(s *corev1.ServiceSpec) { s.Ports[0].Name = "http" }), true},
		{"the protocol changes", plain, set(func(s *corev1.ServiceSpec) { s.Ports[0].Protocol = corev1.ProtocolUDP }), true},
		{"the application protocol stays", plain, plain, false},
		{"the application protocol is set", plain, appProtocol("http"), true},
		{"the application protocol changes", appProtocol("http"), appProtocol("tcp"), true},
		{"single stack becomes dual stack", families(corev1.IPv4Protocol), families(corev1.IPv4Protocol, corev1.IPv6Protocol), true},
		{"dual stack becomes single stack", families(corev1.IPv4Protocol, corev1.IPv6Protocol), families(corev1.IPv4Protocol), true},
		{"the families stay", families(corev1.IPv4Protocol), families(corev1.IPv4Protocol), false},
		{"the source ranges change", plain, set(func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }), true},
		{"the source ranges become an empty list", plain, set(func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{} }), false},
		{"the address asked for changes", plain, set(func(s *corev1.ServiceSpec) { s.LoadBalancerIP = "192.0.2.7" }), true},
		{"the session affinity changes", plain, set(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }), true},
		{"the session affinity's timeout is set", plain, set(func(s *corev1.ServiceSpec) {
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](5)}}
		}), true},
		{"an annotation is set", plain, annotation("example.com/a", "1"), true},
		{"an annotation changes", annotation("example.com/a", "1"), annotation("example.com/a", "2"), true},
		{"the annotations become an empty map", plain, func(s *corev1.Service) { s.Annotations = map[string]string{} }, false},
		{"kubectl's copy of the object changes", plain, annotation(corev1.LastAppliedConfigAnnotation, "{}"), false},
		{"a label changes", plain, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, false},
		{"the selector changes", plain, set(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a": "b"} }), false},
		{"the status changes", plain, withAddress("192.0.2.1"), false},
		{"a Service of somebody else's class changes", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x") },
			func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x"); withPort(1)(s) }, false},
		{"a Service without a load balancer changes", withType(corev1.ServiceTypeClusterIP),
			func(s *corev1.Service) { withType(corev1.ServiceTypeClusterIP)(s); withPort(1)(s) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := needsUpdate(service("web", tc.before), service("web", tc.now)); got != tc.want {
				t.Errorf("needs an update: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFinalizerIsWhatNeedsCleanup(t *testing.T) {
	deleted := &metav1.Time{Time: metav1.Now().Time}
	finalizers := []string{servicehelper.LoadBalancerCleanupFinalizer}
	for name, tc := range map[string]struct {
		service corev1.Service
		want    bool
	}{
		"a Service without the finalizer": {corev1.Service{}, false},
		"one with it, of another type": {corev1.Service{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}, true},
		"one with it, that wants its load balancer": {corev1.Service{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}, false},
		"one with it, that is being deleted": {corev1.Service{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers, DeletionTimestamp: deleted}}, true},
		"one of somebody else's class, being deleted": {corev1.Service{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers, DeletionTimestamp: deleted},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To("x")}}, true},
		"one without it, that is being deleted": {corev1.Service{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsCleanup(&tc.service); got != tc.want {
				t.Errorf("needs cleanup: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestStatusesAreComparedAsTheAPIServerGivesThem(t *testing.T) {
	proxy := corev1.LoadBalancerIPModeProxy
	bare := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}
	vip := ptr.To(statusOf("192.0.2.1"))
	proxied := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &proxy}}}
	host := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example.com", Ports: []corev1.PortStatus{}}}}
	for name, tc := range map[string]struct {
		a, b                *corev1.LoadBalancerStatus
		status, addressOnly bool
	}{
		"an address without a mode is a VIP": {bare, vip, true, true},
		"a mode is part of a status":         {bare, proxied, false, true},
		"an empty list is none":              {host, &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}}, true, true},
		"other addresses":                    {bare, host, false, false},
		"none":                               {bare, &corev1.LoadBalancerStatus{}, false, false},
		"two times none":                     {&corev1.LoadBalancerStatus{}, &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isSameStatus(tc.a, tc.b); got != tc.status {
				t.Errorf("same status: %t, want %t", got, tc.status)
			}
			if got := hasSameAddresses(tc.a, tc.b); got != tc.addressOnly {
				t.Errorf("same addresses: %t, want %t", got, tc.addressOnly)
			}
		})
	}
}

func TestFingerprintsDoNotChangeByThemselves(t *testing.T) {
	s := service("web", func(s *corev1.Service) {
		s.UID = types.UID("web-uid")
		s.Annotations = map[string]string{}
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			s.Annotations[key] = key
		}
	})
	want := specPrint(s)
	for range 100 {
		if got := specPrint(s.DeepCopy()); got != want {
			t.Fatalf("the fingerprint of the same Service is %s and %s", want, got)
		}
	}
}
