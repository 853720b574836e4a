// Package hosted reads control planes that run as Deployments, in the cluster itself or in a seed.
package hosted

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
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
		SHA256:    templateSums(&w.Template)[0],
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
