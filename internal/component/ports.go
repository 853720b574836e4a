package component

// Ports on which the components serve HTTPS unless a flag names another (k8s.io/kubernetes/pkg/cluster/ports,
// k8s.io/cloud-provider/options).
const (
	PortKAS       = "6443"
	PortKCM       = "10257"
	PortCCM       = "10258"
	PortScheduler = "10259"
	PortKubelet   = "10250"
)

// DefaultPorts are the ports by component.
var DefaultPorts = map[string]string{KAS: PortKAS, KCM: PortKCM, CCM: PortCCM, Scheduler: PortScheduler}
