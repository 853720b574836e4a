package parts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// strong are rights on objects of any name with which root on one worker reaches what is not its own: the node parts run on every worker, the controllers
// on some.
var strong = map[string][]string{
	"secrets":                   {"get", "list", "watch", "create", "update", "patch", "delete"},
	"configmaps":                {"create", "update", "patch", "delete"},
	"pods":                      {"create", "update", "patch", "delete"},
	"nodes":                     {"create", "update", "patch", "delete"},
	"leases":                    {"create", "update", "patch", "delete"},
	"customresourcedefinitions": {"update", "patch", "delete"},
}

// What root on a worker may do that is not its node's business. Each line is named in docs/explanation/fleet-csi.md.
var documented = []string{
	"ClusterRole transplant:csi-azurefile-controller: create secrets",
	"ClusterRole transplant:csi-azurefile-controller: get secrets",
	"ClusterRole transplant:csi-azurefile-node: get secrets",
	"DaemonSet csi-cinder-node before 1.32: cloud.conf",
}

func TestRootOnAWorkerGetsNoMoreThanIsDocumented(t *testing.T) {
	var found []string
	every(t, func(name string, minor int, objects []*unstructured.Unstructured) {
		for _, o := range objects {
			found = append(found, strongRights(t, o)...)
			if o.GetKind() != "DaemonSet" {
				continue
			}
			var d appsv1.DaemonSet
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
				t.Fatal(err)
			}
			for _, v := range d.Spec.Template.Spec.Volumes {
				switch {
				case v.Secret == nil:
				case minor < 32:
					found = append(found, fmt.Sprintf("DaemonSet %s before 1.32: %s", d.Name, v.Secret.Items[0].Key))
				default:
					t.Errorf("%s: DaemonSet %s has the cloud's credentials on every worker", name, d.Name)
				}
			}
		}
	})
	slices.Sort(found)
	if diff := cmp.Diff(documented, slices.Compact(found)); diff != "" {
		t.Errorf("what root on a worker gets (-documented +found):\n%s", diff)
	}
}

func strongRights(t *testing.T, o *unstructured.Unstructured) (found []string) {
	t.Helper()
	if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
		return nil
	}
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
		t.Fatal(err)
	}
	for _, r := range role.Rules {
		for _, resource := range r.Resources {
			for _, verb := range strong[resource] {
				if len(r.ResourceNames) == 0 && (slices.Contains(r.Verbs, verb) || slices.Contains(r.Verbs, "*")) {
					found = append(found, fmt.Sprintf("%s %s: %s %s", o.GetKind(), o.GetName(), verb, resource))
				}
			}
		}
	}
	return found
}

// The names are those that the sidecars of these releases use: a wrong one leaves a driver without a leader.
func TestSidecarsElectWithTheLeasesThatAreMade(t *testing.T) {
	want := []string{"csi-vsphere-vmware-com", "external-resizer-csi-vsphere-vmware-com", "external-attacher-leader-csi-vsphere-vmware-com", "vsphere-syncer"}
	if diff := cmp.Diff(want, vsphere.leaseNames()); diff != "" {
		t.Error(diff)
	}
	every(t, func(name string, _ int, objects []*unstructured.Unstructured) {
		made, granted := map[string]bool{}, map[string]bool{}
		for _, o := range objects {
			if o.GetKind() == "Lease" {
				made[o.GetName()] = true
			}
			if o.GetKind() != "Role" || !strings.HasSuffix(o.GetName(), "-controller") {
				continue
			}
			var role rbacv1.Role
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			for _, r := range role.Rules {
				if slices.Contains(r.Resources, "leases") {
					for _, n := range r.ResourceNames {
						granted[n] = true
					}
				}
			}
		}
		if diff := cmp.Diff(made, granted); diff != "" || len(made) < 2 {
			t.Errorf("%s: leases (-made +granted):\n%s", name, diff)
		}
	})
}
