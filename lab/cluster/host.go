package cluster

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Components that have an access key or a log of their own.
const (
	APIServer              = "kube-apiserver"
	ControllerManager      = "kube-controller-manager"
	Scheduler              = "kube-scheduler"
	CloudControllerManager = "cloud-controller-manager"
)

// Fixed facts of every lab.
const (
	Name        = "lab"
	Version     = "v1.26.0" // of Kubernetes
	EtcdVersion = "v3.5.15"
	PodCIDR     = "10.200.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	Region      = "us-east-1"

	serviceIP        = "10.96.0.1"
	maxControlPlanes = 3
	maxMachines      = 6  // of the control plane, spare ones among them
	maxWorkers       = 70 // as many addresses as a block has for them
)

var zones = []string{"us-east-1a", "us-east-1b"}

// Host is one machine of the lab: a directory that is its file system root, a simulated machine, and a kubelet.
type Host struct {
	Name         string // of the machine and its directory, for example "cp-1"
	NodeName     string // of its Node; on AWS the private DNS name of its instance
	ControlPlane bool
	Address      string // loopback address that its components listen on
	PrivateIP    string // of its instance, and its Node's InternalIP
	InstanceID   string
	Zone         string
	Dir          string // its file system root
	Kubelet      *kubelet.Kubelet

	number     int // among the control planes or the workers, from 1
	providerID string
	version    string // of its kubelet
}

// Path returns where an absolute path of the host lies on this machine.
func (h *Host) Path(path string) string { return filepath.Join(h.Dir, filepath.FromSlash(path)) }

// ProviderID is what the cloud provider calls the host's machine.
func (h *Host) ProviderID() string { return h.providerID }

// Place sets a host's names and its machine's. It is for a Kind.
func (h *Host) Place(nodeName, instanceID, zone, providerID string) {
	h.NodeName, h.InstanceID, h.Zone, h.providerID = nodeName, instanceID, zone, providerID
}

// newHosts lays out the machines: the control planes, then the workers.
func newHosts(kind Kind, root string, b *block, controlPlanes, workers int) []*Host {
	var out []*Host
	for i := 1; i <= controlPlanes; i++ {
		out = append(out, newControlPlane(kind, root, b, i))
	}
	for i := 1; i <= workers; i++ {
		out = append(out, newHost(kind, root, b, fmt.Sprintf("worker-%d", i), 1, i))
	}
	return out
}

func newControlPlane(kind Kind, root string, b *block, i int) *Host {
	return newHost(kind, root, b, fmt.Sprintf("cp-%d", i), 0, i)
}

func newHost(kind Kind, root string, b *block, name string, net, i int) *Host {
	place := placeControlPlane + i
	if net > 0 {
		place = placeWorkers + i
	}
	ip := fmt.Sprintf("10.0.%d.%d", net, 10+i)
	h := &Host{
		Name:         name,
		ControlPlane: net == 0,
		Address:      b.address(place),
		PrivateIP:    ip,
		Dir:          filepath.Join(root, "hosts", name),
		number:       i,
		version:      kind.Version(),
	}
	kind.Place(h)
	return h
}

// Access keys of everything that is not a manager of a host. The audit log knows its callers by their keys.
const (
	KeyKubelet = "AKIALABKUBELET"
	KeyCLI     = "AKIALABCLI"
	KeyLab     = "AKIALABLAB"
	KeyCSI     = "AKIALABCSI" // of the CSI driver's controller, where the lab has volumes
)

// AccessKey is the AWS access key of a manager on a host, for example AKIALABCP1KCM.
func AccessKey(host, component string) string {
	short := map[string]string{
		ControllerManager: "KCM", CloudControllerManager: "CCM", APIServer: "KAS", Scheduler: "SCHED",
	}[component]
	return "AKIALAB" + strings.ToUpper(strings.ReplaceAll(host, "-", "")) + short
}
