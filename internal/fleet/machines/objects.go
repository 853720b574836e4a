package machines

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// revisionAnnotation is machine-controller's, on MachineSets.
const revisionAnnotation = "machinedeployment.clusters.k8s.io/revision"

// providerIDBy is the field manager that set spec.providerID, and when it last wrote; the last one when there are several.
func providerIDBy(fields []metav1.ManagedFieldsEntry) (manager string, at time.Time) {
	for _, e := range fields {
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		var set struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) != nil {
			continue // what cannot be read is no evidence
		}
		if _, ok := set.Spec["f:providerID"]; !ok {
			continue
		}
		if when := timeOf(e.Time); manager == "" || when.After(at) {
			manager, at = e.Manager, when
		}
	}
	return manager, at
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// controllerOf is the uid of the object's controller of a kind.
func controllerOf(u *unstructured.Unstructured, kind string) string {
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == kind && strings.HasPrefix(o.APIVersion, MachinesResource.Group+"/") {
			return string(o.UID)
		}
	}
	return ""
}

func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

func number(u *unstructured.Unstructured, path ...string) int {
	n, _, _ := unstructured.NestedInt64(u.Object, path...)
	return int(n)
}

// replicas that an object wants: one when it does not say, as machine-controller defaults it.
func replicas(u *unstructured.Unstructured) int {
	n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found || err != nil {
		return 1
	}
	return int(n)
}

func machineOf(u *unstructured.Unstructured) Machine {
	return Machine{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), Created: u.GetCreationTimestamp().Time, Deleting: timeOf(u.GetDeletionTimestamp()),
		Owner: controllerOf(u, "MachineSet"), External: u.GetAnnotations()[AnnotationExternal], ProviderID: text(u, "spec", "providerID"),
		NodeName: text(u, "status", "nodeRef", "name"), NodeUID: text(u, "status", "nodeRef", "uid"),
		Error: strings.Trim(text(u, "status", "errorReason")+": "+text(u, "status", "errorMessage"), ": "),
	}
}

func setOf(u *unstructured.Unstructured) MachineSet {
	revision, err := strconv.Atoi(u.GetAnnotations()[revisionAnnotation])
	if err != nil {
		revision = 0
	}
	return MachineSet{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), Created: u.GetCreationTimestamp().Time, Owner: controllerOf(u, "MachineDeployment"),
		Replicas: replicas(u), Revision: revision, Deleting: u.GetDeletionTimestamp() != nil,
	}
}

// DeploymentOf reads a MachineDeployment.
func DeploymentOf(u *unstructured.Unstructured) Deployment {
	paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
	return Deployment{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
		ObservedGeneration: int64(number(u, "status", "observedGeneration")), Deleting: u.GetDeletionTimestamp() != nil, Paused: paused, Replicas: replicas(u),
		Updated: number(u, "status", "updatedReplicas"), Total: number(u, "status", "replicas"), Ready: number(u, "status", "readyReplicas"), Available: number(u, "status", "availableReplicas"),
		MaxUnavailable: intOrPercent(u, "spec", "strategy", "rollingUpdate", "maxUnavailable"), MaxSurge: intOrPercent(u, "spec", "strategy", "rollingUpdate", "maxSurge"),
		ForceRestart: text(u, "spec", "template", "metadata", "annotations", kubermatic.ForceRestart),
	}
}

func intOrPercent(u *unstructured.Unstructured, path ...string) *intstr.IntOrString {
	value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if !found || err != nil {
		return nil
	}
	switch v := value.(type) {
	case int64:
		out := intstr.FromInt32(int32(max(0, min(v, 1<<30))))
		return &out
	case string:
		out := intstr.Parse(v)
		return &out
	}
	return nil
}
