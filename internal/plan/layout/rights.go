package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
)

// NodeManagerObjects returns the account and the rights of Azure's cloud-node-manager.
func NodeManagerObjects() []Object {
	subject := Object{"kind": "ServiceAccount", "name": NodeManager, "namespace": component.Namespace}
	return []Object{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": Metadata(NodeManager, component.Namespace)},
		rbac("ClusterRole", nodeManagerRole, "", Object{"rules": []Object{
			rule([]string{""}, []string{"nodes"}, []string{"get", "list", "watch", "update", "patch"}),
			rule([]string{""}, []string{"nodes/status"}, []string{"patch"}),
		}}),
		rbac(
			"ClusterRoleBinding",
			nodeManagerRole,
			"",
			Object{"roleRef": ref("ClusterRole", nodeManagerRole), "subjects": []Object{subject}},
		),
	}
}

// TokenResource is where tokens of ServiceAccounts are asked for.
const TokenResource = "serviceaccounts/token"

func rule(groups, resources, verbs []string, names ...string) Object {
	r := Object{"apiGroups": groups, "resources": resources, "verbs": verbs}
	if len(names) > 0 {
		r["resourceNames"] = names
	}
	return r
}

func account(name string) Object {
	return Object{"kind": "ServiceAccount", "name": name, "namespace": component.Namespace}
}

func user(name string) Object {
	return Object{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
}

func ref(kind, name string) Object {
	return Object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
}

func rbac(kind, name, namespace string, more Object) Object {
	o := Object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": Metadata(name, namespace)}
	for k, v := range more {
		o[k] = v
	}
	return o
}

// ObserverObjects let transplant read the managers' /metrics, and nothing else, with a token of their own.
func ObserverObjects() []Object {
	return []Object{
		rbac(
			"ClusterRole",
			Observer,
			"",
			Object{"rules": []Object{{"nonResourceURLs": []string{"/metrics"}, "verbs": []string{"get"}}}},
		),
		rbac(
			"ClusterRoleBinding",
			Observer,
			"",
			Object{"roleRef": ref("ClusterRole", Observer), "subjects": []Object{account(Observer)}},
		),
		// Last: a manager that is asked before the account has its rights remembers the refusal for ten seconds.
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": Metadata(Observer, component.Namespace)},
	}
}

// MigrationObjects grant both managers the migration lease. Without them the KCM logs "forbidden" and runs no cloud
// loop while every health check is green. The documented merge patch would replace the rules of the built-in role, and
// RBAC's reconciliation would take it back.
func MigrationObjects(lease string) []Object {
	leases := []string{"leases"}
	group := []string{"coordination.k8s.io"}
	return []Object{
		rbac("Role", MigrationRole, component.Namespace, Object{"rules": []Object{
			rule(group, leases, []string{"create"}), // resourceNames never match a create
			// Our manager watches its lease, so that a release is taken up at once.
			rule(group, leases, []string{"get", "list", "update", "watch"}, lease),
		}}),
		rbac(
			"RoleBinding",
			MigrationRole,
			component.Namespace,
			Object{"roleRef": ref("Role", MigrationRole), "subjects": []Object{user(component.UserKCM), account(CCMAccount)}},
		),
	}
}

// StateObjects are the ConfigMaps that a manager writes. They are made with its rights. So it needs no right to create
// any. That right cannot be limited to names, and an account that may create a ConfigMap in kube-system may say there
// what others believe. The ConfigMap that names the cluster in the cloud is made of the cluster's UID. Without one
// it is empty, and the manager fills it: a name that two clusters share would have them share load balancers.
func StateObjects(provider, uid string) []Object {
	out := []Object{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": Metadata(StateName(provider), component.Namespace)}}
	if p, ok := cloudprovider.Lookup(provider); ok && p.Identity != "" {
		identity := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": Metadata(p.Identity, component.Namespace)}
		if uid != "" {
			sum := sha256.Sum256([]byte(CloudIdentity + uid))
			id := hex.EncodeToString(sum[:8])
			identity["data"] = Object{"uid": id, "provider-uid": id}
		}
		out = append(out, identity)
	}
	return out
}

// providerRules are what a provider's own code asks the API for next to its loops, in the whole cluster and in
// kube-system. The official program of vSphere follows all Secrets of the namespace with an informer
// (cloud-provider-vsphere pkg/common/credentialmanager); ours gets the one that is named.
func providerRules(provider string, m Manager) (cluster, namespaced []Object) {
	p, _ := cloudprovider.Lookup(provider)
	secrets := m.Secrets
	if !m.Ours {
		for _, r := range p.OfficialRights {
			cluster = append(cluster, ruleOf(r, r.Name))
		}
	}
	for _, r := range p.SystemRights {
		namespaced = append(namespaced, ruleOf(r, r.Name))
	}
	switch {
	case !p.ReadsSecret:
	case secrets.Followed:
		namespaced = append(namespaced, rule([]string{""}, []string{"secrets"}, []string{"get", "list", "watch"}))
	case secrets.Name != "":
		namespaced = append(namespaced, rule([]string{""}, []string{"secrets"}, []string{"get"}, secrets.Name))
	}
	return cluster, namespaced
}

func ruleOf(r cloudprovider.Right, names ...string) Object {
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	return rule([]string{r.Group}, []string{r.Resource}, r.Verbs, names...)
}

// Secrets are those of kube-system that a provider's own code reads.
type Secrets struct {
	// Name is the one that it gets by its name; empty for none.
	Name string
	// Followed reports whether it lists and watches all of them.
	Followed bool
}

// SecretsOf returns the Secrets that a Role of the manager lets it read by their names.
func SecretsOf(role Object) Secrets {
	rules, _ := role["rules"].([]any)
	for _, r := range rules {
		r, _ := r.(Object)
		resources, _ := r["resources"].([]any)
		names, _ := r["resourceNames"].([]any)
		if len(resources) == 1 && resources[0] == "secrets" && len(names) == 1 {
			return Secrets{Name: fmt.Sprint(names[0])}
		}
	}
	return Secrets{}
}

// ccmObjects are those of our manager on AWS.
func ccmObjects() []Object { return IdentityObjects(cloudprovider.AWS, Manager{Ours: true}) }

// Manager is what the rights of a cloud-controller-manager depend on, next to its provider.
type Manager struct {
	// Ours reports whether it is built on package ccm. Managers on upstream's library write whole objects, and read them
	// first. They get what earlier versions of this program gave to ours, too.
	Ours bool
	// Deaf is that ours may not watch pods, as in earlier versions.
	Deaf bool
	// RenewsToken reports whether it asks for its own token.
	RenewsToken bool
	Secrets     Secrets
}

// IdentityObjects are the identity of the cloud-controller-manager and what its loops need, no more.
func IdentityObjects(provider string, m Manager) []Object {
	core, all := []string{""}, []string{"get", "list", "watch"}
	cluster, namespaced := providerRules(provider, m)
	if m.Ours && !m.Deaf {
		// The kubelet of a leader that crashed says so in its pod, and the lease need not be waited for. The names of pods
		// are not known before.
		namespaced = append([]Object{rule(core, []string{"pods"}, []string{"watch"})}, namespaced...)
	}
	if m.RenewsToken {
		namespaced = append([]Object{rule(core, []string{TokenResource}, []string{"create"}, CCMAccount)}, namespaced...)
	}
	return []Object{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": Metadata(CCMAccount, component.Namespace)},
		rbac("ClusterRole", CCMRole, "", Object{"rules": append(m.loopRules(), cluster...)}),
		rbac(
			"ClusterRoleBinding",
			CCMRole,
			"",
			Object{"roleRef": ref("ClusterRole", CCMRole), "subjects": []Object{account(CCMAccount)}},
		),
		rbac("Role", CCMRole, component.Namespace, Object{"rules": append([]Object{
			rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"create"}),
			rule([]string{"coordination.k8s.io"}, []string{"leases"}, m.leaseVerbs(), component.CCM),
			// Which load balancers are in line: without it, each new leader ensures them all. The plan makes it.
			rule(core, []string{"configmaps"}, []string{"get", "update"}, StateName(provider)),
			rule(core, []string{"configmaps"}, all, "extension-apiserver-authentication"),
		}, namespaced...)}),
		rbac(
			"RoleBinding",
			CCMRole,
			component.Namespace,
			Object{"roleRef": ref("Role", CCMRole), "subjects": []Object{account(CCMAccount)}},
		),
	}
}

// loopRules are the rights of the loops. Ours patch what they change, and read Services from an informer alone.
func (m Manager) loopRules() []Object {
	core, create := []string{""}, []string{"create"}
	nodes, status := []string{"patch", "delete", "get", "list", "watch"}, []string{"patch"}
	services, events := []string{"list", "watch"}, []string{"create", "patch"}
	if !m.Ours {
		nodes, status = append([]string{"update"}, nodes...), []string{"update", "patch"}
		services, events = []string{"update", "patch", "get", "list", "watch"}, []string{"create", "patch", "update"}
	}
	return []Object{
		rule(core, []string{"nodes"}, nodes),
		rule(core, []string{"nodes/status"}, status),
		rule(core, []string{"services"}, services),
		rule(core, []string{"services/status"}, status),
		rule(core, []string{"events"}, events),
		rule([]string{"authentication.k8s.io"}, []string{"tokenreviews"}, create),
		rule([]string{"authorization.k8s.io"}, []string{"subjectaccessreviews"}, create),
	}
}

// leaseVerbs are those of the manager's own lease. Ours watches it, so that a release is taken up at once.
func (m Manager) leaseVerbs() []string {
	if m.Ours {
		return []string{"get", "update", "watch"}
	}
	return []string{"get", "list", "update", "watch"}
}

// OlderTokenSecret is the Secret with a token that never expires, as earlier versions of this program made it.
func OlderTokenSecret() Object {
	m := Metadata(TokenSecret, component.Namespace)
	m["annotations"] = Object{"kubernetes.io/service-account.name": CCMAccount}
	return Object{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": m}
}

// OlderRole is the Role of the manager as earlier versions of this program made it. This version goes on with a
// migration that one of them has begun.
func OlderRole(provider string) Object {
	core, all := []string{""}, []string{"get", "list", "watch"}
	_, namespaced := providerRules(provider, Manager{Secrets: Secrets{Followed: true}})
	for _, r := range namespaced {
		delete(r, "resourceNames")
	}
	return rbac("Role", CCMRole, component.Namespace, Object{"rules": append([]Object{
		rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"create"}),
		rule([]string{"coordination.k8s.io"}, []string{"leases"}, []string{"get", "list", "update", "watch"}, component.CCM),
		rule(core, []string{"configmaps"}, []string{"create"}),
		rule(core, []string{"configmaps"}, []string{"get", "update"}, StateName(provider)),
		rule(core, []string{"configmaps"}, all, "extension-apiserver-authentication"),
	}, namespaced...)})
}

// ObjectRefs lists every object that a plan may make, for the snapshot, but Secrets. To ask whether a Secret is there
// is to be given what it holds, and planning needs no credential.
func ObjectRefs() []string {
	var out []string
	for _, o := range append(append(ObserverObjects(), MigrationObjects(component.MigrationLease)...), ccmObjects()...) {
		if o["kind"] != "Secret" {
			out = append(out, Ref(o))
		}
	}
	return out
}
