package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
)

// isMount reports whether an edit changes what a workload mounts. A host's file goes by the name of its volume.
func isMount(e v1.Edit) bool {
	return e.Op == v1.EditMountConfigMap || e.Op == v1.EditUnmount || e.Op == v1.EditRemoveHostPath
}

// flagEdits are the edits of a step that change flags.
func flagEdits(edits []v1.Edit) []v1.Edit {
	var out []v1.Edit
	for _, e := range edits {
		if !isMount(e) {
			out = append(out, e)
		}
	}
	return out
}

// applyMounts applies the edits that change what the component's container mounts.
func applyMounts(o *unstructured.Unstructured, container map[string]any, edits []v1.Edit) error {
	for _, e := range edits {
		if !isMount(e) {
			continue
		}
		if err := dropVolume(o, container, e.Name); err != nil {
			return err
		}
		if e.Op != v1.EditMountConfigMap {
			continue
		}
		mount := map[string]any{"name": e.Name, "mountPath": e.Path, "readOnly": true}
		mode := int64(0o644) // the API's default, written out so that what is read back is what was written
		volume := map[string]any{"name": e.Name, "configMap": map[string]any{"name": e.Value, "defaultMode": mode}}
		if err := addVolume(o, container, mount, volume); err != nil {
			return err
		}
	}
	return nil
}

// restoreHostPaths mounts the files of hosts again whose mounts some edits removed. It follows the edits, which are
// judged with the plan, and no record.
func restoreHostPaths(o *unstructured.Unstructured, container map[string]any, removed []v1.Edit) error {
	for _, e := range removed {
		if e.Op != v1.EditRemoveHostPath {
			continue
		}
		if err := dropVolume(o, container, e.Name); err != nil {
			return err
		}
		mount := map[string]any{"name": e.Name, "mountPath": e.Value, "readOnly": true}
		volume := map[string]any{"name": e.Name, "hostPath": map[string]any{"path": e.Value, "type": "File"}}
		if err := addVolume(o, container, mount, volume); err != nil {
			return err
		}
	}
	return nil
}

func addVolume(o *unstructured.Unstructured, container, mount, volume map[string]any) error {
	spec, err := object.PodSpec(o)
	if err != nil {
		return err
	}
	mounts, _ := container["volumeMounts"].([]any)
	container["volumeMounts"] = append(mounts, mount)
	volumes, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, volume)
	return nil
}

func dropVolume(o *unstructured.Unstructured, container map[string]any, name string) error {
	spec, err := object.PodSpec(o)
	if err != nil {
		return err
	}
	for _, list := range []struct {
		of  map[string]any
		key string
	}{{container, "volumeMounts"}, {spec, "volumes"}} {
		all, _ := list.of[list.key].([]any)
		var keep []any
		for _, item := range all {
			if m, ok := item.(map[string]any); !ok || m["name"] != name {
				keep = append(keep, item)
			}
		}
		if len(keep) == 0 {
			delete(list.of, list.key)
		} else {
			list.of[list.key] = keep
		}
	}
	return nil
}

// mounted are the volumes that a step adds.
func mounted(edits []v1.Edit) []string {
	var out []string
	for _, e := range edits {
		if e.Op == v1.EditMountConfigMap {
			out = append(out, e.Name)
		}
	}
	return out
}
