package conformance

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/names"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"
)

var errCloud = errors.New("the cloud does not answer")

// NewService returns a Service of type LoadBalancer; changes make it another.
func NewService(name string, changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// NewMember returns a Node that is initialised and Ready; changes make it another.
func NewMember(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"},
		},
		Spec: corev1.NodeSpec{ProviderID: "fake://" + name},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			// what our caches do not keep, and no controller may erase
			Images:          []corev1.ContainerImage{{Names: []string{"registry.example/pause:3"}, SizeBytes: 1}},
			VolumesInUse:    []corev1.UniqueVolumeName{"v"},
			VolumesAttached: []corev1.AttachedVolume{{Name: "v", DevicePath: "/dev/v"}},
		},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func withFinalizer(s *corev1.Service) {
	s.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
}

func withAddress(s *corev1.Service) {
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)},
	}
}

func beingDeleted(s *corev1.Service) {
	s.DeletionTimestamp = &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func ofType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = kind }
}

func withClass(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") }

func withProtocol(p corev1.Protocol) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Protocol = p }
}

func withLabel(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

func withoutLabel(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { delete(n.Labels, key) }
}

func withTaint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func withoutTaints(n *corev1.Node) { n.Spec.Taints = nil }

func withID(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }

func withReady(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
}

// withPressure returns what sets one more condition than whether the Node is Ready.
func withPressure(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(
			n.Status.Conditions[:1:1], corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: status},
		)
	}
}

func withConditions(ready corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	}
}

// changes are several that are made at once.
func changes(all ...func(*corev1.Node)) []func(*corev1.Node) { return all }

func unschedulable(n *corev1.Node) { n.Spec.Unschedulable = true }

func withoutConditions(n *corev1.Node) { n.Status.Conditions = nil }

// Steps that many scenarios have.

func putAll(objects ...runtime.Object) func(*World) {
	return func(w *World) { w.Put(objects...) }
}

func changeService(change func(*corev1.Service)) func(*World) {
	return func(w *World) { w.ChangeService("web", change) }
}

func changeNode(name string, changes ...func(*corev1.Node)) func(*World) {
	return func(w *World) {
		w.ChangeNode(name, func(n *corev1.Node) {
			for _, change := range changes {
				change(n)
			}
		})
	}
}

func deleteService(w *World) { w.DeleteService("web") }

func deleteNode(name string) func(*World) { return func(w *World) { w.DeleteNode(name) } }

func pass(d time.Duration) func(*World) { return func(w *World) { w.Pass(d) } }

func failCloud(call string, times int, err error) func(*World) {
	return func(w *World) { w.FailCloud(call, times, err) }
}

func failAPIOnce(request string, err error) func(*World) {
	return func(w *World) { w.FailAPI(request, 1, err) }
}

const (
	excluded    = corev1.LabelNodeExcludeBalancers
	autoscalers = "ToBeDeletedByClusterAutoscaler"
)

// serviceScenarios are those of upstream's tests of the service controller.
func serviceScenarios() []Scenario {
	two := func(more ...runtime.Object) []runtime.Object {
		return append([]runtime.Object{NewMember("a"), NewMember("b")}, more...)
	}
	web := two(NewService("web"))
	all := []Scenario{
		{Name: "a Service that wants no load balancer", Before: two(NewService("web", ofType(corev1.ServiceTypeClusterIP)))},
		{Name: "a Service of type NodePort", Before: two(NewService("web", ofType(corev1.ServiceTypeNodePort)))},
		{Name: "a Service of type ExternalName", Before: two(NewService("web", ofType(corev1.ServiceTypeExternalName)))},
		{Name: "a Service with a port of TCP", Before: web},
		{Name: "a Service with a port of UDP", Before: two(NewService("web", withProtocol(corev1.ProtocolUDP)))},
		{Name: "a Service with a port of SCTP", Before: two(NewService("web", withProtocol(corev1.ProtocolSCTP)))},
		{Name: "a Service with a class of another implementation", Before: two(NewService("web", withClass))},
		{Name: "a Service with finalizer that wants its load balancer", Before: two(NewService("web", withFinalizer))},
		{Name: "a Service with finalizer and address", Before: two(NewService("web", withFinalizer, withAddress))},
		{
			Name:   "a Service with finalizer that wants no load balancer any more",
			Cloud:  func(c *Cloud) { c.AddBalancer("web") },
			Before: two(NewService("web", withFinalizer, withAddress, ofType(corev1.ServiceTypeClusterIP))),
		},
		{
			Name: "a Service with finalizer that is being deleted", Cloud: func(c *Cloud) { c.AddBalancer("web") },
			Before: two(NewService("web", withFinalizer, withAddress, beingDeleted)),
		},
		{
			Name:   "a Service with finalizer that is being deleted, without load balancer in the cloud",
			Before: two(NewService("web", withFinalizer, withAddress, beingDeleted)),
		},
		{Name: "a Service without nodes", Before: []runtime.Object{NewService("web")}},
		{Name: "three Services", Before: two(NewService("web"), NewService("api"), NewService("mail"))},
		{
			Name:   "Services with and without load balancer",
			Before: two(NewService("web"), NewService("api", ofType(corev1.ServiceTypeNodePort)), NewService("mail")),
			Steps:  []func(*World){putAll(NewMember("c"))},
		},
		{Name: "no Services, and a node comes", Before: two(), Steps: []func(*World){putAll(NewMember("c"))}},
		{Name: "a Service is created", Before: two(), Steps: []func(*World){putAll(NewService("web"))}},
		{Name: "a Service is deleted", Before: web, Steps: []func(*World){deleteService}},
		{
			Name:   "a Service without load balancer is deleted",
			Before: two(NewService("web", ofType(corev1.ServiceTypeClusterIP))), Steps: []func(*World){deleteService},
		},
		{
			Name: "a Service is deleted and made again", Before: web,
			Steps: []func(*World){deleteService, putAll(NewService("web", withProtocol(corev1.ProtocolUDP)))},
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"GetLoadBalancer"}, Name: "time passes", Before: web,
			Steps: []func(*World){pass(2 * time.Hour)},
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"GetLoadBalancer"},
			Name:   "the address is kept when the cloud says the same",
			Before: two(NewService("web", withFinalizer, withAddress)), Steps: []func(*World){pass(time.Hour)},
		},
		{
			Name: "the cloud gives another address", Before: web,
			Steps: []func(*World){func(w *World) {
				if w.Cloud != nil {
					w.Cloud.Change(func(c *Cloud) {
						c.Status = &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example"}}}
					})
				}
				w.ChangeService("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
			}},
		},
		{
			Name: "the cloud gives no address any more", Before: web, Cloud: func(*Cloud) {},
			Steps: []func(*World){func(w *World) {
				w.Cloud.Change(func(c *Cloud) { c.Status = &corev1.LoadBalancerStatus{} })
				w.ChangeService("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
			}},
		},
		{
			Name: "the cloud gives no status", Cloud: func(c *Cloud) { c.NilStatus = true }, Before: web, Endless: true,
			Steps: []func(*World){pass(10 * time.Minute)},
		},
		{
			Name: "the cloud gives a host name", Before: web,
			Cloud: func(c *Cloud) {
				c.Status = &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example"}}}
			},
		},
	}
	for _, change := range []struct {
		what   string
		change func(*corev1.Service)
	}{
		{"type to ClusterIP", ofType(corev1.ServiceTypeClusterIP)},
		{"type to NodePort", ofType(corev1.ServiceTypeNodePort)},
		{"type to ExternalName", ofType(corev1.ServiceTypeExternalName)},
		{"port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }},
		{"node port", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30081 }},
		{"name of a port", func(s *corev1.Service) { s.Spec.Ports[0].Name = "other" }},
		{"protocol", withProtocol(corev1.ProtocolUDP)},
		{"target port", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort.IntVal = 8080 }},
		{"number of ports", func(s *corev1.Service) {
			s.Spec.Ports = append(
				s.Spec.Ports, corev1.ServicePort{
					Name:     "https",
					Protocol: corev1.ProtocolTCP,
					Port:     443,
					NodePort: 30443,
				},
			)
		}},
		{"appProtocol of a port", func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = ptr.To("http") }},
		{"session affinity", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }},
		{"source ranges", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }},
		{"load balancer IP", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }},
		{"external IPs", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.1"} }},
		{
			"external traffic policy",
			func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
		},
		{"internal traffic policy", func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}},
		{"health check node port", func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30999 }},
		{"IP families", func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		}},
		{"annotations", func(s *corev1.Service) { s.Annotations = map[string]string{"example.com/internal": "true"} }},
		{"labels", func(s *corev1.Service) { s.Labels = map[string]string{"team": "a"} }},
		{"selector", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }},
		{"node ports that are allocated", func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false) }},
		{"class, once there is a load balancer", withClass},
		{"finalizers, by another", func(s *corev1.Service) { s.Finalizers = nil }},
	} {
		all = append(
			all,
			Scenario{
				Name: "a Service changes: " + change.what, Before: web, Steps: []func(*World){changeService(change.change)},
			},
		)
	}
	all = append(all, Scenario{
		Name: "a Service changes: status, by another", Before: web, Meant: ComparedWithWhatShouldBe,
		Where: []string{"objects", "writes"},
		Steps: []func(*World){changeService(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil })},
	})
	all = append(all, Scenario{
		Name:   "a Service becomes one of type LoadBalancer",
		Before: two(NewService("web", ofType(corev1.ServiceTypeClusterIP))),
		Steps:  []func(*World){changeService(ofType(corev1.ServiceTypeLoadBalancer))},
	})
	all = append(all, nodeScenariosOfServices(web)...)
	all = append(all, failureScenariosOfServices(web)...)
	return of(names.ServiceLBController, all)
}

// slowUpdates has each UpdateLoadBalancer take longer than a step.
func slowUpdates(c *Cloud) { c.UpdateDelay = 2 * rest }

// failureScenariosOfServices are what fails, and how often it is tried.
func failureScenariosOfServices(web []runtime.Object) []Scenario {
	later := api.NewRetryError("not now", 20*time.Second)
	return []Scenario{
		{Name: "EnsureLoadBalancer fails once", Before: web, Fails: failCloud("EnsureLoadBalancer", 1, errCloud)},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"GetLoadBalancer"}, Name: "EnsureLoadBalancer fails three times",
			Before: web, Fails: failCloud("EnsureLoadBalancer", 3, errCloud), Steps: []func(*World){pass(time.Hour)},
		},
		{
			Name: "EnsureLoadBalancer always fails", Before: web, Fails: failCloud("EnsureLoadBalancer", 0, errCloud),
			Endless: true,
			Steps:   []func(*World){pass(time.Hour)},
		},
		{
			Name:   "EnsureLoadBalancer hangs, and another Service comes",
			Before: []runtime.Object{NewMember("a"), NewService("hung")}, Defaults: true,
			Cloud: func(c *Cloud) { c.Hangs = map[string]bool{"hung": true} }, Steps: []func(*World){putAll(NewService("web"))},
			Meant: NothingHoldsUpTheRest, Where: []string{"calls that change", "objects", "writes", "events"},
		},
		{
			Name: "EnsureLoadBalancer asks for another try later", Before: web,
			Fails: failCloud("EnsureLoadBalancer", 2, later),
		},
		{
			Name: "EnsureLoadBalancer is implemented elsewhere", Before: web,
			Fails: failCloud("EnsureLoadBalancer", 0, cloudprovider.ImplementedElsewhere),
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"calls that change", "series"},
			Name: "EnsureLoadBalancer is implemented elsewhere, and a node comes", Before: web,
			Steps: []func(*World){putAll(NewMember("c"))},
			Fails: func(w *World) {
				w.FailCloud("EnsureLoadBalancer", 0, cloudprovider.ImplementedElsewhere)
				w.FailCloud("UpdateLoadBalancer", 0, cloudprovider.ImplementedElsewhere)
			},
		},
		{
			Name: "a node comes while UpdateLoadBalancer takes long", Before: web, Cloud: slowUpdates,
			Steps: []func(*World){putAll(NewMember("c")), putAll(NewMember("d")), pass(10 * time.Minute)},
		},
		{
			Name: "a Service comes while UpdateLoadBalancer takes long", Before: web, Cloud: slowUpdates,
			Steps: []func(*World){putAll(NewMember("c")), putAll(NewService("api")), pass(10 * time.Minute)},
		},
		{
			Name: "UpdateLoadBalancer fails once", Before: web,
			Steps: []func(*World){func(w *World) { w.FailCloud("UpdateLoadBalancer", 1, errCloud); w.Put(NewMember("c")) }},
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"calls that change", "series"},
			Name: "UpdateLoadBalancer fails, and there is no load balancer", Before: web,
			Steps: []func(*World){func(w *World) {
				w.FailCloud("UpdateLoadBalancer", 1, errCloud)
				if w.Cloud != nil {
					w.Cloud.Change(func(c *Cloud) { c.balancers = nil })
				}
				w.Put(NewMember("c"))
			}},
		},
		{
			Name: "UpdateLoadBalancer is implemented elsewhere", Before: web,
			Steps: []func(*World){func(w *World) {
				w.FailCloud("UpdateLoadBalancer", 0, cloudprovider.ImplementedElsewhere)
				w.Put(NewMember("c"))
			}},
		},
		{
			Name: "EnsureLoadBalancerDeleted fails twice", Before: web,
			Fails: failCloud("EnsureLoadBalancerDeleted", 2, errCloud),
			Steps: []func(*World){deleteService, pass(time.Hour)},
		},
		{
			Name: "EnsureLoadBalancerDeleted always fails", Before: web,
			Fails: failCloud("EnsureLoadBalancerDeleted", 0, errCloud), Endless: true,
			Steps: []func(*World){deleteService, pass(time.Hour)},
		},
		{
			Name: "EnsureLoadBalancerDeleted is implemented elsewhere", Before: web,
			Fails: failCloud("EnsureLoadBalancerDeleted", 0, cloudprovider.ImplementedElsewhere),
			Steps: []func(*World){deleteService},
		},
		{
			Name: "GetLoadBalancer fails once before a deletion", Before: web, Fails: failCloud("GetLoadBalancer", 1, errCloud),
			Steps: []func(*World){deleteService, pass(time.Hour)},
		},
		{Name: "the finalizer cannot be written once", Before: web, Fails: failAPIOnce("patch services", errCloud)},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"calls that change"}, Name: "the status cannot be written once",
			Before: append([]runtime.Object{NewService("api", withFinalizer)}, web[:2]...),
			Fails:  failAPIOnce("patch services", errCloud),
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"calls that change"},
			Name:   "the status is written into a conflict",
			Before: append([]runtime.Object{NewService("api", withFinalizer)}, web[:2]...),
			Fails:  failAPIOnce("patch services", conflictOf("api")),
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"objects", "writes"},
			Name:   "the status is written, and the answer is that there is no such Service",
			Before: append([]runtime.Object{NewService("api", withFinalizer)}, web[:2]...),
			Fails:  failAPIOnce("patch services", apierrors.NewNotFound(servicesResource.GroupResource(), "api")),
		},
		{
			Name: "the finalizer cannot be removed once", Before: web,
			Steps: []func(*World){
				func(w *World) { w.FailAPI("patch services", 1, errCloud); w.DeleteService("web") }, pass(time.Hour),
			},
		},
	}
}

// of makes scenarios those of a controller.
func of(controller string, all []Scenario) []Scenario {
	for i := range all {
		all[i].Controller = controller
	}
	return all
}

func conflictOf(service string) error {
	return apierrors.NewConflict(servicesResource.GroupResource(), service, errors.New("the object has been modified"))
}
