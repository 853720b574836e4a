package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Names of the API objects that a migration makes. Existing roles are never changed: rules are added beside them.
const (
	Namespace   = "kube-system"
	Observer    = "transplant-observer"
	MigrationRB = "transplant-leader-migration"
	CCMAccount  = "cloud-controller-manager"
	CCMRole     = "transplant-cloud-controller-manager"
	CCMState    = statePrefix + ProviderAWS        // where our manager on AWS notes which load balancers are in line
	TokenSecret = "cloud-controller-manager-token" // of earlier versions: it never expires
	AccountRef  = "ServiceAccount/" + Namespace + "/" + CCMAccount
	kcmUser     = "system:kube-controller-manager"
	statePrefix = "transplant-service-state-"
)

// StateName is the ConfigMap in which our manager of a provider notes which load balancers are in line.
func StateName(provider string) string { return statePrefix + provider }

// tokenResource is where tokens of ServiceAccounts are asked for.
const tokenResource = "serviceaccounts/token"

type object = map[string]any

func meta(name, namespace string) object {
	m := object{"name": name, "labels": object{"app.kubernetes.io/managed-by": "transplant"}}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return m
}

func rule(groups, resources, verbs []string, names ...string) object {
	r := object{"apiGroups": groups, "resources": resources, "verbs": verbs}
	if len(names) > 0 {
		r["resourceNames"] = names
	}
	return r
}

func account(name string) object {
	return object{"kind": "ServiceAccount", "name": name, "namespace": Namespace}
}

func user(name string) object {
	return object{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
}

func ref(kind, name string) object {
	return object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
}

func rbac(kind, name, namespace string, more object) object {
	o := object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta(name, namespace)}
	for k, v := range more {
		o[k] = v
	}
	return o
}

// observerObjects let transplant read the managers' /metrics, and nothing else, with a token of their own.
func observerObjects() []object {
	return []object{
		rbac("ClusterRole", Observer, "", object{"rules": []object{{"nonResourceURLs": []string{"/metrics"}, "verbs": []string{"get"}}}}),
		rbac("ClusterRoleBinding", Observer, "", object{"roleRef": ref("ClusterRole", Observer), "subjects": []object{account(Observer)}}),
		// Last: a manager that is asked before the account has its rights remembers the refusal for ten seconds.
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(Observer, Namespace)},
	}
}

// migrationObjects grant both managers the migration lease. Without them the KCM logs "forbidden" and runs no cloud loop while every health
// check is green; the documented merge patch would replace the rules of the built-in role, and RBAC's reconciliation would take it back.
func migrationObjects(lease string) []object {
	leases := []string{"leases"}
	group := []string{"coordination.k8s.io"}
	return []object{
		rbac("Role", MigrationRB, Namespace, object{"rules": []object{
			rule(group, leases, []string{"create"}), // resourceNames never match a create
			// Our manager watches its lease, so that a release is taken up at once.
			rule(group, leases, []string{"get", "list", "update", "watch"}, lease),
		}}),
		rbac("RoleBinding", MigrationRB, Namespace, object{"roleRef": ref("Role", MigrationRB), "subjects": []object{user(kcmUser), account(CCMAccount)}}),
	}
}

// GCEIdentity is the ConfigMap with the name that Google's provider gives this cluster in its cloud. Whoever made it first has said it: it is neither changed nor
// deleted, since load balancers are named by it.
const GCEIdentity = "ConfigMap/" + Namespace + "/ingress-uid"

// identity is that of the cloud-controller-manager of this plan.
func (b *builder) identity() []object {
	objects := identityObjects(b.provider.Name, b.renewsToken())
	for _, o := range notebooks(b.provider.Name, b.snap.Cluster.UID) {
		if b.program.ours || Ref(o) == GCEIdentity {
			objects = append(objects, o)
		}
	}
	return objects
}

// notebooks are the ConfigMaps that a manager writes. They are made with its rights, so that it needs no right to create any: that right cannot be limited to names, and
// who may create a ConfigMap in kube-system may say there what others believe.
func notebooks(provider, uid string) []object {
	out := []object{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(StateName(provider), Namespace)}}
	if provider == providerGCE {
		sum := sha256.Sum256([]byte(GCEIdentity + uid))
		id := hex.EncodeToString(sum[:8])
		out = append(out, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("ingress-uid", Namespace), "data": object{"uid": id, "provider-uid": id}})
	}
	return out
}

// providerRules are what a provider's own code asks the API for beside its loops, in the whole cluster and in kube-system.
//
// azure: services with externalTrafficPolicy Local are followed by their endpoint slices (cloud-provider-azure pkg/provider/azure_local_services.go).
// gce: the identity of the cluster is ConfigMap ingress-uid, which it looks at by its name (gce_clusterid.go) and would create with any name. vsphere: its config may name a Secret with the credentials of vCenter
// (cloud-provider-vsphere pkg/common/credentialmanager).
func providerRules(provider string) (cluster, namespaced []object) {
	core, all := []string{""}, []string{"get", "list", "watch"}
	switch provider {
	case providerAzure:
		cluster = []object{rule([]string{"discovery.k8s.io"}, []string{"endpointslices"}, all)}
	case providerGCE:
		namespaced = []object{rule(core, []string{"configmaps"}, append([]string{"update"}, all...), "ingress-uid")}
	case providerVSphere:
		namespaced = []object{rule(core, []string{"secrets"}, all)}
	}
	return cluster, namespaced
}

// ccmObjects are those of our manager on AWS.
func ccmObjects() []object { return identityObjects(ProviderAWS, false) }

// renewsToken reports whether the manager renews its token by itself: ours, where it has one in a file of its host. The kubelet renews that of a pod of a
// DaemonSet or a Deployment.
func (b *builder) renewsToken() bool {
	return b.program.ours && b.shape == v1.ShapeStaticPod && b.snap.Cluster.Seed == ""
}

// identityObjects are the identity of the cloud-controller-manager and what its loops need, no more.
func identityObjects(provider string, renewing bool) []object {
	core, all := []string{""}, []string{"get", "list", "watch"}
	cluster, namespaced := providerRules(provider)
	if renewing {
		namespaced = append([]object{rule(core, []string{tokenResource}, []string{"create"}, CCMAccount)}, namespaced...)
	}
	return []object{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(CCMAccount, Namespace)},
		rbac("ClusterRole", CCMRole, "", object{"rules": append([]object{
			rule(core, []string{"nodes"}, append([]string{"update", "patch", "delete"}, all...)),
			rule(core, []string{"nodes/status"}, []string{"update", "patch"}),
			rule(core, []string{"services"}, append([]string{"update", "patch"}, all...)),
			rule(core, []string{"services/status"}, []string{"update", "patch"}),
			rule(core, []string{"events"}, []string{"create", "patch", "update"}),
			rule([]string{"authentication.k8s.io"}, []string{"tokenreviews"}, []string{"create"}),
			rule([]string{"authorization.k8s.io"}, []string{"subjectaccessreviews"}, []string{"create"}),
		}, cluster...)}),
		rbac("ClusterRoleBinding", CCMRole, "", object{"roleRef": ref("ClusterRole", CCMRole), "subjects": []object{account(CCMAccount)}}),
		rbac("Role", CCMRole, Namespace, object{"rules": append([]object{
			rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"create"}),
			rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"get", "list", "update", "watch"}, CCM),
			// Which load balancers are in line: without it, each new leader ensures them all. The plan makes it.
			rule(core, []string{"configmaps"}, []string{"get", "update"}, StateName(provider)),
			rule(core, []string{"configmaps"}, all, "extension-apiserver-authentication"),
		}, namespaced...)}),
		rbac("RoleBinding", CCMRole, Namespace, object{"roleRef": ref("Role", CCMRole), "subjects": []object{account(CCMAccount)}}),
	}
}

// olderTokenSecret is the Secret with a token that never expires, as earlier versions of this program made it.
func olderTokenSecret() object {
	m := meta(TokenSecret, Namespace)
	m["annotations"] = object{"kubernetes.io/service-account.name": CCMAccount}
	return object{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": m}
}

// olderRole is the Role of the manager as earlier versions of this program made it: a migration that one of them has begun is gone on with by this one.
func olderRole(provider string) object {
	core, all := []string{""}, []string{"get", "list", "watch"}
	_, namespaced := providerRules(provider)
	if provider == providerGCE {
		namespaced = []object{rule(core, []string{"configmaps"}, append([]string{"update"}, all...))}
	}
	return rbac("Role", CCMRole, Namespace, object{"rules": append([]object{
		rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"create"}),
		rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"get", "list", "update", "watch"}, CCM),
		rule(core, []string{"configmaps"}, []string{"create"}),
		rule(core, []string{"configmaps"}, []string{"get", "update"}, StateName(provider)),
		rule(core, []string{"configmaps"}, all, "extension-apiserver-authentication"),
	}, namespaced...)})
}

// Ref names an object as Kind/namespace/name or Kind/name.
func Ref(o map[string]any) string {
	m := o["metadata"].(object)
	if ns, ok := m["namespace"]; ok {
		return fmt.Sprintf("%s/%s/%s", o["kind"], ns, m["name"])
	}
	return fmt.Sprintf("%s/%s", o["kind"], m["name"])
}

// ObjectRefs lists every object that a plan may make, for the snapshot, but Secrets: to ask whether one is there is to be given what it holds, and who plans
// needs no credential.
func ObjectRefs() []string {
	var out []string
	for _, o := range append(append(observerObjects(), migrationObjects(DefaultLease)...), ccmObjects()...) {
		if o["kind"] != "Secret" {
			out = append(out, Ref(o))
		}
	}
	return out
}

func (b *builder) ensure(phase, why string, objects []object) {
	for _, o := range objects {
		r := Ref(o)
		b.add(v1.Step{
			ID: "create/" + r, Phase: phase, Kind: v1.StepEnsureObject, Title: "create " + r, Why: why, Ref: r, Object: mustJSON(o),
			Undo: "delete it, if this migration made it", EstimateSeconds: 0.1, Changes: []v1.Change{{Field: r, After: "created"}},
		})
	}
}

// ObserverObjects are the account that may read the managers' /metrics, and its right.
func ObserverObjects() []map[string]any { return observerObjects() }
