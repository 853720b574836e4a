package objects

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/syncfailure"
)

// GatherServices keeps those of type LoadBalancer, and the selectors of all for the backends of webhooks.
func GatherServices(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("services", collect.NoAPI)
		return
	}
	items, ok := collect.List(ctx, g, "services", "services", g.Kube.CoreV1().Services(corev1.NamespaceAll).List,
		func(l *corev1.ServiceList) []corev1.Service { return l.Items })
	if !ok {
		return
	}
	var out []v1.Service
	g.Selectors = make(map[string]map[string]string, len(items))
	for i := range items {
		g.Selectors[items[i].Namespace+"/"+items[i].Name] = items[i].Spec.Selector
		if items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
			out = append(out, Service(&items[i]))
		}
	}
	slices.SortFunc(out, func(a, b v1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	g.Snap.Services = out
	markFailing(ctx, g)
	g.Count("services", len(items))
}

// markFailing adds what managers say of the load balancers that they cannot keep. It says nothing of Services that are
// not there any more.
func markFailing(ctx context.Context, g *collect.Collector) {
	if len(g.Snap.Services) == 0 {
		return
	}
	events, ok := collect.List(ctx, g, "services/events", "events of Services",
		func(ctx context.Context, o metav1.ListOptions) (*corev1.EventList, error) {
			o.FieldSelector = syncfailure.Selector
			return g.Kube.CoreV1().Events(corev1.NamespaceAll).List(ctx, o)
		},
		func(l *corev1.EventList) []corev1.Event { return l.Items })
	if !ok {
		return
	}
	failing := syncfailure.Of(events)
	for i := range g.Snap.Services {
		s := &g.Snap.Services[i]
		if f, is := failing[s.Namespace+"/"+s.Name]; is && !f.Last.Before(s.Created) {
			s.Failing = &f
		}
	}
}

// Service returns the facts of a Service object. Annotations whose name speaks of a secret are masked, and the copy of
// the whole object that kubectl keeps in one is left out.
func Service(s *corev1.Service) v1.Service {
	out := v1.Service{
		Namespace:             s.Namespace,
		Name:                  s.Name,
		UID:                   string(s.UID),
		Finalizers:            s.Finalizers,
		Annotations:           mask.Annotations(s.Annotations),
		Created:               s.CreationTimestamp.UTC(),
		Deleting:              s.DeletionTimestamp != nil,
		ExternalTrafficPolicy: string(s.Spec.ExternalTrafficPolicy),
		HealthCheckNodePort:   s.Spec.HealthCheckNodePort,
		LoadBalancerIP:        s.Spec.LoadBalancerIP,
		Addresses:             Addresses(s),
	}
	if s.Spec.LoadBalancerClass != nil {
		out.Class = *s.Spec.LoadBalancerClass
	}
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports, fmt.Sprintf("%d/%s->%d", p.Port, p.Protocol, p.NodePort))
	}
	for _, f := range s.Spec.IPFamilies {
		out.IPFamilies = append(out.IPFamilies, string(f))
	}
	for _, c := range s.Status.Conditions {
		out.Conditions = append(out.Conditions, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	slices.Sort(out.Conditions)
	return out
}

// Addresses returns the addresses of a Service's load balancer. A migration asks for them again and again while no
// manager runs the loops, and must not wait for annotations to be masked.
func Addresses(s *corev1.Service) []string {
	var out []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, i.Hostname+i.IP)
	}
	return out
}
