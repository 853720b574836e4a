// Package nodemanager decides which nodes of a snapshot have a cloud-node-manager. Where a provider leaves nodes to
// one, a node without it keeps its taint.
package nodemanager

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const (
	linux   = "linux"
	windows = "windows"
)

// osLabels are what selects the nodes of an operating system. The older one is in manifests to this day.
var osLabels = []string{"kubernetes.io/os", "beta.kubernetes.io/os"}

// IsWindows reports whether a node runs Windows. No manager for Linux starts there.
func IsWindows(n v1.Node) bool {
	system := n.OS
	if system == "" {
		system = n.Labels[osLabels[0]]
	}
	return strings.EqualFold(system, windows)
}

// RunsOnLinux reports whether a workload is for nodes with Linux. One that an affinity keeps on Windows is known by the
// nodes of its pods.
func RunsOnLinux(s *v1.Snapshot, w v1.Workload) bool {
	for _, label := range osLabels {
		if w.NodeSelector[label] == windows {
			return false
		}
	}
	isOfLinux := func(n v1.Node) bool { return !IsWindows(n) && slices.Contains(w.Nodes, n.Name) }
	return len(w.Nodes) == 0 || slices.ContainsFunc(s.Nodes, isOfLinux)
}

// Uncovered returns the nodes that need a cloud-node-manager and that no workload brings one to. Where the nodes of its
// pods are not known, a workload covers all that it selects.
func Uncovered(s *v1.Snapshot, needs func(v1.Node) bool) []v1.Node {
	return slices.DeleteFunc(managed(s, needs), func(n v1.Node) bool {
		return slices.ContainsFunc(s.Workloads, func(w v1.Workload) bool { return coversNode(w, n) })
	})
}

// Count returns how many pods the workloads want whose nodes are not known, and how many nodes have to have one of
// those. Fewer pods than nodes say that an affinity or a taint leaves nodes out.
func Count(s *v1.Snapshot, needs func(v1.Node) bool) (pods, nodes int) {
	var known, guessed []v1.Workload
	for _, w := range s.Workloads {
		switch {
		case w.Role != v1.RoleNodeManager:
		case len(w.Nodes) > 0:
			known = append(known, w)
		default:
			guessed = append(guessed, w)
			pods += int(w.Replicas)
		}
	}
	for _, n := range managed(s, needs) {
		isCovered := func(w v1.Workload) bool { return coversNode(w, n) }
		if !slices.ContainsFunc(known, isCovered) && slices.ContainsFunc(guessed, isCovered) {
			nodes++
		}
	}
	return pods, nodes
}

// IsVirtual reports whether a node with these labels has no machine that a manager could ask.
func IsVirtual(labels map[string]string) bool { return labels["type"] == "virtual-kubelet" }

// managed are the nodes of a cloud's instances that need a manager, as the caller judges them.
func managed(s *v1.Snapshot, needs func(v1.Node) bool) []v1.Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n v1.Node) bool { return IsVirtual(n.Labels) || !needs(n) })
}

func coversNode(w v1.Workload, n v1.Node) bool {
	if w.Role != v1.RoleNodeManager || len(w.Nodes) > 0 && !slices.Contains(w.Nodes, n.Name) {
		return false
	}
	for label, want := range w.NodeSelector {
		have, ok := n.Labels[label]
		isSystem := slices.Contains(osLabels, label) && want == systemOf(n)
		if !isSystem && (!ok || have != want) {
			return false
		}
	}
	return true
}

// systemOf is the operating system as a selector names it. A snapshot without it is of a cluster with Linux alone.
func systemOf(n v1.Node) string {
	if IsWindows(n) {
		return windows
	}
	return linux
}
