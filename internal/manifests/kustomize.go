package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// The directories of a kustomization, below the root of the repository.
const (
	KustomizeDir = "deploy/kustomize"
	PlainDir     = "deploy/manifests"
	GuideDir     = "examples/existing-cluster/base"
)

// ObserverFile has the account that reads the managers' /metrics. An administrator makes it with the roles of people
// who only look: before a migration nothing else lets them ask a manager.
const ObserverFile = "deploy/rbac/observer.yaml"

// placeholder is the name of the manager's image in the base. Each overlay gives it another one, as a user may do.
const placeholder = component.CCM

const header = "# Rendered by make generate from internal/manifests.\n"

type object = layout.Object

// Files renders what is kept in the repository, by path from its root.
func Files() (map[string][]byte, error) {
	r := renderer{files: map[string][]byte{}}
	base, err := neutral()
	if err != nil {
		return nil, err
	}
	r.base(base)
	for _, provider := range Providers() {
		objects, err := Manager(provider)
		if err != nil {
			return nil, err
		}
		r.overlay(provider, base, objects)
		r.write(path.Join(PlainDir, provider+".yaml"), objects...)
		r.chart(provider)
	}
	r.components()
	r.write(ObserverFile, layout.ObserverObjects()...)
	return r.files, r.err
}

// neutral returns what the managers of all providers have in common, without any of their programs.
func neutral() ([]object, error) {
	out, err := Manager(Providers()[0])
	if err != nil {
		return nil, err
	}
	for _, o := range layout.IdentityObjects("", layout.Manager{Ours: true}) {
		label(o)
		for i := range out {
			if layout.Ref(out[i]) == layout.Ref(o) {
				out[i] = o
			}
		}
	}
	role := find(out, "Role")
	role["rules"] = withoutName(role["rules"], layout.StateName(""))
	set := find(out, "DaemonSet")
	pod := podOf(set)
	delete(pod, "volumes")
	c := containerOf(set)
	c["image"] = placeholder
	delete(c, "command")
	delete(c, "volumeMounts")
	var common []object
	for _, o := range out {
		if o["kind"] != "ConfigMap" {
			common = append(common, o)
		}
	}
	return common, nil
}

// withoutName returns rules without those that are limited to an object.
func withoutName(rules any, name string) []object {
	var out []object
	for _, r := range rules.([]object) {
		if names, _ := r["resourceNames"].([]string); len(names) == 1 && names[0] == name {
			continue
		}
		out = append(out, r)
	}
	return out
}

func podOf(set object) object {
	return set["spec"].(object)["template"].(object)["spec"].(object)
}

func containerOf(set object) object { return podOf(set)["containers"].([]any)[0].(object) }

// renderer collects files.
type renderer struct {
	files map[string][]byte
	err   error
}

// write renders objects into a file.
func (r *renderer) write(name string, objects ...object) {
	out := bytes.NewBufferString(header)
	for i, o := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(o)
		if err != nil && r.err == nil {
			r.err = fmt.Errorf("rendering %s: %w", name, err)
		}
		out.Write(text)
	}
	r.files[name] = out.Bytes()
}

// base renders what has no provider.
func (r *renderer) base(objects []object) {
	dir := path.Join(KustomizeDir, "base")
	groups := []struct {
		file  string
		kinds []string
	}{
		{"account.yaml", []string{"ServiceAccount"}},
		{"rights.yaml", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
		{"daemonset.yaml", []string{"DaemonSet", "PodDisruptionBudget"}},
	}
	var resources []any
	for _, g := range groups {
		var of []object
		for _, kind := range g.kinds {
			of = append(of, find(objects, kind))
		}
		r.write(path.Join(dir, g.file), of...)
		resources = append(resources, g.file)
	}
	r.kustomization(dir, "Kustomization", object{"resources": resources})
}

// overlay renders what makes the manager of a provider of the base: objects of its own, and patches of others.
func (r *renderer) overlay(provider string, base, objects []object) {
	dir := path.Join(KustomizeDir, "overlays", provider)
	resources := []any{"../../base"}
	var state, rights []object
	for _, o := range objects {
		common := find(base, o["kind"].(string))
		switch {
		case common == nil:
			state = append(state, o)
		case o["rules"] != nil && !reflect.DeepEqual(o["rules"], common["rules"]):
			// A patch has no merge key of rules, so that it replaces all of them.
			rights = append(rights, patchOf(o, object{"rules": o["rules"]}))
		}
	}
	if len(state) > 0 {
		r.write(path.Join(dir, "state.yaml"), state...)
		resources = append(resources, "state.yaml")
	}
	set := find(objects, "DaemonSet")
	c := containerOf(set)
	container := object{"name": c["name"], "command": c["command"]}
	pod := object{"containers": []any{container}}
	if volumes, ok := podOf(set)["volumes"]; ok {
		pod["volumes"], container["volumeMounts"] = volumes, c["volumeMounts"]
	}
	r.write(
		path.Join(dir, "daemonset.yaml"),
		patchOf(set, object{"spec": object{"template": object{"spec": pod}}}),
	)
	patches := []any{object{"path": "daemonset.yaml"}}
	for _, p := range rights {
		file := strings.ToLower(p["kind"].(string)) + ".yaml"
		r.write(path.Join(dir, file), p)
		patches = append(patches, object{"path": file})
	}
	name, tag, _ := strings.Cut(c["image"].(string), ":")
	r.kustomization(dir, "Kustomization", object{
		"resources": resources,
		"patches":   patches,
		"images":    []any{object{"name": placeholder, "newName": name, "newTag": tag}},
	})
}

// patchOf is a patch of an object: what names it, and what it changes.
func patchOf(o, change object) object {
	m := object{"name": o["metadata"].(object)["name"]}
	if namespace, ok := o["metadata"].(object)["namespace"]; ok {
		m["namespace"] = namespace
	}
	out := object{"apiVersion": o["apiVersion"], "kind": o["kind"], "metadata": m}
	for k, v := range change {
		out[k] = v
	}
	return out
}

// kustomization renders a directory's kustomization.yaml.
func (r *renderer) kustomization(dir, kind string, of object) {
	version := "kustomize.config.k8s.io/v1beta1"
	if kind == "Component" {
		version = "kustomize.config.k8s.io/v1alpha1"
	}
	of["apiVersion"], of["kind"] = version, kind
	r.write(path.Join(dir, "kustomization.yaml"), of)
}

// components render what a kustomization may add to an overlay.
func (r *renderer) components() {
	set := object{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": object{"name": component.CCM, "namespace": component.Namespace},
	}
	dir := path.Join(KustomizeDir, "components", "leader-migration")
	r.write(path.Join(dir, "rights.yaml"), LeaderMigration()...)
	r.kustomization(dir, "Component", object{
		"resources": []any{"rights.yaml"},
		"patches":   []any{argumentPatch("--enable-leader-migration=true")},
	})
	dir = path.Join(KustomizeDir, "components", "local-apiserver")
	r.write(path.Join(dir, "daemonset.yaml"), patchOf(set, object{"spec": object{"template": object{"spec": object{
		"containers": []any{object{"name": component.CCM, "env": []any{
			object{
				"name":      "KUBERNETES_SERVICE_HOST",
				"valueFrom": object{"fieldRef": object{"fieldPath": "status.hostIP"}},
			},
			object{"name": "KUBERNETES_SERVICE_PORT", "value": component.PortKAS},
		}}},
	}}}}))
	r.kustomization(dir, "Component", object{"patches": []any{object{"path": "daemonset.yaml"}}})
	dir = path.Join(KustomizeDir, "components", "metrics")
	r.write(path.Join(dir, "metrics.yaml"), Metrics()...)
	r.kustomization(dir, "Component", object{"resources": []any{"metrics.yaml"}})
	dir = path.Join(KustomizeDir, "components", "service-monitor")
	r.write(path.Join(dir, "servicemonitor.yaml"), ServiceMonitor())
	r.kustomization(dir, "Component", object{"resources": []any{"servicemonitor.yaml"}})
	r.kustomization(GuideDir, "Kustomization", object{"resources": []any{
		"../../../" + path.Join(KustomizeDir, "overlays", "aws"),
	}})
}

// argumentPatch adds an argument to the manager's.
func argumentPatch(flag string) object {
	patch, err := json.Marshal([]any{
		object{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag},
	})
	if err != nil {
		panic(err) // strings marshal
	}
	return object{"target": object{"kind": "DaemonSet", "name": component.CCM}, "patch": string(patch)}
}
