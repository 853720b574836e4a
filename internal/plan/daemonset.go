package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// Names of the workloads that a plan makes.
const (
	CCMDaemonSet = "DaemonSet/" + Namespace + "/" + CCM
	CCMBudget    = "PodDisruptionBudget/" + Namespace + "/" + CCM
	// NodeManager initialises nodes on Azure, one on each: Azure's manager leaves that to it.
	NodeManager          = "cloud-node-manager"
	NodeManagerDaemonSet = "DaemonSet/" + Namespace + "/" + NodeManager
)

// Labels of control-plane nodes; kubeadm sets both from 1.20 to 1.23, and the second one alone from 1.24 on.
const (
	labelMaster       = "node-role.kubernetes.io/master"
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	taintNew          = "node.cloudprovider.kubernetes.io/uninitialized"
	firstControlPlane = 24
)

// selector is the label by which a DaemonSet finds the control-plane nodes: the one that all of them have, the newer one first.
func (b *builder) selector() object {
	for _, label := range []string{labelControlPlane, labelMaster} {
		all := true
		for _, h := range b.hosts {
			n := b.node(h.NodeName)
			if n == nil {
				all = false
				continue
			}
			if _, ok := n.Labels[label]; !ok {
				all = false
			}
		}
		if all {
			return object{label: ""}
		}
	}
	if b.api < firstControlPlane {
		return object{labelMaster: ""}
	}
	return object{labelControlPlane: ""}
}

// tolerations let the manager run where nothing else may: it is what takes the first of these taints away. A node that is not ready for want of a
// network keeps it, and so does one that is under pressure or unreachable: the other replica may be on it.
func tolerations() []any {
	return []any{
		object{"key": taintNew, "value": "true", "effect": "NoSchedule"},
		object{"key": labelControlPlane, "operator": "Exists", "effect": "NoSchedule"},
		object{"key": labelMaster, "operator": "Exists", "effect": "NoSchedule"},
		object{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
		object{"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"},
		object{"operator": "Exists", "effect": "NoExecute"},
	}
}

// startDaemonSet puts the manager on every control-plane node at once; only under the migration lease, or when no in-tree manager is left, may it.
func (b *builder) startDaemonSet(phase string) {
	set, flags := b.daemonSet()
	raw := mustJSON(set)
	b.add(v1.Step{
		ID: "start/" + CCM, Phase: phase, Kind: v1.StepEnsureObject, Title: "start " + CCM + " on the control-plane nodes",
		Why:       "the next owner runs, has its main lease and reaches the cloud before the old one is stopped; updates wait for the old pod's deletion, so that no replica is restarted unasked",
		Component: CCM, Ref: CCMDaemonSet, Object: raw, Requires: []string{"cluster:uid"}, Undo: "delete it, if this migration made it", EstimateSeconds: 30,
		Changes: b.printed(flags),
	})
	if len(b.hosts) > 1 {
		b.ensure(phase, "an eviction never takes the last replica", []object{b.budget()})
	}
}

// budget keeps one replica through every voluntary eviction. Its API is policy/v1 from 1.21 on.
func (b *builder) budget() object {
	version := "policy/v1"
	if b.api < 21 {
		version = "policy/v1beta1"
	}
	return object{
		"apiVersion": version, "kind": "PodDisruptionBudget", "metadata": meta(CCM, Namespace),
		"spec": object{"minAvailable": 1, "selector": object{"matchLabels": labelsOf(CCM)}},
	}
}

func labelsOf(name string) object { return object{"component": name, "tier": "control-plane"} }

// daemonSet is the manager as a DaemonSet: on the host's network and resolver, with its own host's API server, so that it needs neither a CNI nor
// kube-proxy nor a cluster DNS, all of which may wait for it. It requests what it needs and has no limits: a manager that is throttled loses its lease.
func (b *builder) daemonSet() (object, []controlplane.Flag) {
	h := b.hosts[0]
	m := component(h, KCM)
	b.sameConfig()
	flags := append([]controlplane.Flag{
		{Name: "cloud-provider", Value: b.provider.Name},
		{Name: "cloud-config", Value: CCMCloudConf},
		{Name: "bind-address", Value: "127.0.0.1"},
	}, b.ccmFlags(m)...)
	paths := []controlplane.HostPath{{Path: CCMCloudConf, Type: "File", Name: "cloud-config"}}
	if b.isUnconfigured(m) {
		flags = slices.DeleteFunc(flags, func(f controlplane.Flag) bool { return f.Name == flagCloudConfig })
		paths = nil
	}
	if b.opts.Strategy == LeaderMigration {
		paths = append(paths, controlplane.HostPath{Path: CCMMigration, Type: "File", Name: "transplant-leader-migration"})
	}
	given, files := b.environment(h.Name)
	paths = append(append(append(paths, files...), trust(m)...), namedFiles(h, m)...)
	env := b.apiEnv(h)
	for _, e := range given {
		if strings.Contains(e.Value, h.Name) {
			b.refused = append(b.refused, fmt.Errorf("environment %s with {host} needs a static pod on each host: a DaemonSet has one environment for all", e.Name))
		}
		env = append(env, object{"name": e.Name, "value": e.Value})
	}
	pod := b.managerPod(flags, env, paths, "system-node-critical")
	pod["nodeSelector"], pod["tolerations"] = b.selector(), tolerations()
	return workload(CCM, "OnDelete", pod), flags
}

// managerPod is the pod of a manager that a controller of the cluster makes, on the network and the resolver of its host.
func (b *builder) managerPod(flags []controlplane.Flag, env []any, paths []controlplane.HostPath, priority string) object {
	var volumes, mounts []any
	for i, p := range paths {
		name := p.Name
		if name == "" {
			name = fmt.Sprintf("file-%d", i)
		}
		volumes = append(volumes, object{"name": name, "hostPath": object{"path": p.Path, "type": p.Type}})
		mounts = append(mounts, object{"name": name, "mountPath": p.Path, "readOnly": true})
	}
	if b.namesNode() {
		env = append([]any{nodeNameEnv()}, env...)
	}
	port := cmp.Or(b.port(), ccmPort)
	container := object{
		"name": CCM, "image": b.opts.Image, "imagePullPolicy": "IfNotPresent", "env": env, "volumeMounts": mounts,
		"resources":     object{"requests": object{"cpu": "100m", "memory": "64Mi"}},
		"livenessProbe": httpProbe("/healthz", port, 10, 10, 8), "startupProbe": httpProbe("/healthz", port, 1, 2, 60),
	}
	b.program.fill(container, flags)
	pod := object{
		"serviceAccountName": CCMAccount, "hostNetwork": true, "dnsPolicy": "Default", "priorityClassName": priority,
		"volumes": volumes, "containers": []any{container}, "securityContext": object{"seccompProfile": object{"type": "RuntimeDefault"}},
	}
	if b.program.readyPath != "" {
		container["readinessProbe"] = httpProbe(b.program.readyPath, port, 0, 2, 3)
	}
	if b.program.ours {
		pod["terminationGracePeriodSeconds"] = 30
	}
	return pod
}

// sameConfig refuses hosts of which some have a cloud config and some have none: the pods of a DaemonSet have the same flags and mounts on all of them.
func (b *builder) sameConfig() {
	with, without := "", ""
	for _, h := range b.hosts {
		if component(h, KCM).Flags[flagCloudConfig] == "" {
			without = h.Name
		} else {
			with = h.Name
		}
	}
	if with != "" && without != "" {
		b.refused = append(b.refused, fmt.Errorf("%s has --cloud-config on host %s and none on host %s, and the pods of a DaemonSet are alike: "+
			"give all of them one, or plan with --shape=%s", KCM, with, without, v1.ShapeStaticPod))
	}
}

func workload(name, update string, pod object) object {
	return object{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta(name, Namespace),
		"spec": object{
			"selector": object{"matchLabels": labelsOf(name)}, "updateStrategy": object{"type": update},
			"template": object{"metadata": object{"labels": labelsOf(name)}, "spec": pod},
		},
	}
}

func httpProbe(path, port string, delay, period, failures int) object {
	out := object{
		"httpGet":       object{"host": "127.0.0.1", "path": path, "port": json.Number(port), "scheme": "HTTPS"},
		"periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 15,
	}
	if delay > 0 { // an API server does not keep a 0
		out["initialDelaySeconds"] = delay
	}
	return out
}

// apiEnv points the client of a pod at its own host's API server: kubeadm's serving certificate names the host's address.
func (b *builder) apiEnv(h v1.Host) []any {
	return []any{
		object{"name": "KUBERNETES_SERVICE_HOST", "valueFrom": object{"fieldRef": object{"fieldPath": "status.hostIP"}}},
		object{"name": "KUBERNETES_SERVICE_PORT", "value": apiAddress(h)},
	}
}

// endpointEnv points the client of a pod on any node at the control plane's common address, where the cluster has one; else kube-proxy has to be there.
func (b *builder) endpointEnv() []any {
	if b.snap.Kubeadm == nil || b.snap.Kubeadm.ControlPlaneEndpoint == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(b.snap.Kubeadm.ControlPlaneEndpoint)
	if err != nil {
		host, port = b.snap.Kubeadm.ControlPlaneEndpoint, fmt.Sprint(defaultAPIPort)
	}
	return []any{object{"name": "KUBERNETES_SERVICE_HOST", "value": host}, object{"name": "KUBERNETES_SERVICE_PORT", "value": port}}
}

// finishDaemonSet takes leader migration out of the DaemonSet.
func (b *builder) finishDaemonSet() {
	edits, was := b.finishEdits()
	b.add(v1.Step{
		ID: "finish/" + CCM, Phase: PhaseFinish, Kind: v1.StepEditWorkload, Title: "switch leader migration off in " + CCM,
		Why: "no in-tree manager is left that could want the migration lease; the pods are replaced one by one, the owner's last", Component: CCM, Ref: CCMDaemonSet,
		Edits: edits, Leases: []string{CCM, b.opts.LeaseName}, Successors: []string{CCM}, Group: PhaseFinish, Requires: []string{"cluster:uid"},
		Changes: changes(edits, was), Undo: "put the pod template back as the record has it", EstimateSeconds: 25 * float64(len(b.hosts)), Expect: b.expectFor(owners(CCM)),
	})
}

func mustJSON(o any) string {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // maps of strings and numbers marshal
	}
	return string(raw)
}

// noteOnce adds an effect that was found on the way.
func (b *builder) noteOnce(text string) {
	for _, n := range b.notes {
		if n == text {
			return
		}
	}
	b.notes = append(b.notes, text)
}
