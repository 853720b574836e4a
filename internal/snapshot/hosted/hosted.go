// Package hosted reads control planes that run as Deployments, in the cluster itself or in a seed.
package hosted

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// FindHosted finds the parts of the control plane that run as Deployments. They are in kube-system. What runs the same
// programs in another namespace is the control plane of another cluster, or what a tenant calls one.
func FindHosted(g *collect.Collector) {
	for i := range g.Found {
		w := &g.Found[i]
		if w.Namespace != component.Namespace || !strings.HasPrefix(w.Ref, "Deployment/") ||
			!slices.Contains(collect.ComponentNames, w.Role) {
			continue
		}
		if c, ok := hostedComponent(w); ok {
			g.Snap.Hosted = append(g.Snap.Hosted, c)
		}
	}
	slices.SortFunc(g.Snap.Hosted, func(a, b v1.Component) int {
		return strings.Compare(a.Name+"\x00"+a.Manifest, b.Name+"\x00"+b.Manifest)
	})
}

// TemplateSHA256 is the hash by which a snapshot names a pod template, as the API has it in spec.template. It is of the
// template as this version of client-go knows it, so that it is the same whether the object was read typed or not, and
// whichever way it was encoded.
func TemplateSHA256(template map[string]any) string {
	var typed corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed); err != nil {
		data, _ := json.Marshal(template) // maps of plain values encode
		return hostaccess.SHA256(data)
	}
	return templateSHA256(&typed)
}

func templateSHA256(template *corev1.PodTemplateSpec) string {
	data, _ := json.Marshal(template) // a pod template that was decoded encodes
	return hostaccess.SHA256(data)
}

// hostedComponent is what the pod template of a Deployment says of the component that it runs.
func hostedComponent(w *collect.Workload) (v1.Component, bool) {
	at := slices.IndexFunc(
		w.Containers,
		func(c v1.Container) bool { return workloads.RoleOf("Deployment", []v1.Container{c}) == w.Role },
	)
	if at < 0 {
		return v1.Component{}, false
	}
	shown := w.Containers[at]
	out := v1.Component{
		Name:      w.Role,
		Runs:      v1.RunsDeployment,
		Manifest:  w.Ref,
		SHA256:    templateSHA256(&w.Template),
		Replicas:  ptr.To(w.Replicas),
		Image:     shown.Image,
		Command:   shown.Command,
		Flags:     shown.Flags,
		EnvNames:  shown.EnvNames,
		HostPaths: workloads.HostPaths(&w.Template.Spec, at),
	}
	container := &w.Template.Spec.Containers[at]
	if len(container.Command) > 0 && len(container.Args) > 0 {
		out.Remarks = append(out.Remarks, "args split between command and args")
	}
	if workloads.StartedByShell(container.Command) {
		out.Remarks = append(out.Remarks, "started by a shell")
	}
	return out, true
}
