package collect

import (
	"context"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Need is something that a caller has to be allowed to do.
type Need struct {
	Verbs     []string
	Group     string
	Resource  string
	Namespace string
	Name      string
}

// Seed is the cluster in which the control plane of the one that is looked at runs as Deployments.
type Seed struct {
	Kube kubernetes.Interface
	// Namespace of the cluster in the seed.
	Namespace string
	// Provider is what the owner of the cluster says the cloud is; empty where that is not said. ConfigSecret and
	// ConfigKey are where a cloud config for the cloud-controller-manager may be; empty when it is not looked for.
	Provider, ConfigSecret, ConfigKey string
	// TokenSecret and TokenKey are where the token of the cluster's manager is; empty when it is not looked for.
	TokenSecret, TokenKey string
}

// SeedPod is a pod of a seed in which a component of a hosted control plane runs.
type SeedPod struct {
	Component string
	Name, UID string
	// Address is IP:port where the component serves /metrics; empty while the pod has no address.
	Address string
	// Node of the seed on which it runs.
	Node string
	// Image and Flags of the component's container.
	Image string
	Flags map[string]string
	// Container is the id of the container's present or last life; empty before the first.
	Container string
	// Restarts of the container.
	Restarts int32
	// Running reports whether the kubelet says that the container runs; Ended that it has terminated and is not started
	// again.
	Running, Ended bool
	// Workload is the Ref of what the pod is of, as far as its owner says. HostNetwork says that it has no network of its
	// own.
	Workload    string
	HostNetwork bool
}

// Place is where the manager of a Deployment is, and at which address it is asked there. On the network of a host that
// is known it is a manager of that host. Elsewhere only the API server leads to its port, and the place names the pod;
// see PodOfPlace. The hosts are by the names of their nodes.
func (p SeedPod) Place(hosts map[string]string) (host, address string) {
	_, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return p.Workload + "/" + p.Name, ""
	}
	host, known := hosts[p.Node]
	if !known || !p.HostNetwork {
		return p.Workload + "/" + p.Name, p.Address
	}
	ip := net.ParseIP(p.Flags["bind-address"])
	switch {
	case p.Flags["bind-address"] == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return host, net.JoinHostPort("127.0.0.1", port)
	case ip != nil && ip.IsUnspecified():
		return host, net.JoinHostPort("::1", port)
	case ip != nil:
		return host, net.JoinHostPort(ip.String(), port)
	}
	return host, p.Address // a variable such as $(HOST_IP), which the address of the pod stands for
}

// RunsNow reports whether the container of the pod may run: one that was never started does not, nor one that has
// ended.
func (p SeedPod) RunsNow() bool { return !p.Ended && (p.Container != "" || p.Running) }

// RunningAs is the pod with the flags of its process on its host, where that can be seen. In these a variable of the
// template has its value.
func (p SeedPod) RunningAs(ctx context.Context, h hostaccess.Host) SeedPod {
	if !p.HostNetwork {
		return p
	}
	processes, err := h.Processes(ctx, p.Component)
	if err != nil || len(processes) != 1 {
		return p // its template says nearly the same
	}
	p.Flags = commandline.FlagsOf(processes[0].Args)
	return p
}

// PodPlace is what a manager in a pod with a network of its own is called by: the Ref of its Deployment, and its pod.
// No host is called so, since a name of a host has no slash.
const PodPlace = "Deployment/"

// Workload is a workload with what the snapshot does not keep of it.
type Workload struct {
	v1.Workload
	Namespace string
	Template  corev1.PodTemplateSpec
	// Backs reports whether a webhook's Service selects its pods.
	Backs bool
}

// ProviderConfig is an image credential provider as its configuration has it. Its environment may hold a secret: it is
// handed to the program and kept nowhere else.
type ProviderConfig struct {
	Name        string   `json:"name"`
	APIVersion  string   `json:"apiVersion"`
	MatchImages []string `json:"matchImages"`
	Args        []string `json:"args"`
	Env         []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
}

// Environment returns the variables that the program is given.
func (p ProviderConfig) Environment() []string {
	var out []string
	for _, e := range p.Env {
		out = append(out, e.Name+"="+e.Value)
	}
	return out
}
