package kubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hostPort is a port of the host that a pod has for itself.
type hostPort struct {
	protocol corev1.Protocol
	port     int32
}

func hostPorts(pod *corev1.Pod) (ports []hostPort) {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort > 0 {
				ports = append(ports, hostPort{p.Protocol, p.HostPort})
			}
		}
	}
	return ports
}

// portsTaken reports whether another pod of the host has a port that a pod asks for. A scheduler that has lost its
// lease or its watches binds such a pod now and then: it sees the cluster through a cache. Were it admitted, it would
// end again and again for as long as the other pod runs.
func (a *apiPods) portsTaken(pod *corev1.Pod) bool {
	asked := hostPorts(pod)
	if len(asked) == 0 {
		return false
	}
	shared := func(have []hostPort) bool {
		return slices.ContainsFunc(asked, func(p hostPort) bool { return slices.Contains(have, p) })
	}
	for uid, w := range a.workers {
		if uid != pod.UID && shared(w.ports) {
			return true
		}
	}
	for _, key := range a.k.engine.keys() {
		if p := a.k.engine.pod(key); p != nil && p.static.pod.UID != pod.UID && shared(hostPorts(p.static.pod)) {
			return true
		}
	}
	return false
}
