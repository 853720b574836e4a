// Package objects decides how a Cluster is written: field by field, by JSON merge patch, never as a whole.
//
// Our Go types know a few of a Cluster's fields. An update with one of them would take every other field away,
// credentials among them; a patch leaves alone what it does not name. Each patch is bound to the object that was read.
// By its UID, a cluster that was deleted and made again is not taken for the old one. By its resourceVersion, what
// another client decided in between is read before anything is written.
package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Resource is the resource of Clusters in a group.
func Resource(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "clusters"}
}

// Change is what is to be written to one Cluster. The zero value is of no use: see Of.
type Change struct {
	group   string
	name    string
	uid     types.UID
	version string // "" for whatever the object's is now

	annotations map[string]any // nil values are taken away
	spec        map[string]any
	status      map[string]any
}

// Of begins a change of a Cluster as it was read from a group.
func Of(group string, c *kubermatic.Cluster) *Change {
	return &Change{
		group:   group,
		name:    c.Name,
		uid:     c.UID,
		version: c.ResourceVersion,
	}
}

// Unconditional lets the change go through whatever was written since the object was read, as long as it is the same
// object. It is for conditions that no other client writes; a decision that rests on other fields must not use it.
func (c *Change) Unconditional() *Change {
	c.version = ""
	return c
}

// Feature sets a feature.
func (c *Change) Feature(name string, on bool) *Change { return c.Spec(on, "features", name) }

// Annotate sets an annotation.
func (c *Change) Annotate(key, value string) *Change {
	set(&c.annotations, value, key)
	return c
}

// Unannotate takes an annotation away.
func (c *Change) Unannotate(key string) *Change {
	set(&c.annotations, nil, key)
	return c
}

// Spec sets a field below spec to a value that JSON can hold; nil takes it away.
func (c *Change) Spec(value any, path ...string) *Change {
	set(&c.spec, value, path...)
	return c
}

// Condition writes a condition; see ClusterConditions.Next for its times. What it leaves empty is removed, so that no
// old message stays next to a new status. Fields that our types do not know stay.
func (c *Change) Condition(t kubermatic.ClusterConditionType, condition kubermatic.ClusterCondition) *Change {
	fields := map[string]any{"status": condition.Status}
	for key, text := range map[string]string{
		"kubermaticVersion": condition.KubermaticVersion,
		"reason":            condition.Reason,
		"message":           condition.Message,
	} {
		fields[key] = nil
		if text != "" {
			fields[key] = text
		}
	}
	for key, at := range map[string]metav1.Time{
		"lastHeartbeatTime":  condition.LastHeartbeatTime,
		"lastTransitionTime": condition.LastTransitionTime,
	} {
		fields[key] = nil
		if !at.IsZero() {
			fields[key] = at
		}
	}
	return c.Status(fields, "conditions", string(t))
}

// Status sets a field below status to a value that JSON can hold; nil takes it away.
func (c *Change) Status(value any, path ...string) *Change {
	set(&c.status, value, path...)
	return c
}

// set puts a value where a path leads, making maps on the way. A path through something that is no map replaces it.
func set(in *map[string]any, value any, path ...string) {
	if *in == nil {
		*in = map[string]any{}
	}
	at := *in
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
}

// Empty reports whether there is nothing to write.
func (c *Change) Empty() bool { return c.annotations == nil && c.spec == nil && c.status == nil }

// MainPatch is the merge patch of the object itself; nil when nothing of it changes.
func (c *Change) MainPatch() ([]byte, error) {
	if c.annotations == nil && c.spec == nil {
		return nil, nil
	}
	patch := map[string]any{"metadata": c.metadata()}
	if c.annotations != nil {
		patch["metadata"].(map[string]any)["annotations"] = c.annotations
	}
	if c.spec != nil {
		patch["spec"] = c.spec
	}
	return encodePatch(patch)
}

// StatusPatch is the merge patch of the object's status; nil when nothing of it changes. When the object itself is
// patched as well, that comes first, and the resourceVersion of its answer belongs into this one: Apply does that.
func (c *Change) StatusPatch() ([]byte, error) {
	if c.status == nil {
		return nil, nil
	}
	return encodePatch(map[string]any{"metadata": c.metadata(), "status": c.status})
}

func (c *Change) metadata() map[string]any {
	out := map[string]any{}
	if c.uid != "" {
		out["uid"] = string(c.uid)
	}
	if c.version != "" {
		out["resourceVersion"] = c.version
	}
	return out
}

func encodePatch(patch map[string]any) ([]byte, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding patch: %w", err)
	}
	return data, nil
}

// Apply writes the change and returns the object as it is afterwards, or nil when there was nothing to write. IsStale
// tells of an error whether reading again may help.
func (c *Change) Apply(ctx context.Context, client dynamic.Interface, manager string) (*kubermatic.Cluster, error) {
	var written *unstructured.Unstructured
	clusters := client.Resource(Resource(c.group))
	for _, part := range []struct {
		patch       func() ([]byte, error)
		subresource []string
	}{{c.MainPatch, nil}, {c.StatusPatch, []string{"status"}}} {
		patch, err := part.patch()
		if err != nil {
			return nil, err
		}
		if patch == nil {
			continue
		}
		written, err = clusters.Patch(
			ctx,
			c.name,
			types.MergePatchType,
			patch,
			metav1.PatchOptions{FieldManager: manager},
			part.subresource...)
		if err != nil {
			return nil, fmt.Errorf("patching cluster %q of %s: %w", c.name, c.group, err)
		}
		if c.version != "" {
			c.version = written.GetResourceVersion()
		}
	}
	if written == nil {
		return nil, nil
	}
	return Decode(written)
}

// Decode reads a Cluster. What our types do not know is not in the result, so it must not be written back.
func Decode(u *unstructured.Unstructured) (*kubermatic.Cluster, error) {
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding cluster %q: %w", u.GetName(), err)
	}
	var out kubermatic.Cluster
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading cluster %q: %w", u.GetName(), err)
	}
	return &out, nil
}

// IsStale reports whether a write was refused because the object is no longer the one that was read. It was changed, or
// deleted and made again.
func IsStale(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}
