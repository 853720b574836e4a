package parts

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/transplant-dev/transplant/internal/component"
)

const (
	// fieldManager of what is applied.
	fieldManager = "transplant"
	// managedBy marks what is ours: a driver that another program has installed is not changed.
	managedBy      = "app.kubernetes.io/managed-by"
	clusterMark    = "%CLUSTER%"
	defaultClass   = "storageclass.kubernetes.io/is-default-class"
	oldDefault     = "storageclass.beta.kubernetes.io/is-default-class"
	credentials    = "transplant-csi-credentials" // #nosec G101 -- a name
	credentialsAre = "transplant.dev/credentials-version"
	appliedIs      = "transplant.dev/applied"
)

// Manifests returns every object of the CSI drivers of a provider for a minor of Kubernetes, as Ensure applies them, in
// order. They hold no credentials, and the StorageClass is not the default one. It fails for a provider or a minor for
// which no driver is known here.
func Manifests(provider string, minor int) ([]*unstructured.Unstructured, error) {
	drivers, ok := driversOf[provider]
	if !ok {
		return nil, fmt.Errorf("no CSI driver is known here for provider %q", provider)
	}
	var out []*unstructured.Unstructured
	for _, d := range drivers {
		objects, err := d.manifests(minor, "")
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
		if d.class.name != "" {
			class, err := d.storageClass(false)
			if err != nil {
				return nil, err
			}
			out = append(out, class)
		}
	}
	return out, nil
}

// manifests are the objects of a driver but its StorageClass, in the order in which they are applied: the workloads
// last.
func (d driver) manifests(minor int, cluster string) ([]*unstructured.Unstructured, error) {
	if d.oldNode != nil && minor < d.oldNodeUntil {
		d.node = *d.oldNode
	}
	i, ok := imagesAt(d.name, minor)
	if !ok {
		return nil, fmt.Errorf(
			"no release of the CSI driver %s is known here for Kubernetes 1.%d: install one yourself, or set spec.disableCsiDriver",
			d.name,
			minor,
		)
	}
	objects := []runtime.Object{
		&storagev1.CSIDriver{
			TypeMeta:   kind(storagev1.SchemeGroupVersion, "CSIDriver"),
			ObjectMeta: d.meta(d.name, ""),
			Spec:       d.spec,
		},
	}
	objects = append(objects, d.rights("controller", d.controllerRules())...)
	objects = append(objects, d.rights("node", d.nodeRights)...)
	objects = append(objects, d.local()...)
	if d.settings != nil {
		objects = append(
			objects,
			&corev1.ConfigMap{
				TypeMeta:   kind(corev1.SchemeGroupVersion, "ConfigMap"),
				ObjectMeta: d.meta(d.settings.name, component.Namespace),
				Data:       d.settings.data,
			},
		)
	}
	objects = append(objects, d.controllerWorkload(i, cluster), d.nodeWorkload(i, cluster))
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		u, err := applied(o)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// applied is an object as it is sent: without status and times, which are the server's.
func applied(o runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", o, err)
	}
	delete(m, "status")
	strip(m)
	return &unstructured.Unstructured{Object: m}, nil
}

// strip removes what is empty: an applied field is owned, and an empty one would be taken from its owner.
func strip(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			if len(v) == 0 && k != "emptyDir" {
				delete(m, k)
				continue
			}
			strip(v)
			if len(v) == 0 && k != "emptyDir" {
				delete(m, k)
			}
		case []any:
			for _, e := range v {
				if e, ok := e.(map[string]any); ok {
					strip(e)
				}
			}
		}
	}
}

func kind(gv schema.GroupVersion, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gv.String(), Kind: name}
}

func (d driver) meta(name, ns string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: ns,
		Labels:    map[string]string{managedBy: fieldManager, "app.kubernetes.io/name": d.short},
	}
}

// storageClass is the class that people use for new volumes. It is made once: most of a StorageClass cannot be changed.
func (d driver) storageClass(usual bool) (*unstructured.Unstructured, error) {
	c := &storagev1.StorageClass{
		TypeMeta: kind(
			storagev1.SchemeGroupVersion,
			"StorageClass",
		),
		ObjectMeta:  d.meta(d.class.name, ""),
		Provisioner: d.name,
		Parameters:  d.class.parameters,
		ReclaimPolicy: pointer(
			corev1.PersistentVolumeReclaimDelete,
		),
		VolumeBindingMode:    pointer(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: pointer(true),
	}
	if usual {
		c.Annotations = map[string]string{defaultClass: "true"}
	}
	return applied(c)
}

var (
	see    = []string{"get", "list", "watch"}
	events = rule("", []string{"events"}, []string{"get", "list", "watch", "create", "update", "patch"})
)

// controllerRules are what the sidecars of the controller need (deploy/kubernetes/rbac.yaml of
// kubernetes-csi/external-provisioner, external-attacher and external-resizer), and what the driver needs next to them.
func (d driver) controllerRules() []rbacv1.PolicyRule {
	out := []rbacv1.PolicyRule{
		rule("", []string{"persistentvolumes"}, []string{"get", "list", "watch", "create", "update", "patch", "delete"}),
		rule("", []string{"persistentvolumeclaims"}, []string{"get", "list", "watch", "update"}),
		rule("", []string{"persistentvolumeclaims/status"}, []string{"patch"}),
		rule("", []string{"nodes", "pods"}, see),
		rule("storage.k8s.io", []string{"storageclasses", "csinodes", "volumeattributesclasses"}, see),
		events,
	}
	if !d.noAttach {
		out = append(
			out,
			rule("storage.k8s.io", []string{"volumeattachments"}, []string{"get", "list", "watch", "update", "patch"}),
			rule("storage.k8s.io", []string{"volumeattachments/status"}, []string{"patch"}),
		)
	}
	return append(out, d.controllerRights...)
}

func (d driver) account(part string) string { return d.short + "-" + part }

// rights are an account of a part, and what it may do in the cluster.
func (d driver) rights(part string, rules []rbacv1.PolicyRule) []runtime.Object {
	name := "transplant:" + d.account(part)
	out := []runtime.Object{
		&corev1.ServiceAccount{
			TypeMeta:   kind(corev1.SchemeGroupVersion, "ServiceAccount"),
			ObjectMeta: d.meta(d.account(part), component.Namespace),
		},
	}
	if len(rules) == 0 {
		return out
	}
	return append(
		out,
		&rbacv1.ClusterRole{
			TypeMeta:   kind(rbacv1.SchemeGroupVersion, "ClusterRole"),
			ObjectMeta: d.meta(name, ""),
			Rules:      rules,
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"), ObjectMeta: d.meta(name, ""),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: d.account(part), Namespace: component.Namespace}},
		},
	)
}

// local are the rights of the parts in their own namespace, and the leases by which the sidecars elect their leaders.
// The leases are made here, so that no account of a worker may make one. An account that may write any Lease of
// kube-system can free or take those of the managers of cloud loops.
func (d driver) local() []runtime.Object {
	elected := restrictToNames(rule(coordinationv1.GroupName, []string{"leases"}, []string{"get", "update",
		"patch"}), d.leaseNames()...)
	out := d.localRole("controller", append([]rbacv1.PolicyRule{elected}, d.localRights...))
	if len(d.localRights) > 0 {
		out = append(out, d.localRole("node", d.localRights)...)
	}
	for _, name := range d.leaseNames() {
		out = append(out, &coordinationv1.Lease{
			TypeMeta:   kind(coordinationv1.SchemeGroupVersion, "Lease"),
			ObjectMeta: d.meta(name, component.Namespace),
		})
	}
	return out
}

// leaseNames are those of the sidecars and of the driver. A sidecar's is the driver's name with dashes, for the
// provisioner alone without a prefix (cmd of kubernetes-csi/external-provisioner, external-attacher, external-resizer).
func (d driver) leaseNames() []string {
	name := strings.NewReplacer(".", "-", "/", "-").Replace(d.name)
	out := []string{name, "external-resizer-" + name}
	if !d.noAttach {
		out = append(out, "external-attacher-leader-"+name)
	}
	return append(out, d.elections...)
}

func (d driver) localRole(part string, rules []rbacv1.PolicyRule) []runtime.Object {
	name := "transplant:" + d.account(part)
	return []runtime.Object{
		&rbacv1.Role{
			TypeMeta:   kind(rbacv1.SchemeGroupVersion, "Role"),
			ObjectMeta: d.meta(name, component.Namespace),
			Rules:      rules,
		},
		&rbacv1.RoleBinding{
			TypeMeta: kind(rbacv1.SchemeGroupVersion, "RoleBinding"), ObjectMeta: d.meta(name, component.Namespace),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: d.account(part), Namespace: component.Namespace}},
		},
	}
}

// arguments are a program's, the cluster's mark filled in. Without a mark, what would hold it is left out. Disks with a
// name that several clusters share are worse than disks without one.
func (p program) arguments(cluster string) []string {
	out := slices.Clone(p.args)
	if cluster == "" {
		out = slices.DeleteFunc(out, func(a string) bool { return strings.Contains(a, clusterMark) })
	}
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], clusterMark, cluster)
	}
	return out
}
