// Package served decides whether the operator can work with the Cluster API that a seed serves, and installs ours if
// there is none.
//
// A definition that is not ours is Kubermatic's own, with objects in it that other programs depend on. It is never
// written. With our schema in its place the API server would no longer check what those programs rely on. Without parts
// of it, it would drop stored fields. It is only looked at: whether it keeps the fields that a migration reads and
// writes. Where it does not, the group is left alone.
package served

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/deploy/crds"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// Groups of the Cluster API, the one of today first.
var Groups = []string{kubermatic.GroupName, kubermatic.LegacyGroupName}

// The label that says that a definition is ours.
const (
	managedBy = "app.kubernetes.io/managed-by"
	us        = "transplant"
)

// Verdict is what was found for a group.
type Verdict struct {
	Group string
	// Present reports whether there is a definition, Ours whether it is this project's.
	Present, Ours bool
	// Missing says what a definition lacks, sorted; none when the operator can work with it.
	Missing []string
}

// Usable reports whether the operator can work with the group.
func (v Verdict) Usable() bool { return v.Present && len(v.Missing) == 0 }

// String is a sentence for a log.
func (v Verdict) String() string {
	switch {
	case !v.Present:
		return fmt.Sprintf("clusters.%s is not installed", v.Group)
	case len(v.Missing) > 0:
		return fmt.Sprintf(
			"clusters.%s cannot be worked with, and its clusters are left alone: %s",
			v.Group,
			strings.Join(v.Missing, "; "),
		)
	case v.Ours:
		return fmt.Sprintf("clusters.%s is ours", v.Group)
	}
	return fmt.Sprintf("clusters.%s was made by another program and fits; it is not changed", v.Group)
}

// needed are the fields that are read or written; what a schema does not keep, the API server drops without a word.
var needed = []string{
	"spec.version",
	"spec.features.externalCloudProvider",
	"spec.cloud.openstack.useOctavia",
	"status.conditions.TransplantMigration.status",
	"status.conditions.TransplantMigration.reason",
	"status.conditions.TransplantMigration.message",
	"status.conditions.TransplantMigration.lastTransitionTime",
	"status.conditions.TransplantMigration.lastHeartbeatTime",
}

// Judge looks at the definition of a group; nil when there is none.
func Judge(group string, crd *unstructured.Unstructured) Verdict {
	out := Verdict{Group: group}
	if crd == nil {
		return out
	}
	out.Present, out.Ours = true, crd.GetLabels()[managedBy] == us
	if scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope"); scope != "Cluster" {
		out.Missing = append(out.Missing, "its objects are not cluster-scoped")
	}
	version := servedVersion(crd)
	if version == nil {
		out.Missing = append(out.Missing, "it does not serve v1")
		return out
	}
	if _, ok, _ := unstructured.NestedMap(version, "subresources", "status"); !ok {
		out.Missing = append(out.Missing, "it has no status subresource")
	}
	root, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	if kind, _, _ := unstructured.NestedString(
		root,
		"properties",
		"status",
		"properties",
		"conditions",
		"type",
	); kind != "object" {
		out.Missing = append(
			out.Missing,
			"it does not say that status.conditions is a map, which used to be a list: writing one over the other would lose it",
		)
	}
	for _, path := range needed {
		if !keepsField(root, strings.Split(path, ".")) {
			out.Missing = append(out.Missing, "it does not keep "+path)
		}
	}
	slices.Sort(out.Missing)
	return out
}

func servedVersion(crd *unstructured.Unstructured) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok && version["name"] == "v1" && version["served"] == true {
			return version
		}
	}
	return nil
}

// keepsField reports whether a structural schema keeps a field: it is named, or everything is kept where it would be.
func keepsField(schema map[string]any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if kind, ok := schema["type"]; ok && kind != "object" {
		return false
	}
	if next, ok, _ := unstructured.NestedMap(schema, "properties", path[0]); ok {
		return keepsField(next, path[1:])
	}
	if next, ok := schema["additionalProperties"].(map[string]any); ok {
		return keepsField(next, path[1:])
	}
	return schema["additionalProperties"] == true || schema["x-kubernetes-preserve-unknown-fields"] == true
}

var definitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// Look judges what a seed serves, both groups in the order of Groups.
func Look(ctx context.Context, client dynamic.Interface) ([]Verdict, error) {
	var out []Verdict
	for _, group := range Groups {
		crd, err := readDefinition(ctx, client, group)
		if err != nil {
			return nil, err
		}
		out = append(out, Judge(group, crd))
	}
	return out, nil
}

func readDefinition(ctx context.Context, client dynamic.Interface, group string) (*unstructured.Unstructured, error) {
	crd, err := client.Resource(definitions).Get(ctx, "clusters."+group, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the definition clusters.%s: %w", group, err)
	}
	return crd, nil
}

// Install makes the definitions of groups that have none, and brings ours up to date. One that is not ours stays as it
// is. The verdicts are those afterwards.
func Install(ctx context.Context, client dynamic.Interface) ([]Verdict, error) {
	for _, group := range Groups {
		if err := install(ctx, client, group); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return nil, err // another replica that was faster did the same
		}
	}
	return Look(ctx, client)
}

func install(ctx context.Context, client dynamic.Interface, group string) error {
	want, err := definition(group)
	if err != nil {
		return err
	}
	has, err := readDefinition(ctx, client, group)
	switch {
	case err != nil:
		return err
	case has == nil:
		_, err = client.Resource(definitions).Create(ctx, want, metav1.CreateOptions{})
	case Judge(group, has).Ours:
		has = has.DeepCopy()
		has.Object["spec"] = want.Object["spec"]
		annotations := has.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, want.GetAnnotations())
		has.SetAnnotations(annotations)
		// without a difference the API server writes nothing
		_, err = client.Resource(definitions).Update(ctx, has, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("installing the definition clusters.%s: %w", group, err)
	}
	return nil
}

// definition is ours of a group.
func definition(group string) (*unstructured.Unstructured, error) {
	data, err := crds.Files.ReadFile(group + "_clusters.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading our definition of %s: %w", group, err)
	}
	out := &unstructured.Unstructured{}
	if err := safeyaml.Unmarshal(data, &out.Object); err != nil {
		return nil, fmt.Errorf("reading our definition of %s: %w", group, err)
	}
	return out, nil
}
