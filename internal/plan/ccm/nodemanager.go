package ccm

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/nodemanager"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// needsNodeManager reports whether nodes are initialised by a manager on each of them. Ours initialises them itself,
// for every provider.
func needsNodeManager(d *draft.Draft) bool { return d.Provider.NodeManager != "" && !d.Program.Ours }

// StartNodeManagers puts a cloud-node-manager on every node, where the manager leaves nodes to one. The manager itself
// asks the cloud for no node then, and a node that is not initialised keeps its taint. It comes before the first
// kubelet stops asking the cloud by itself. One that another program installed stays as it is.
func StartNodeManagers(d *draft.Draft, phase string) {
	if !needsNodeManager(d) {
		return
	}
	if len(nodemanager.Uncovered(d.Snapshot, nodemanager.IsWindows)) > 0 {
		d.Note(
			"not done: the cloud-node-manager of Windows nodes, which has a manifest of its own (cloud-node-manager-windows of cloud-provider-azure); put it there before their kubelets become external",
		)
	}
	if other := clusterview.OtherNodeManager(d.Snapshot); other != "" {
		d.Note(other + " initialises nodes and is not changed: " + layout.NodeManager + " is there already")
		return
	}
	why := "Azure's nodes are initialised by one manager on each node, from the instance's own metadata"
	d.EnsureObjects(phase, why, layout.NodeManagerObjects())
	set := renderNodeManager(d)
	d.Add(v1.Step{
		ID:              "start/" + layout.NodeManager,
		Phase:           phase,
		Kind:            v1.StepEnsureObject,
		Title:           "start " + layout.NodeManager + " on every node",
		Why:             why,
		Component:       layout.NodeManager,
		Ref:             layout.NodeManagerDaemonSet,
		Object:          layout.EncodeObject(set),
		Requires:        []string{"cluster:uid"},
		Undo:            "delete it, if this migration made it",
		EstimateSeconds: 30,
		Changes:         []v1.Change{{Field: "image", After: NodeManagerImage(d)}},
	})
}

// NodeManagerImage is the image that is released together with the manager's: next to it where it was mirrored, else
// the catalogue's.
func NodeManagerImage(d *draft.Draft) string {
	if known, ok := program.NearestImage(d.Provider.Name, d.Program.Minor); ok && known.Ref == d.Options.Image {
		return known.NodeManager
	}
	if sameRelease := strings.Replace(
		d.Options.Image,
		"azure-cloud-controller-manager",
		"azure-cloud-node-manager",
		1,
	); sameRelease != d.Options.Image {
		return sameRelease
	}
	return d.Program.NodeManager
}

// renderNodeManager tolerates everything, since it has to run on a node before anything else can. Where routes come
// from the cloud, it waits for a node's route before the node counts as having a network.
func renderNodeManager(d *draft.Draft) layout.Object {
	wait := "false"
	if d.RunsLoop("route") {
		wait = "true"
	}
	env := append([]any{ownEnv(envNodeName)}, EndpointEnv(d)...)
	pod := layout.Object{
		"serviceAccountName": layout.NodeManager,
		"hostNetwork":        true,
		"dnsPolicy":          "Default",
		"priorityClassName":  "system-node-critical",
		"nodeSelector":       layout.Object{"kubernetes.io/os": "linux"},
		"tolerations":        []any{layout.Object{"operator": "Exists"}},
		"securityContext":    layout.Object{"seccompProfile": layout.Object{"type": "RuntimeDefault"}},
		"containers": []any{layout.Object{
			"name": layout.NodeManager, "image": NodeManagerImage(d), "imagePullPolicy": "IfNotPresent", "env": env,
			"command":   []any{layout.NodeManager, "--node-name=$(NODE_NAME)", "--wait-routes=" + wait},
			"resources": layout.Object{"requests": layout.Object{"cpu": "50m", "memory": "50Mi"}},
		}},
	}
	return DaemonSetObject(layout.NodeManager, "RollingUpdate", pod)
}
