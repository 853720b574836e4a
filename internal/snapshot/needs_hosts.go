package snapshot

import "slices"

// PodAccessNeeds are what reaching hosts through pods does to the API; deploy/rbac/host-access.yaml grants exactly this. Pods that are labelled as ours are
// made, asked and taken away in kube-system, and one Job that they belong to.
var PodAccessNeeds = []Need{
	{Verbs: []string{"get", "list"}, Resource: "nodes"},                                                                   // which hosts there are, and whether their kubelets report
	{Verbs: []string{"create", "delete", "get", "list"}, Resource: "pods", Namespace: namespace},                          // one for each host, and one for each change
	{Verbs: []string{"create", "get"}, Resource: "pods/exec", Namespace: namespace},                                       // get: over a websocket
	{Verbs: []string{"list"}, Resource: "events", Namespace: namespace},                                                   // why a pod does not start
	{Verbs: []string{"create", "delete", "get", "list", "patch"}, Group: "batch", Resource: "jobs", Namespace: namespace}, // what the pods belong to, and go with
}

// WithPodAccess adds what reaching hosts through pods takes.
func WithPodAccess(needs []Need) []Need { return merge(slices.Concat(needs, PodAccessNeeds)) }
