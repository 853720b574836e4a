package parts

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/internal/fleet/machines"
)

// Clients reach one API server.
type Clients struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Parts are the parts of one cluster beside its control plane.
type Parts struct {
	// Name of the cluster, for sentences; Namespace of its control plane in the seed.
	Name, Namespace string
	// Seed hosts the machine components, User runs the CSI driver.
	Seed, User Clients
	// Provider as --cloud-provider names it: aws, azure, gce, openstack, vsphere.
	Provider string
	// Minor of the user cluster's API server: 26 for v1.26.3.
	Minor int
	// CCMReady: a cloud-controller-manager runs every loop. Without it nothing is changed, and what is there is only looked at.
	CCMReady bool
	// CSI tells that the CSI driver is wanted: not spec.disableCSIDriver.
	CSI bool
	// ClusterName by which the driver marks disks as this cluster's, where it does; the old value of kube-controller-manager's --cluster-name or id.
	ClusterName string
}

// Result is what Ensure found and did.
type Result struct {
	// Ready: everything below is.
	Ready bool
	// MachinesReady: machine-controller, its webhook and operating-system-manager have rolled out with their flags (machines.Looker.PartsReady).
	MachinesReady bool
	// CSIReady: the driver's controller and its node part run, or no driver is wanted. CSIMessage says which, or what is missing.
	CSIReady   bool
	CSIMessage string
	// Waiting are sentences about what is not ready, sorted.
	Waiting []string
	// Did are sentences about what this call changed, for events.
	Did []string
	// Volumes are what every external machine has to run for its volumes (machines.Looker.Volumes).
	Volumes []machines.Volume
}

// Ensure brings the parts to what they have to be, as far as one call can, and looks at them. It may be called again at any time and changes nothing that
// is right. It waits for nothing but answers.
func (p Parts) Ensure(_ context.Context) (Result, error) { return Result{}, errNotBuilt }

// Manifests returns every object of the CSI driver of a provider for a minor of Kubernetes, as Ensure applies it; no credentials are in it. None
// for a provider without a driver here.
func Manifests(_ string, _ int) ([]*unstructured.Unstructured, error) { return nil, errNotBuilt }

var errNotBuilt = errors.New("parts of fleets: not built yet")
