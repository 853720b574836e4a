package clusterview

import (
	"path"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/nodemanager"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// ManifestDir is the directory from which the host's kubelet starts static pods; empty when there is none. A host with
// a static pod has one, whatever is known of its kubelet.
func ManifestDir(h v1.Host) string {
	for _, c := range h.Components {
		if IsStaticPod(c) && path.IsAbs(c.Manifest) {
			return path.Dir(c.Manifest)
		}
	}
	if k := h.Kubelet; k != nil {
		if dir := k.Flags["pod-manifest-path"]; dir != "" {
			return path.Clean(dir)
		}
		if k.Config != nil && k.Config.StaticPodPath != "" {
			return path.Clean(k.Config.StaticPodPath)
		}
	}
	return ""
}

// ManagerManifest returns the path of the cloud-controller-manager's manifest on a host.
func ManagerManifest(h v1.Host) string {
	if dir := ManifestDir(h); dir != "" && dir != controlplane.ManifestDir {
		return dir + "/" + path.Base(layout.CCMManifest)
	}
	return layout.CCMManifest
}

// IsStaticPod reports whether a component runs as a static pod.
func IsStaticPod(c v1.Component) bool { return c.Runs == "" || c.Runs == v1.RunsStaticPod }

// ReplicasOf of a Deployment before the migration; one where that is not known.
func ReplicasOf(c *v1.Component) int32 {
	if c.Replicas == nil || *c.Replicas == 0 {
		return 1
	}
	return *c.Replicas
}

// EstimateRestart is how long a component takes until it is ready again; measured with a real kubelet, a unit and a
// Deployment are quicker.
func EstimateRestart(c *v1.Component) float64 {
	seconds := 25.0
	if c.Name == component.KAS {
		seconds = 55
	}
	if !IsStaticPod(*c) {
		seconds -= 15
	}
	return seconds
}

// OtherNodeManager is the workload that runs a cloud-node-manager on nodes with Linux, where another program than this
// one installed it; empty when there is none.
func OtherNodeManager(snap *v1.Snapshot) string {
	for _, w := range snap.Workloads {
		isOwn := w.Labels[layout.LabelComponent] == layout.NodeManager
		if w.Role == v1.RoleNodeManager && !isOwn && nodemanager.RunsOnLinux(snap, w) {
			return w.Ref
		}
	}
	return ""
}
