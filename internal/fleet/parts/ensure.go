// Package parts decides what else of a cluster has to change when its cloud loops have moved. It decides how
// machine-controller, its webhook and operating-system-manager are started, so that new machines are external. It also
// decides which CSI driver the user cluster runs, so that their volumes work.
//
// Both come only when the cloud-controller-manager is ready: a machine that is made external before that waits for a
// manager that is not there. What was patched is never undone here, since the API forbids switching the feature off.
package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fleet/machines"
)

// Clients reach one API server.
type Clients struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Parts are the parts of one cluster next to its control plane.
type Parts struct {
	// Name of the cluster, for sentences; Namespace of its control plane in the seed.
	Name, Namespace string
	// Seed hosts the machine components, User runs the CSI driver.
	Seed, User Clients
	// Provider as --cloud-provider names it: aws, azure, gce, openstack, vsphere.
	Provider string
	// Minor of the user cluster's API server: 26 for v1.26.3.
	Minor int
	// CCMReady: a cloud-controller-manager runs every loop. Without it nothing is changed, and what is there is only
	// looked at.
	CCMReady bool
	// CSI reports whether the CSI driver is wanted: not spec.disableCsiDriver.
	CSI bool
	// ClusterName by which the driver marks disks as this cluster's: on AWS the id in the tag kubernetes.io/cluster/<id>.
	// Empty leaves disks unmarked, and on vSphere, which needs a mark, means Name.
	ClusterName string
}

// Result is what Ensure found and did.
type Result struct {
	// Ready: everything below is.
	Ready bool
	// MachinesReady: machine-controller, its webhook and operating-system-manager have rolled out with their flags
	// (machines.Looker.PartsReady).
	MachinesReady bool
	// CSIReady: the driver's controller and its node part run, or no driver is wanted. CSIMessage says which, or what is
	// missing.
	CSIReady   bool
	CSIMessage string
	// Waiting are sentences about what is not ready, sorted.
	Waiting []string
	// Did are sentences about what this call changed, for events.
	Did []string
	// Volumes are what every external machine has to run for its volumes (machines.Looker.Volumes).
	Volumes []machines.Volume
}

// Ensure brings the parts to what they have to be, as far as one call can, and looks at them. It may be called again at
// any time and changes nothing that is right. It waits for nothing but answers. The result holds what was found also
// when there is an error: one half may fail and the other not.
func (p Parts) Ensure(ctx context.Context) (Result, error) {
	var r Result
	if !p.CCMReady {
		r.wait("the cloud-controller-manager is not ready, before which no machine may become external")
	}
	volumes, gates, err := p.migration(ctx, &r)
	if err != nil {
		return r, err
	}
	r.Volumes = volumes
	err = errors.Join(p.machineComponents(ctx, &r, gates), p.drivers(ctx, &r))
	r.Ready = err == nil && p.CCMReady && r.MachinesReady && r.CSIReady
	slices.Sort(r.Waiting)
	return r, err
}

func (r *Result) wait(format string, args ...any) {
	r.Waiting = append(r.Waiting, fmt.Sprintf(format, args...))
}

func (r *Result) did(format string, args ...any) { r.Did = append(r.Did, fmt.Sprintf(format, args...)) }

// migration finds which in-tree plugins kubelets hand over to their drivers. The new machines show which, and which
// feature gates they need for it next to their defaults. A kubelet must not hand over what kube-controller-manager does
// not (KEP-625), so its gates decide.
func (p Parts) migration(ctx context.Context, r *Result) ([]machines.Volume, []string, error) {
	if !p.CSI {
		return nil, nil, nil
	}
	manager, err := p.managerGates(ctx)
	if err != nil {
		return nil, nil, err
	}
	var volumes []machines.Volume
	var gates []string
	provider, _ := cloudprovider.Lookup(p.Provider)
	for _, d := range driversOf[p.Provider] {
		v := machines.Volume{Driver: d.name}
		i := slices.IndexFunc(provider.Plugins, func(v cloudprovider.VolumePlugin) bool { return v.Driver == d.name })
		if i < 0 {
			volumes = append(volumes, v)
			continue
		}
		plugin := provider.Plugins[i]
		kubelet := catalogue.GateFor(component.Kubelet, plugin.MigrationGate, p.Minor)
		switch on := manager(plugin.MigrationGate); {
		case !kubelet.Known || kubelet.Default:
			v.Plugin = plugin.Name
		case on:
			v.Plugin = plugin.Name
			gates = append(gates, plugin.MigrationGate)
		default:
			r.addCSIMessage(
				"volumes of %s go on in-tree: kube-controller-manager does not have the feature gate %s",
				plugin.Name,
				plugin.MigrationGate,
			)
		}
		volumes = append(volumes, v)
	}
	return volumes, gates, nil
}

// addCSIMessage adds to the message about the CSI driver.
func (r *Result) addCSIMessage(format string, args ...any) {
	if r.CSIMessage != "" {
		r.CSIMessage += "; "
	}
	r.CSIMessage += fmt.Sprintf(format, args...)
}

// managerGates returns which feature gates kube-controller-manager runs with.
func (p Parts) managerGates(ctx context.Context) (func(string) bool, error) {
	const name = "controller-manager"
	d, err := p.Seed.Dynamic.Resource(deploymentsResource).Namespace(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", p.Namespace, name, err)
	}
	_, container, err := podOf(d, name)
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", p.Namespace, name, err)
	}
	_, list, _ := readCommandLine(container.Command, container.Args).find("feature-gates", false)
	set := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		gate, value, _ := strings.Cut(part, "=")
		set[strings.TrimSpace(gate)] = strings.TrimSpace(value)
	}
	return func(gate string) bool {
		if v, ok := set[gate]; ok {
			return isTrue(v)
		}
		known := catalogue.GateFor(component.KCM, gate, p.Minor)
		return !known.Known || known.Default
	}, nil
}
