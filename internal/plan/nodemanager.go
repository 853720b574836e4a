package plan

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// nodeManagers puts Azure's cloud-node-manager on every node: the manager itself asks the cloud for no node, and a node that nobody initialises keeps
// its taint. It comes before the first kubelet stops asking the cloud by itself.
func (b *builder) nodeManagers() {
	if b.provider.Name != providerAzure {
		return
	}
	phase := PhaseHandover
	if b.opts.Strategy == Downtime {
		phase = PhaseStart
	}
	why := "Azure's nodes are initialised by one manager on each node, from the instance's own metadata"
	b.ensure(phase, why, nodeManagerObjects())
	set := b.nodeManager()
	b.add(v1.Step{
		ID: "start/" + NodeManager, Phase: phase, Kind: v1.StepEnsureObject, Title: "start " + NodeManager + " on every node", Why: why,
		Component: NodeManager, Ref: NodeManagerDaemonSet, Object: mustJSON(set), Requires: []string{"cluster:uid"},
		Undo: "delete it, if this migration made it", EstimateSeconds: 30, Changes: []v1.Change{{Field: "image", After: b.nodeManagerImage()}},
	})
	for _, n := range b.snap.Nodes {
		if n.OS == "windows" {
			b.noteOnce("not done: the cloud-node-manager of Windows nodes, which has a manifest of its own (cloud-node-manager-windows of cloud-provider-azure); put it there before their kubelets become external")
		}
	}
}

// nodeManagerImage is the image that is released together with the manager's: beside it where it was mirrored, else the catalogue's.
func (b *builder) nodeManagerImage() string {
	if known, ok := nearest(b.provider.Name, b.program.minor); ok && known.Ref == b.opts.Image {
		return known.NodeManager
	}
	if beside := strings.Replace(b.opts.Image, "azure-cloud-controller-manager", "azure-cloud-node-manager", 1); beside != b.opts.Image {
		return beside
	}
	return b.program.nodeManager
}

func nodeManagerObjects() []object {
	subject := object{"kind": "ServiceAccount", "name": NodeManager, "namespace": Namespace}
	return []object{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(NodeManager, Namespace)},
		rbac("ClusterRole", nodeManagerRole, "", object{"rules": []object{
			rule([]string{""}, []string{"nodes"}, []string{"get", "list", "watch", "update", "patch"}),
			rule([]string{""}, []string{"nodes/status"}, []string{"patch"}),
		}}),
		rbac("ClusterRoleBinding", nodeManagerRole, "", object{"roleRef": ref("ClusterRole", nodeManagerRole), "subjects": []object{subject}}),
	}
}

const nodeManagerRole = "transplant-" + NodeManager

// nodeManager tolerates everything, since it has to run on a node before anything else can; where routes come from the cloud it waits for a node's
// route before the node counts as having a network.
func (b *builder) nodeManager() object {
	wait := "false"
	if b.runs("route") {
		wait = "true"
	}
	env := append([]any{nodeNameEnv()}, b.endpointEnv()...)
	pod := object{
		"serviceAccountName": NodeManager, "hostNetwork": true, "dnsPolicy": "Default", "priorityClassName": "system-node-critical",
		"nodeSelector": object{"kubernetes.io/os": "linux"}, "tolerations": []any{object{"operator": "Exists"}},
		"securityContext": object{"seccompProfile": object{"type": "RuntimeDefault"}},
		"containers": []any{object{
			"name": NodeManager, "image": b.nodeManagerImage(), "imagePullPolicy": "IfNotPresent", "env": env,
			"command":   []any{NodeManager, "--node-name=$(NODE_NAME)", "--wait-routes=" + wait},
			"resources": object{"requests": object{"cpu": "50m", "memory": "50Mi"}},
		}},
	}
	return workload(NodeManager, "RollingUpdate", pod)
}
