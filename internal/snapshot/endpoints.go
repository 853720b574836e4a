package snapshot

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// serviceEndpoints counts the endpoints of every Service. EndpointSlices are asked for in the version that is served: v1 since 1.21, v1beta1 before.
func (g *gatherer) serviceEndpoints(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("endpoints", noAPI)
		return
	}
	all, ready := endpointSet{}, endpointSet{}
	add := func(service string, isReady *bool, target *corev1.ObjectReference, addresses []string) {
		all.add(service, nil, target, addresses)
		ready.add(service, ptr.To(ptr.Deref(isReady, true)), target, addresses)
	}
	var ok bool
	if g.serves("discovery.k8s.io/v1beta1") && !g.serves("discovery.k8s.io/v1") {
		ok = g.oldSlices(ctx, add)
	} else {
		ok = g.slices(ctx, add)
	}
	if !ok {
		return
	}
	readyOf := ready.count()
	for service, total := range all.count() {
		g.snap.Endpoints = append(g.snap.Endpoints, v1.ServiceEndpoints{Service: service, Ready: readyOf[service], Total: total})
	}
}

// emptyServices adds the Services without any endpoint: that a Service has none is something else than that it was deleted.
func (g *gatherer) emptyServices() {
	if _, gathered := g.snap.Counts["endpointslices"]; !gathered {
		return
	}
	have := map[string]bool{}
	for _, e := range g.snap.Endpoints {
		have[e.Service] = true
	}
	for service := range g.selectors {
		if !have[service] {
			g.snap.Endpoints = append(g.snap.Endpoints, v1.ServiceEndpoints{Service: service})
		}
	}
	slices.SortFunc(g.snap.Endpoints, func(a, b v1.ServiceEndpoints) int { return strings.Compare(a.Service, b.Service) })
}

// addEndpoint takes an endpoint of a Service.
type addEndpoint func(service string, ready *bool, target *corev1.ObjectReference, addresses []string)

func (g *gatherer) slices(ctx context.Context, add addEndpoint) bool {
	items, ok := listed(ctx, g, "endpoints", "endpointslices", g.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List,
		func(l *discoveryv1.EndpointSliceList) []discoveryv1.EndpointSlice { return l.Items })
	if ok {
		g.count("endpointslices", len(items))
	}
	for i := range items {
		for _, e := range items[i].Endpoints {
			add(items[i].Namespace+"/"+items[i].Labels[discoveryv1.LabelServiceName], e.Conditions.Ready, e.TargetRef, e.Addresses)
		}
	}
	return ok
}

func (g *gatherer) oldSlices(ctx context.Context, add addEndpoint) bool {
	items, ok := listed(ctx, g, "endpoints", "endpointslices", g.Kube.DiscoveryV1beta1().EndpointSlices(metav1.NamespaceAll).List,
		func(l *discoveryv1beta1.EndpointSliceList) []discoveryv1beta1.EndpointSlice { return l.Items })
	if ok {
		g.count("endpointslices", len(items))
	}
	for i := range items {
		for _, e := range items[i].Endpoints {
			add(items[i].Namespace+"/"+items[i].Labels[discoveryv1beta1.LabelServiceName], e.Conditions.Ready, e.TargetRef, e.Addresses)
		}
	}
	return ok
}
