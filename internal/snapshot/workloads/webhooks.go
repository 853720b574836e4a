package workloads

import (
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// GatherWebhooks lists both kinds of admission configurations.
func GatherWebhooks(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("webhooks", collect.NoAPI)
		return
	}
	api := g.Kube.AdmissionregistrationV1()
	validating, _ := collect.List(
		ctx,
		g,
		"webhooks/validating",
		"validatingwebhookconfigurations",
		api.ValidatingWebhookConfigurations().List,
		func(l *admissionv1.ValidatingWebhookConfigurationList) []admissionv1.ValidatingWebhookConfiguration {
			return l.Items
		},
	)
	var out []v1.Webhook
	for _, c := range validating {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			out = append(
				out,
				webhook(
					"Validating",
					c.Name,
					w.Name,
					w.FailurePolicy,
					w.TimeoutSeconds,
					w.Rules,
					w.NamespaceSelector,
					w.ObjectSelector,
					w.ClientConfig,
				),
			)
		}
	}
	mutating, _ := collect.List(
		ctx,
		g,
		"webhooks/mutating",
		"mutatingwebhookconfigurations",
		api.MutatingWebhookConfigurations().List,
		func(l *admissionv1.MutatingWebhookConfigurationList) []admissionv1.MutatingWebhookConfiguration {
			return l.Items
		},
	)
	for _, c := range mutating {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			out = append(
				out,
				webhook(
					"Mutating",
					c.Name,
					w.Name,
					w.FailurePolicy,
					w.TimeoutSeconds,
					w.Rules,
					w.NamespaceSelector,
					w.ObjectSelector,
					w.ClientConfig,
				),
			)
		}
	}
	slices.SortFunc(out, func(a, b v1.Webhook) int { return strings.Compare(a.Ref, b.Ref) })
	g.Snap.Webhooks = out
}

func webhook(
	kind, configuration, name string,
	policy *admissionv1.FailurePolicyType,
	timeout *int32,
	rules []admissionv1.RuleWithOperations,
	namespaces, objects *metav1.LabelSelector,
	client admissionv1.WebhookClientConfig,
) v1.Webhook {
	out := v1.Webhook{
		Ref: kind + "WebhookConfiguration/" + configuration + "/" + name,
		// the API server's defaults
		FailurePolicy: string(ptr.Deref(policy, admissionv1.Fail)), TimeoutSeconds: ptr.Deref(timeout, 10),
		NamespaceSelector: selector(namespaces), ObjectSelector: selector(objects),
	}
	switch {
	case client.Service != nil:
		out.Service = client.Service.Namespace + "/" + client.Service.Name
	case client.URL != nil:
		out.URL = mask.URL(*client.URL)
	}
	for _, r := range rules {
		rule := v1.WebhookRule{
			Groups:    r.APIGroups,
			Resources: r.Resources,
			Scope:     string(ptr.Deref(r.Scope, admissionv1.AllScopes)),
		}
		for _, o := range r.Operations {
			rule.Operations = append(rule.Operations, string(o))
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}

// selector is a label selector as kubectl -l takes it; empty selects everything.
func selector(s *metav1.LabelSelector) string {
	if s == nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "invalid: " + err.Error()
	}
	return parsed.String()
}

// GatherWebhookEndpoints finds out how many endpoints the webhooks' Services have ready, and which workloads are behind
// them. One list has all of them: it is limited to these Services by the label that names a slice's Service.
func GatherWebhookEndpoints(ctx context.Context, g *collect.Collector) {
	services := webhookServices(g)
	if len(services) == 0 {
		return
	}
	ready, err := readyEndpoints(ctx, g, services)
	if err != nil {
		g.Unknown("webhooks/endpoints", g.Describe("reading the endpoints of the webhooks' services", err))
	}
	behind := newBackends(g, services)
	for i := range g.Snap.Webhooks {
		w := &g.Snap.Webhooks[i]
		if w.Service == "" {
			continue
		}
		if err == nil {
			w.Ready = ptr.To(ready[w.Service])
		}
		w.Backend = behind.workloadFor(w.Service)
	}
}

// webhookServices are the Services behind webhooks, namespace/name, sorted.
func webhookServices(g *collect.Collector) []string {
	var out []string
	for _, w := range g.Snap.Webhooks {
		if w.Service != "" {
			out = append(out, w.Service)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readyEndpoints counts the ready endpoints of Services by namespace/name. EndpointSlices are asked for in the version
// that is served (v1 since 1.21, v1beta1 until 1.24). Without either, Endpoints are asked for, one by one: there are as
// many as Services with webhooks.
func readyEndpoints(ctx context.Context, g *collect.Collector, services []string) (map[string]int, error) {
	var names []string
	for _, s := range services {
		_, name, _ := strings.Cut(s, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	only := discoveryv1.LabelServiceName + " in (" + strings.Join(slices.Compact(names), ",") + ")"
	found := objects.EndpointSet{}
	var items []discoveryv1.EndpointSlice
	var err error
	switch {
	case objects.Serves(g, "discovery.k8s.io/v1"):
		list := func(ctx context.Context, o metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
			o.LabelSelector = only
			return g.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, o)
		}
		items, err = collect.ListPages(ctx, g, list, objects.Slices)
	case objects.Serves(g, "discovery.k8s.io/v1beta1"):
		list := func(ctx context.Context, o metav1.ListOptions) (*discoveryv1beta1.EndpointSliceList, error) {
			o.LabelSelector = only
			return g.Kube.DiscoveryV1beta1().EndpointSlices(metav1.NamespaceAll).List(ctx, o)
		}
		items, err = collect.ListPages(ctx, g, list, objects.OldSlices)
	default:
		for _, s := range services {
			if err := readBetaEndpoints(ctx, g, s, found); err != nil {
				return nil, err
			}
		}
	}
	for i := range items {
		for _, e := range items[i].Endpoints {
			found.Add(objects.ServiceOf(&items[i]), e.Conditions.Ready, e.TargetRef, e.Addresses)
		}
	}
	return found.Count(), err
}

func readBetaEndpoints(ctx context.Context, g *collect.Collector, service string, found objects.EndpointSet) error {
	ctx, cancel := g.Call(ctx)
	defer cancel()
	ns, name, _ := strings.Cut(service, "/")
	e, err := g.Kube.CoreV1().Endpoints(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			found.Add(service, nil, a.TargetRef, []string{a.IP})
		}
	}
	return nil
}

// backends finds the workloads behind Services. Services and workloads may be many: each Service looks only at the
// workloads with the rarest of its labels.
type backends struct {
	g       *collect.Collector
	byLabel map[namespacedLabel][]int // positions in g.Found, ascending
	known   map[string]string         // Ref by Service
}

// namespacedLabel is a label of pods in a namespace.
type namespacedLabel struct{ namespace, key, value string }

// newBackends indexes the workloads in the namespaces of the Services.
func newBackends(g *collect.Collector, services []string) *backends {
	b := &backends{g: g, byLabel: map[namespacedLabel][]int{}, known: map[string]string{}}
	used := map[string]bool{}
	for _, s := range services {
		ns, _, _ := strings.Cut(s, "/")
		used[ns] = true
	}
	for i := range g.Found {
		w := &g.Found[i]
		if !used[w.Namespace] {
			continue
		}
		for key, value := range w.Template.Labels {
			label := namespacedLabel{w.Namespace, key, value}
			b.byLabel[label] = append(b.byLabel[label], i)
		}
	}
	return b
}

// workloadFor marks the workload whose pods a Service selects, and returns its Ref; empty when none of the listed ones
// is.
func (b *backends) workloadFor(service string) string {
	ref, known := b.known[service]
	if !known {
		ref = b.find(service)
		b.known[service] = ref
	}
	return ref
}

func (b *backends) find(service string) string {
	selects := b.g.Selectors[service]
	if len(selects) == 0 {
		return ""
	}
	ns, _, _ := strings.Cut(service, "/")
	var candidates []int
	first := true
	for key, value := range selects {
		if at := b.byLabel[namespacedLabel{ns, key, value}]; first || len(at) < len(candidates) {
			candidates, first = at, false
		}
	}
	match := labels.SelectorFromSet(selects)
	for _, i := range candidates {
		if w := &b.g.Found[i]; match.Matches(labels.Set(w.Template.Labels)) {
			w.Backs = true
			return w.Ref
		}
	}
	return ""
}
