package objects

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherEndpoints counts the endpoints of every Service. EndpointSlices are asked for in the version that is served: v1
// since 1.21, v1beta1 before.
func GatherEndpoints(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("endpoints", collect.NoAPI)
		return
	}
	all, ready := EndpointSet{}, EndpointSet{}
	add := func(service string, isReady *bool, target *corev1.ObjectReference, addresses []string) {
		all.Add(service, nil, target, addresses)
		ready.Add(service, ptr.To(ptr.Deref(isReady, true)), target, addresses)
	}
	if !readEndpointSlices(ctx, g, add) {
		return
	}
	slices.Sort(g.Snap.APIServers)
	g.Snap.APIServers = slices.Compact(g.Snap.APIServers)
	readyOf := ready.Count()
	for service, total := range all.Count() {
		g.Snap.Endpoints = append(
			g.Snap.Endpoints,
			v1.ServiceEndpoints{Service: service, Ready: readyOf[service], Total: total},
		)
	}
}

// MarkServicesWithoutEndpoints adds the Services without any endpoint: that a Service has none is something else than
// that it was deleted.
func MarkServicesWithoutEndpoints(g *collect.Collector) {
	if _, gathered := g.Snap.Counts["endpointslices"]; !gathered {
		return
	}
	have := map[string]bool{}
	for _, e := range g.Snap.Endpoints {
		have[e.Service] = true
	}
	for service := range g.Selectors {
		if !have[service] {
			g.Snap.Endpoints = append(g.Snap.Endpoints, v1.ServiceEndpoints{Service: service})
		}
	}
	slices.SortFunc(g.Snap.Endpoints, func(a, b v1.ServiceEndpoints) int { return strings.Compare(a.Service, b.Service) })
}

// addEndpoint takes an endpoint of a Service.
type addEndpoint func(service string, ready *bool, target *corev1.ObjectReference, addresses []string)

func readEndpointSlices(ctx context.Context, g *collect.Collector, add addEndpoint) bool {
	const fact, what = "endpoints", "endpointslices"
	var items []discoveryv1.EndpointSlice
	var ok bool
	if Serves(g, "discovery.k8s.io/v1beta1") && !Serves(g, "discovery.k8s.io/v1") {
		list := g.Kube.DiscoveryV1beta1().EndpointSlices(metav1.NamespaceAll).List
		items, ok = collect.List(ctx, g, fact, what, list, OldSlices)
	} else {
		list := g.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List
		items, ok = collect.List(ctx, g, fact, what, list, Slices)
	}
	if ok {
		g.Count(what, len(items))
	}
	for i := range items {
		for _, e := range items[i].Endpoints {
			if isOfAPIServers(&items[i]) {
				g.Snap.APIServers = append(g.Snap.APIServers, e.Addresses...)
			}
			add(ServiceOf(&items[i]), e.Conditions.Ready, e.TargetRef, e.Addresses)
		}
	}
	return ok
}

// Slices are the items of a list.
func Slices(l *discoveryv1.EndpointSliceList) []discoveryv1.EndpointSlice { return l.Items }

// OldSlices are those of v1beta1, as far as they are read.
func OldSlices(l *discoveryv1beta1.EndpointSliceList) []discoveryv1.EndpointSlice {
	out := make([]discoveryv1.EndpointSlice, 0, len(l.Items))
	for i := range l.Items {
		slice := discoveryv1.EndpointSlice{ObjectMeta: l.Items[i].ObjectMeta}
		for _, e := range l.Items[i].Endpoints {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses:  e.Addresses,
				TargetRef:  e.TargetRef,
				Conditions: discoveryv1.EndpointConditions{Ready: e.Conditions.Ready},
			})
		}
		out = append(out, slice)
	}
	return out
}

// ServiceOf returns the Service of a slice as namespace/name.
func ServiceOf(slice *discoveryv1.EndpointSlice) string {
	return slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
}

// isOfAPIServers reports whether an EndpointSlice is the one that the API servers write. Another one of the same
// Service belongs to another program.
func isOfAPIServers(slice metav1.Object) bool {
	return slice.GetNamespace() == hostproof.Namespace && slice.GetName() == hostproof.Slice
}

// EndpointSet holds the ready endpoints of Services, each once: a pod with two addresses is in two slices.
type EndpointSet map[string]map[string]bool

// Add adds the endpoints of a slice that are ready.
func (s EndpointSet) Add(service string, ready *bool, target *corev1.ObjectReference, addresses []string) {
	if !ptr.Deref(ready, true) { // unknown counts as ready, as it does for the API server
		return
	}
	who := fmt.Sprint(addresses)
	if target != nil {
		who = target.Kind + "/" + target.Namespace + "/" + target.Name
	}
	if s[service] == nil {
		s[service] = map[string]bool{}
	}
	s[service][who] = true
}

// Count returns how many endpoints each Service has.
func (s EndpointSet) Count() map[string]int {
	out := map[string]int{}
	for service, endpoints := range s {
		out[service] = len(endpoints)
	}
	return out
}
