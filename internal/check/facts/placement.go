package facts

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// placement says which components of a snapshot run where, and which workloads that look like one of them do not count.
type placement struct {
	*v1.Snapshot
	placed  map[string][]Instance // by name
	foreign []v1.Workload
}

// place indexes the components whose flags could be understood.
func (p *placement) place() {
	// what earlier versions took for components
	p.Hosted = slices.DeleteFunc(slices.Clone(p.Hosted), func(c v1.Component) bool { return !p.isOwn(c.Manifest) })
	for _, h := range p.Hosts {
		for _, c := range h.Components {
			if c.Error == "" {
				p.placed[c.Name] = append(p.placed[c.Name], Instance{Component: c, Host: h})
			}
		}
	}
	for _, c := range p.Hosted {
		p.placeWorkload(c)
	}
	own, foreign := p.workloadManagers()
	isOwned := slices.ContainsFunc(p.placed[component.KCM], func(i Instance) bool { return !i.External() }) ||
		len(p.placed[component.CCM])+len(own) > 0
	if !isOwned {
		own, foreign = foreign, nil // no other manager runs the loops
	}
	for _, w := range own {
		c := ManagerOf(w)
		p.placeWorkload(v1.Component{
			Name:     component.CCM,
			Runs:     v1.RunsDeployment,
			Manifest: w.Ref,
			Image:    c.Image,
			Command:  c.Command,
			Flags:    c.Flags,
			EnvNames: c.EnvNames,
			Replicas: ptr.To(w.Replicas),
		})
	}
	// An account that may create a Deployment in some namespace does not decide what checks find.
	p.foreign = foreign
	refs := make(map[string]bool, len(foreign))
	for _, w := range foreign {
		refs[w.Ref] = true
	}
	isForeign := func(w v1.Workload) bool { return refs[w.Ref] }
	p.Workloads = slices.DeleteFunc(slices.Clone(p.Workloads), isForeign)
}

// placeWorkload indexes a component that the API runs. It has no host, and stands in for one under its own name, so
// that findings can say where it is.
func (p *placement) placeWorkload(c v1.Component) {
	if c.Error != "" || c.Name == component.CCM && c.Replicas != nil && *c.Replicas == 0 {
		return
	}
	p.placed[c.Name] = append(p.placed[c.Name], Instance{Component: c, Host: v1.Host{Name: c.Manifest}})
}

// workloadManagers are the cloud-controller-managers that are workloads: DaemonSets of the control plane, whose
// Deployments are known as components, and what is in other namespaces.
func (p *placement) workloadManagers() (own, foreign []v1.Workload) {
	for _, w := range p.Workloads {
		switch {
		case w.Role != v1.RoleCCM || len(w.Containers) == 0:
		case !p.isOwn(w.Ref):
			foreign = append(foreign, w)
		case strings.HasPrefix(w.Ref, "DaemonSet/"):
			own = append(own, w)
		}
	}
	return own, foreign
}

// isOwn reports whether a workload is in the namespace of the control plane.
func (p *placement) isOwn(ref string) bool {
	return isInKubeSystem(ref) || p.Cluster.Seed != "" && strings.Contains(ref, "/"+p.Cluster.Seed+"/")
}

// isInKubeSystem reports whether a workload is in the namespace of a cluster's own control plane.
func isInKubeSystem(ref string) bool { return strings.Contains(ref, "/kube-system/") }
