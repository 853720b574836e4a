package permission

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

const (
	groupRBAC         = "rbac.authorization.k8s.io"
	groupCoordination = "coordination.k8s.io"
	groupApps         = "apps"
	groupPolicy       = "policy"
)

// alwaysNeeded is what every apply and every rollback do to the API, whatever their steps are.
var alwaysNeeded = []collect.Need{
	{Verbs: []string{"get"}, Resource: "namespaces", Name: component.Namespace},
	{Verbs: []string{"get", "list"}, Resource: "nodes"},
	{Verbs: []string{"list"}, Resource: "services"},
	{Verbs: []string{"get", "list"}, Resource: "pods", Namespace: component.Namespace},
	{Verbs: []string{"create", "delete", "get", "update"}, Resource: "configmaps", Namespace: component.Namespace},
	{
		Verbs:     []string{"create"},
		Resource:  "serviceaccounts/token",
		Namespace: component.Namespace,
		Name:      "transplant-observer",
	},
	{Verbs: []string{"create"}, Resource: "serviceaccounts/token", Namespace: component.Namespace, Name: component.CCM},
	{
		Verbs:     []string{"create", "delete", "get", "list", "update"},
		Group:     groupCoordination,
		Resource:  "leases",
		Namespace: component.Namespace,
	},
	// a kubelet is back
	{Verbs: []string{"get"}, Group: groupCoordination, Resource: "leases", Namespace: "kube-node-lease"},
}

// apiServersNeed is for the proof that a host is of the control plane.
var apiServersNeed = collect.Need{
	Verbs:     []string{"get"},
	Group:     "discovery.k8s.io",
	Resource:  "endpointslices",
	Namespace: hostproof.Namespace,
	Name:      hostproof.Slice,
}

// ReasonNeeds are what says why a pod that is waited for does not run. Without them less is said and nothing fails, so
// that no check asks for them.
var ReasonNeeds = []collect.Need{
	{Verbs: []string{"list"}, Resource: "events", Namespace: component.Namespace},
	{Verbs: []string{"get"}, Resource: "pods/log", Namespace: component.Namespace},
}

// DefaultNeeds are what an apply and its rollback do to the API where the plan is not known yet, resource by resource.
var DefaultNeeds = mergeNeeds(slices.Concat(alwaysNeeded, []collect.Need{
	apiServersNeed,
	{Verbs: []string{"create", "delete", "get"}, Resource: "serviceaccounts", Namespace: component.Namespace},
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "roles", Namespace: component.Namespace},
	{
		Verbs:     []string{"create", "delete", "get"},
		Group:     groupRBAC,
		Resource:  "rolebindings",
		Namespace: component.Namespace,
	},
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "clusterroles"},
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "clusterrolebindings"},
	{Verbs: []string{"escalate"}, Group: groupRBAC, Resource: "roles", Namespace: component.Namespace},
	{Verbs: []string{"bind"}, Group: groupRBAC, Resource: "roles", Namespace: component.Namespace},
	{Verbs: []string{"escalate"}, Group: groupRBAC, Resource: "clusterroles"},
	{Verbs: []string{"bind"}, Group: groupRBAC, Resource: "clusterroles"},
}))

// NeedsOf are what these steps do to the API, and what every apply does; by resource, then namespace and name.
func NeedsOf(steps []v1.Step) []collect.Need {
	needs := slices.Clone(alwaysNeeded)
	for _, s := range steps {
		needs = append(needs, needsOf(s)...)
	}
	return mergeNeeds(needs)
}

func needsOf(s v1.Step) []collect.Need {
	var out []collect.Need
	switch s.Kind {
	case v1.StepEnsureObject:
		out = created(s)
	case v1.StepDeleteObject:
		out = []collect.Need{about(s.Ref, "get", "delete")}
	case v1.StepPatchObject, v1.StepUnpatchObject:
		// A patch is worked out against what is there and sent as an update, which a change in between makes fail.
		out = []collect.Need{about(s.Ref, "get", "update")}
	case v1.StepScale, v1.StepEditWorkload:
		out = append(rolledOut(s.Ref), about(s.Ref, "get", "update"))
	case v1.StepReplacePod:
		out = []collect.Need{
			about(s.Ref, "get"),
			{Verbs: []string{"list"}, Group: groupApps, Resource: "controllerrevisions", Namespace: about(s.Ref).Namespace},
			{Verbs: []string{"get", "list", "delete"}, Resource: "pods", Namespace: about(s.Ref).Namespace},
		}
	case v1.StepInitializeNode:
		out = []collect.Need{{Verbs: []string{"get", "update"}, Resource: "nodes"}}
	case v1.StepWriteFile,
		v1.StepRemoveFile,
		v1.StepEditManifest,
		v1.StepAddManifest,
		v1.StepRemoveManifest,
		v1.StepRestoreManifest,
		v1.StepKubelet,
		v1.StepVerify,
		v1.StepEditUnit,
		v1.StepStopUnit,
		v1.StepStartUnit,
		v1.StepCopyFile,
		v1.StepAwait:
		if s.Derive == "ccm-kubeconfig" {
			// of an earlier version's plan
			out = []collect.Need{
				{
					Verbs:     []string{"get"},
					Resource:  "secrets",
					Namespace: component.Namespace,
					Name:      "cloud-controller-manager-token",
				},
			}
		}
	}
	if s.Host != "" && (s.Derive != "" || s.Kind == v1.StepAddManifest) {
		out = append(out, apiServersNeed)
	}
	if s.Kind == v1.StepKubelet { // what its node was like before and is afterwards
		out = append(
			out,
			collect.Need{Verbs: []string{"list"}, Resource: "pods"},
			collect.Need{Verbs: []string{"get"}, Group: "storage.k8s.io", Resource: "csinodes"},
		)
	}
	if s.Drain || changesMounter(s) {
		out = append(out,
			collect.Need{Verbs: []string{"update"}, Resource: "nodes"}, // cordon
			collect.Need{Verbs: []string{"list"}, Resource: "pods"},
			collect.Need{Verbs: []string{"create"}, Resource: "pods/eviction"},
			// which budget keeps a pod
			collect.Need{Verbs: []string{"list"}, Group: groupPolicy, Resource: "poddisruptionbudgets"})
	}
	return out
}

// changesMounter reports whether a step makes a kubelet leave volumes of an in-tree plugin to CSI, or takes that back.
// A node is then drained where a volume has come since the plan was made.
func changesMounter(s v1.Step) bool {
	return s.Kind == v1.StepKubelet && slices.ContainsFunc(s.Changes, func(c v1.Change) bool {
		return c.Before != c.After && strings.Contains(c.Field+c.Before+c.After, gatesOfCSI)
	})
}

// gatesOfCSI begins the names of the gates of KEP-625.
const gatesOfCSI = "CSIMigration"

// created are the needs of an object that a step creates and its undoing deletes. To create a role, the caller must
// have its rights, or escalate; to create a binding, the rights of the role, or bind.
func created(s v1.Step) []collect.Need {
	n := about(s.Ref, "create")
	n.Name = "" // a right to create cannot be limited to a name
	out := []collect.Need{n, about(s.Ref, "get", "delete")}
	switch n.Resource {
	case "roles", "clusterroles":
		out = append(
			out,
			collect.Need{
				Verbs:     []string{"escalate"},
				Group:     n.Group,
				Resource:  n.Resource,
				Namespace: n.Namespace,
				Name:      about(s.Ref).Name,
			},
		)
	case "rolebindings", "clusterrolebindings":
		out = append(out, bindingOf(s, n.Namespace))
	case "daemonsets", "deployments":
		out = append(out, rolledOut(s.Ref)...)
		if n.Resource == "deployments" && s.Component == component.CCM { // it is tried in a pod first
			out = append(out, collect.Need{Verbs: []string{"create", "get", "delete"}, Resource: "pods", Namespace: n.Namespace})
		}
	}
	return out
}

// bindingOf is the need to bind the role that a binding names.
func bindingOf(s v1.Step, ns string) collect.Need {
	var binding struct {
		RoleRef struct{ Kind, Name string } `json:"roleRef"`
	}
	_ = json.Unmarshal([]byte(s.Object), &binding) // an object that is no JSON is refused with the plan
	if binding.RoleRef.Kind == "ClusterRole" {
		return collect.Need{
			Verbs:    []string{"bind"},
			Group:    groupRBAC,
			Resource: "clusterroles",
			Name:     binding.RoleRef.Name,
		}
	}
	return collect.Need{
		Verbs:     []string{"bind"},
		Group:     groupRBAC,
		Resource:  "roles",
		Namespace: ns,
		Name:      binding.RoleRef.Name,
	}
}

// rolledOut is what waiting for a workload's pods takes.
func rolledOut(ref string) []collect.Need {
	return []collect.Need{{Verbs: []string{"get", "list"}, Resource: "pods", Namespace: about(ref).Namespace}}
}

// kinds of objects that steps are about.
var kinds = map[string]struct{ group, resource string }{
	"ClusterRole":         {groupRBAC, "clusterroles"},
	"ClusterRoleBinding":  {groupRBAC, "clusterrolebindings"},
	"ConfigMap":           {"", "configmaps"},
	"DaemonSet":           {groupApps, "daemonsets"},
	"Deployment":          {groupApps, "deployments"},
	"Lease":               {groupCoordination, "leases"},
	"Node":                {"", "nodes"},
	"PersistentVolume":    {"", "persistentvolumes"},
	"PodDisruptionBudget": {groupPolicy, "poddisruptionbudgets"},
	"PriorityClass":       {"scheduling.k8s.io", "priorityclasses"},
	"Role":                {groupRBAC, "roles"},
	"RoleBinding":         {groupRBAC, "rolebindings"},
	"Secret":              {"", "secrets"},
	"Service":             {"", "services"},
	"ServiceAccount":      {"", "serviceaccounts"},
	"StatefulSet":         {groupApps, "statefulsets"},
	"StorageClass":        {"storage.k8s.io", "storageclasses"},
}

// About is a need about the object of a Ref, Kind/namespace/name or Kind/name.
func About(ref string, verbs ...string) collect.Need { return about(ref, verbs...) }

// about is a need about the object of a Ref, Kind/namespace/name or Kind/name. For a kind that is not known, the
// resource is the kind in lower case with an s. A question that is answered with no is better than one that is not
// asked.
func about(ref string, verbs ...string) collect.Need {
	parts := strings.Split(ref, "/")
	n := collect.Need{Verbs: verbs, Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		n.Namespace = parts[1]
	}
	k, ok := kinds[parts[0]]
	if !ok {
		k.resource = strings.ToLower(parts[0]) + "s"
	}
	n.Group, n.Resource = k.group, k.resource
	if n.Resource == "nodes" || n.Resource == "persistentvolumes" {
		n.Name = "" // one question for all of them: their number is the cluster's
	}
	return n
}

// mergeNeeds puts the verbs about the same thing together, and drops what a wider need has already. The right to all
// objects of a kind is one to each. Needs and verbs come out in a fixed order.
func mergeNeeds(needs []collect.Need) []collect.Need {
	type thing struct{ group, resource, namespace, name string }
	verbs := map[thing]map[string]bool{}
	for _, n := range needs {
		t := thing{n.Group, n.Resource, n.Namespace, n.Name}
		if verbs[t] == nil {
			verbs[t] = map[string]bool{}
		}
		for _, v := range n.Verbs {
			verbs[t][v] = true
		}
	}
	var out []collect.Need
	for t, asked := range verbs {
		n := collect.Need{
			Group:     t.group,
			Resource:  t.resource,
			Namespace: t.namespace,
			Name:      t.name,
		}
		for _, verb := range slices.Sorted(maps.Keys(asked)) {
			wider := []thing{
				{t.group, t.resource, t.namespace, ""},
				{t.group, t.resource, "", t.name},
				{t.group, t.resource, "", ""},
			}
			if !slices.ContainsFunc(wider, func(w thing) bool { return w != t && verbs[w][verb] }) {
				n.Verbs = append(n.Verbs, verb)
			}
		}
		if len(n.Verbs) > 0 {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b collect.Need) int {
		return strings.Compare(
			strings.Join([]string{a.Group, a.Resource, a.Namespace, a.Name}, "\x00"),
			strings.Join([]string{b.Group, b.Resource, b.Namespace, b.Name}, "\x00"),
		)
	})
	return out
}

// PodAccessNeeds are what reaching hosts through pods does to the API; deploy/rbac/host-access.yaml grants exactly
// this. Pods that are labelled as ours are made, asked and taken away in kube-system, and one Job that they belong to.
var PodAccessNeeds = []collect.Need{
	{Verbs: []string{"get", "list"}, Resource: "nodes"}, // which hosts there are, and whether their kubelets report
	{Verbs: []string{"create", "delete", "get", "list"}, Resource: "pods", Namespace: component.Namespace},
	{Verbs: []string{"create", "get"}, Resource: "pods/exec", Namespace: component.Namespace},
	{Verbs: []string{"list"}, Resource: "events", Namespace: component.Namespace},
	{
		Verbs:     []string{"create", "delete", "get", "list", "patch"},
		Group:     "batch",
		Resource:  "jobs",
		Namespace: component.Namespace,
	},
}

// WithPodAccess adds what reaching hosts through pods takes.
func WithPodAccess(needs []collect.Need) []collect.Need {
	return mergeNeeds(slices.Concat(needs, PodAccessNeeds))
}
