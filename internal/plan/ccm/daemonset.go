package ccm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// FirstWithoutMaster is the first minor whose control-plane nodes lack the label of a master.
const FirstWithoutMaster = 24

// nodeSelector is the label by which a DaemonSet finds the control-plane nodes: the one that all of them have, the
// newer one first.
func nodeSelector(d *draft.Draft) layout.Object {
	for _, label := range []string{layout.LabelControlPlane, layout.LabelMaster} {
		all := true
		for _, h := range d.Hosts {
			n := d.FindNode(h.NodeName)
			if n == nil {
				all = false
				continue
			}
			if _, ok := n.Labels[label]; !ok {
				all = false
			}
		}
		if all {
			return layout.Object{label: ""}
		}
	}
	if d.APIMinor < FirstWithoutMaster {
		return layout.Object{layout.LabelMaster: ""}
	}
	return layout.Object{layout.LabelControlPlane: ""}
}

// Tolerations let the manager run where nothing else may: it is what takes the first of these taints away. A node that
// is not ready for want of a network keeps the manager. So does one that is under pressure or unreachable: the other
// replica may be on it.
func Tolerations() []any {
	return []any{
		layout.Object{"key": component.TaintUninitialized, "value": "true", "effect": "NoSchedule"},
		layout.Object{"key": layout.LabelControlPlane, "operator": "Exists", "effect": "NoSchedule"},
		layout.Object{"key": layout.LabelMaster, "operator": "Exists", "effect": "NoSchedule"},
		layout.Object{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
		layout.Object{"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"},
		layout.Object{"operator": "Exists", "effect": "NoExecute"},
	}
}

// Labels are those of a manager's pods, by which its objects select them.
func Labels(name string) layout.Object {
	return layout.Object{layout.LabelComponent: name, "tier": "control-plane"}
}

// daemonSet is the manager as a DaemonSet: on the host's network and resolver, with its own host's API server. So it
// needs neither a CNI nor kube-proxy nor a cluster DNS, all of which may wait for it. It requests what it needs and has
// no limits: a manager that is throttled loses its lease.
func daemonSet(d *draft.Draft) (layout.Object, []controlplane.Flag) {
	h := d.Hosts[0]
	m := clusterview.FindComponent(h, component.KCM)
	checkSameConfig(d)
	flags := append([]controlplane.Flag{
		{Name: "cloud-provider", Value: d.Provider.Name},
		{Name: "cloud-config", Value: layout.CCMCloudConf},
		{Name: flagBindAddress, Value: sharedBindAddress(d)},
	}, ManagerFlags(d, m)...)
	paths := []controlplane.HostPath{{Path: layout.CCMCloudConf, Type: "File", Name: "cloud-config"}}
	if IsUnconfigured(d, m) {
		flags = slices.DeleteFunc(flags, func(f controlplane.Flag) bool { return f.Name == flagvalue.FlagCloudConfig })
		paths = nil
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		paths = append(
			paths,
			controlplane.HostPath{Path: layout.CCMMigration, Type: "File", Name: "transplant-leader-migration"},
		)
	}
	given, files := Environment(d, h.Name)
	paths = append(append(append(paths, files...), clusterview.TrustMounts(m)...), clusterview.ConfigFileMounts(h, m)...)
	env := localAPIEnv(h)
	for _, e := range given {
		if strings.Contains(e.Value, h.Name) {
			d.Refusals = append(
				d.Refusals,
				fmt.Errorf(
					"environment %s with {host} needs a static pod on each host: a DaemonSet has one environment for all",
					e.Name,
				),
			)
		}
		env = append(env, layout.Object{"name": e.Name, "value": e.Value})
	}
	pod := PodOf(d, NodeCritical).Render(flags, env, paths)
	pod["nodeSelector"], pod["tolerations"] = nodeSelector(d), Tolerations()
	return DaemonSetObject(component.CCM, "OnDelete", pod), flags
}

// sharedBindAddress is where the pods of a DaemonSet listen: on all addresses where every kube-controller-manager was
// told to, and on loopback otherwise. Its pods have the same flags on all hosts.
func sharedBindAddress(d *draft.Draft) string {
	first := ""
	for i, h := range d.Hosts {
		given := clusterview.FindComponent(h, component.KCM).Flags[flagBindAddress]
		if !isUnspecified(given) || i > 0 && given != first {
			return "127.0.0.1"
		}
		first = given
	}
	return first
}

// The priority classes of managers, of a pod that belongs to its node and of one that may run on any.
const (
	NodeCritical    = "system-node-critical"
	ClusterCritical = "system-cluster-critical"
)

// Pod is the pod of a manager that a controller of the cluster makes.
type Pod struct {
	Program program.Program
	// Port is where it serves. Empty: component.PortCCM.
	Port string
	// Priority is the name of its priority class.
	Priority string
	// Own are the names of OwnFields that it is told.
	Own []string
}

// PodOf is the pod of the manager that a plan starts.
func PodOf(d *draft.Draft, priority string) Pod {
	return Pod{
		Program:  d.Program,
		Port:     ServingPort(d),
		Priority: priority,
		Own:      ownVariablesOf(d),
	}
}

// Render returns the pod's spec, on the network and the resolver of its host.
func (p Pod) Render(flags []controlplane.Flag, env []any, paths []controlplane.HostPath) layout.Object {
	var volumes, mounts []any
	for i, f := range paths {
		name := f.Name
		if name == "" {
			name = fmt.Sprintf("file-%d", i)
		}
		volumes = append(volumes, layout.Object{"name": name, "hostPath": layout.Object{"path": f.Path, "type": f.Type}})
		mounts = append(mounts, layout.Object{"name": name, "mountPath": f.Path, "readOnly": true})
	}
	var own []any
	for _, name := range p.Own {
		own = append(own, ownEnv(name))
	}
	env = append(own, env...)
	port := cmp.Or(p.Port, component.PortCCM)
	container := layout.Object{
		"name":            component.CCM,
		"image":           p.Program.Image,
		"imagePullPolicy": "IfNotPresent",
		"env":             env,
		"volumeMounts":    mounts,
		"resources":       layout.Object{"requests": layout.Object{"cpu": "100m", "memory": "64Mi"}},
		"livenessProbe":   httpProbe("/healthz", port, 10, 10, 8),
		"startupProbe":    httpProbe("/healthz", port, 1, 2, 60),
	}
	fillContainer(p.Program, container, flags)
	pod := layout.Object{
		"serviceAccountName": layout.CCMAccount,
		"hostNetwork":        true,
		"dnsPolicy":          "Default",
		"priorityClassName":  p.Priority,
		"volumes":            volumes,
		"containers":         []any{container},
		"securityContext":    layout.Object{"seccompProfile": layout.Object{"type": "RuntimeDefault"}},
	}
	if p.Program.ReadyPath != "" {
		container["readinessProbe"] = httpProbe(p.Program.ReadyPath, port, 0, 2, 3)
	}
	if p.Program.Ours {
		pod["terminationGracePeriodSeconds"] = 30
	}
	return pod
}

// checkSameConfig refuses hosts of which some have a cloud config and some have none. The pods of a DaemonSet have the
// same flags and mounts on all of them.
func checkSameConfig(d *draft.Draft) {
	with, without := "", ""
	for _, h := range d.Hosts {
		if clusterview.FindComponent(h, component.KCM).Flags[flagvalue.FlagCloudConfig] == "" {
			without = h.Name
		} else {
			with = h.Name
		}
	}
	if with != "" && without != "" {
		d.Refusals = append(
			d.Refusals,
			fmt.Errorf("%s has --cloud-config on host %s and none on host %s, and the pods of a DaemonSet are alike; "+
				"give all of them one, or plan with --shape=%s", component.KCM, with, without, v1.ShapeStaticPod),
		)
	}
}

// DaemonSetObject is the DaemonSet of a manager, or of one that runs next to it on each node.
func DaemonSetObject(name, update string, pod layout.Object) layout.Object {
	return layout.Object{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": layout.Metadata(name, component.Namespace),
		"spec": layout.Object{
			"selector": layout.Object{"matchLabels": Labels(name)}, "updateStrategy": layout.Object{"type": update},
			"template": layout.Object{"metadata": layout.Object{"labels": Labels(name)}, "spec": pod},
		},
	}
}

func httpProbe(path, port string, delay, period, failures int) layout.Object {
	out := layout.Object{
		"httpGet":       layout.Object{"host": "127.0.0.1", "path": path, "port": json.Number(port), "scheme": "HTTPS"},
		"periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 15,
	}
	if delay > 0 { // an API server does not keep a 0
		out["initialDelaySeconds"] = delay
	}
	return out
}
