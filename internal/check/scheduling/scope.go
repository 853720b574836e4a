package scheduling

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// vital is a kind of object without whose writes the migration, or the cluster during it, stands still.
type vital struct {
	group, resource string
	// namespaced objects are asked about only where the webhook's selector selects kube-system, in which the managers and
	// their leases are.
	namespaced bool
	// everywhere reports whether such objects are written in every namespace, so that a webhook that passes over
	// kube-system is asked all the same.
	everywhere bool
}

// vitals: what the managers, the kubelets and this tool write. Events are not one of them: no component waits for them.
var vitals = []vital{
	{group: "", resource: "nodes"},
	{group: "coordination.k8s.io", resource: "leases", namespaced: true},
	{group: "", resource: "pods", namespaced: true},
	{group: "", resource: "serviceaccounts", namespaced: true},
	{group: "", resource: "services", namespaced: true, everywhere: true},
	{group: "", resource: "configmaps", namespaced: true},
	{group: "apps", resource: "deployments", namespaced: true},
	{group: "apps", resource: "daemonsets", namespaced: true},
	{group: "rbac.authorization.k8s.io", resource: "roles", namespaced: true},
	{group: "rbac.authorization.k8s.io", resource: "clusterroles"},
}

// kubeSystem are the labels of the namespace kube-system that Kubernetes sets by itself.
func kubeSystem(f facts.Facts) labels.Set {
	if minor, ok := facts.VersionMinor(f.Cluster.Version); ok && !catalogue.NamespacesAreLabelled(minor) {
		return labels.Set{}
	}
	return labels.Set{"kubernetes.io/metadata.name": component.Namespace}
}

// asked are the resources of vitals about which a webhook is asked.
func asked(f facts.Facts, w v1.Webhook) []string {
	inSystem := selects(w.NamespaceSelector, kubeSystem(f))
	if !selects(w.ObjectSelector, labels.Set{}) {
		return nil // only objects with labels of its own
	}
	var out []string
	for _, v := range vitals {
		if v.namespaced && !v.everywhere && !inSystem {
			continue
		}
		if slices.ContainsFunc(w.Rules, func(r v1.WebhookRule) bool { return concernsResource(r, v) }) {
			out = append(out, v.resource)
		}
	}
	return out
}

// concernsResource reports whether a rule covers writes of a kind.
func concernsResource(r v1.WebhookRule, v vital) bool {
	switch {
	case !slices.Contains(r.Groups, v.group) && !slices.Contains(r.Groups, "*"):
		return false
	case r.Scope == "Namespaced" && !v.namespaced, r.Scope == "Cluster" && v.namespaced:
		return false
	case !slices.ContainsFunc(
		r.Operations,
		func(o string) bool { return o == "*" || o == "CREATE" || o == "UPDATE" || o == "DELETE" },
	):
		return false
	}
	return slices.ContainsFunc(r.Resources, func(name string) bool {
		kind, _, _ := strings.Cut(name, "/")
		return kind == "*" || kind == v.resource // nodes, nodes/status, */status, */*
	})
}

// selects reports whether a selector selects an object with these labels. One that cannot be read selects it: better
// asked about without success.
func selects(selector string, set labels.Set) bool {
	parsed, err := labels.Parse(selector)
	return err != nil || parsed.Matches(set)
}

// isRequired reports whether a request fails when the webhook does not answer.
func isRequired(w v1.Webhook) bool { return w.FailurePolicy != "Ignore" }

// webhookOf is the configuration's kind and name of a webhook's Ref, for kubectl.
func webhookOf(ref string) string {
	kind, rest, _ := strings.Cut(ref, "/")
	name, _, _ := strings.Cut(rest, "/")
	return shell.Quote(strings.ToLower(kind)) + " " + shell.Quote(name)
}

// patchWebhook is the command that changes one webhook of a configuration and leaves the others as they are: they are
// merged by their names.
func patchWebhook(ref, change string) string {
	return fmt.Sprintf(
		"kubectl patch %s -p %s",
		webhookOf(ref),
		shell.Quote(fmt.Sprintf(`{"webhooks":[{"name":"%s",%s}]}`, ref[strings.LastIndex(ref, "/")+1:], change)),
	)
}

// eachWebhook is the finding of a check of webhooks that are asked about vital objects. The judge returns what is wrong
// with one, or ""; n is how many webhooks there are that are asked.
func eachWebhook(
	f facts.Facts,
	judge func(w v1.Webhook, about string) string,
) (bad findings.Problems, n int, finding v1.Finding, ok bool) {
	if finding, missing := f.Missing("webhooks"); missing {
		return bad, 0, finding, false
	}
	for _, w := range f.Webhooks {
		about := strings.Join(asked(f, w), ", ")
		if about == "" {
			continue
		}
		n++
		if complaint := judge(w, about); complaint != "" {
			bad.Add(w.Ref, "%s: %s", w.Ref, complaint)
		}
	}
	return bad, n, v1.Finding{}, true
}
