package difftest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// Snapshot is what users and other components see of a cluster and its cloud.
type Snapshot struct {
	Nodes         map[string]Node
	Services      map[string]Service
	LoadBalancers map[string]LoadBalancer // by Service
	Routes        map[string]string       // node by CIDR
	Events        []string                // kind/name: component type reason
}

// Node is what cloud controllers decide of a node.
type Node struct {
	ProviderID string
	Labels     map[string]string
	Taints     []string
	Addresses  []string // in their order
	PodCIDRs   []string
	Network    string // the condition NetworkUnavailable
}

// Service is what cloud controllers decide of a Service.
type Service struct {
	Type        corev1.ServiceType
	Annotations map[string]string
	Finalizers  []string
	Ingress     []corev1.LoadBalancerIngress
}

// LoadBalancer is what the cloud has for a Service.
type LoadBalancer struct {
	Ports    []api.Port
	Members  []string
	Settings map[string]string
	Ingress  api.Ingress
}

func (s Snapshot) equal(other Snapshot) bool { return reflect.DeepEqual(s, other) }

// additions are the reasons of events that only our manager writes, and why. Besides omissions, nothing else may be in
// one cluster only.
var additions = map[string]string{
	"InstanceMissing":         "upstream only logs why a node stays uninitialised",
	"ProvidedIPMismatch":      "the same",
	"UnAvailableLoadBalancer": "a node that is not initialised is no member yet, so that a load balancer made before the first node is told to have none",
}

// omissions are the reasons of events that only upstream's manager writes, and why.
var omissions = map[string]string{
	"UpdateLoadBalancerFailed": "upstream may try to update a load balancer that it has not made yet",
}

// without leaves out the events of a snapshot that another may lack.
func (s Snapshot) without(reasons map[string]string, other Snapshot) Snapshot {
	s.Events = slices.DeleteFunc(slices.Clone(s.Events), func(event string) bool {
		_, may := reasons[event[strings.LastIndex(event, " ")+1:]]
		return may && !slices.Contains(other.Events, event)
	})
	return s
}

// ownDomain is of annotations in which our manager notes something for itself.
const ownDomain = "transplant.dev/"

func (w *world) snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{
		Nodes:         map[string]Node{},
		Services:      map[string]Service{},
		LoadBalancers: map[string]LoadBalancer{},
		Routes:        map[string]string{},
	}
	nodes, err := w.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		s.Nodes[nodes.Items[i].Name] = nodeOf(&nodes.Items[i])
	}
	services, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("listing services: %w", err)
	}
	for i := range services.Items {
		if service := &services.Items[i]; service.Name != "kubernetes" {
			s.Services[service.Name] = serviceOf(service)
		}
	}
	events, err := w.admin.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("listing events: %w", err)
	}
	seen := map[string]bool{}
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.Kind != "Lease" {
			seen[fmt.Sprintf("%s/%s: %s %s %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Source.Component, e.Type, e.Reason)] = true
		}
	}
	s.Events = slices.Sorted(maps.Keys(seen))
	state := w.cloud.State()
	for _, lb := range state.LoadBalancers {
		s.LoadBalancers[lb.Service] = LoadBalancer{
			Ports:    lb.Ports,
			Members:  lb.Members,
			Settings: lb.Settings,
			Ingress:  ingressOf(lb),
		}
	}
	for _, route := range state.Routes {
		s.Routes[route.CIDR] = route.Node
	}
	return s, nil
}

func nodeOf(node *corev1.Node) Node {
	n := Node{ProviderID: node.Spec.ProviderID, Labels: node.Labels, PodCIDRs: node.Spec.PodCIDRs}
	for _, taint := range node.Spec.Taints {
		n.Taints = append(n.Taints, taint.ToString())
	}
	slices.Sort(n.Taints)
	for _, address := range node.Status.Addresses {
		n.Addresses = append(n.Addresses, string(address.Type)+" "+address.Address)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			n.Network = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return n
}

func serviceOf(service *corev1.Service) Service {
	s := Service{
		Type:        service.Spec.Type,
		Annotations: map[string]string{},
		Finalizers:  service.Finalizers,
		Ingress:     service.Status.LoadBalancer.Ingress,
	}
	for key, value := range service.Annotations {
		if !strings.Contains(key, ownDomain) {
			s.Annotations[key] = value
		}
	}
	for i := range s.Ingress { // the cloud counts addresses, and names what it has no name for by UID
		if s.Ingress[i].IP != "" {
			s.Ingress[i].IP = "an address"
		}
		if s.Ingress[i].Hostname != "" {
			s.Ingress[i].Hostname = "a name"
		}
	}
	return s
}

func ingressOf(lb api.LoadBalancer) api.Ingress {
	ingress := lb.Ingress
	if ingress.IP != "" {
		ingress.IP = "an address"
	}
	if ingress.Hostname != "" {
		ingress.Hostname = "a name"
	}
	return ingress
}
