package ccm

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// InheritedFlag is read from the live kube-controller-manager and given to the cloud-controller-manager.
type InheritedFlag struct {
	Name string
	// Why says what would happen with another value.
	Why string
	// NodeIPAM reports whether only a manager with node IPAM takes it.
	NodeIPAM bool
	// Tunes reports whether another value changes a rate, a port or a log, and nothing that the cloud holds.
	Tunes bool
}

// InheritedFlags are all such flags, in the order in which they are written.
var InheritedFlags = []InheritedFlag{
	{
		Name: "cluster-name",
		Why:  "it names load balancers and cloud tags: with another one every load balancer is orphaned and made again (OpenStack, GCE, Azure)",
	},
	{
		Name: "cluster-cidr",
		Why:  "routes outside of it are left alone, those inside without a node are deleted: with another one every route is orphaned or lost",
	},
	{
		Name: "configure-cloud-routes",
		Why:  "it is true unless said otherwise: where the CNI routes, the table would fill up with routes next to it",
	},
	{Name: "allocate-node-cidrs", Why: "without it there is no route loop; where node IPAM runs is said by --controllers"},
	{Name: "route-reconciliation-period", Why: "the rate at which routes are repaired stays", Tunes: true},
	{
		Name:  "concurrent-service-syncs",
		Why:   "the rate at which load balancers are made stays, and with it the load on the cloud",
		Tunes: true,
	},
	{Name: "node-monitor-period", Why: "how soon a node whose instance is gone is deleted", Tunes: true},
	{Name: "allow-untagged-cloud", Why: "a cluster whose instances carry no tag of it is refused otherwise"},
	{Name: "cidr-allocator-type", Why: "who decides which pod CIDR a node gets", NodeIPAM: true},
	{Name: "node-cidr-mask-size", Why: "nodes to come get blocks of the size of those that are there", NodeIPAM: true},
	{
		Name:     "node-cidr-mask-size-ipv4",
		Why:      "nodes to come get blocks of the size of those that are there",
		NodeIPAM: true,
	},
	{
		Name:     "node-cidr-mask-size-ipv6",
		Why:      "nodes to come get blocks of the size of those that are there",
		NodeIPAM: true,
	},
	{Name: "service-cluster-ip-range", Why: "no node gets a block of the Services' range", NodeIPAM: true},
	{Name: "tls-cipher-suites", Why: "what the cluster's owner allows on the serving port", Tunes: true},
	{Name: "tls-min-version", Why: "what the cluster's owner allows on the serving port", Tunes: true},
	{Name: "v", Why: "logs stay as detailed as they were", Tunes: true},
}

// InheritFlags are the values that a cloud-controller-manager gets of the flags of the live kube-controller-manager m.
func InheritFlags(d *draft.Draft, m *v1.Component) []controlplane.Flag {
	values := flagvalue.MergeFlags(map[string]string{"cluster-name": clusterview.DefaultClusterName}, m.Flags)
	if d.Options.ClusterName != "" {
		values["cluster-name"] = d.Options.ClusterName
	}
	var out []controlplane.Flag
	for _, c := range InheritedFlags {
		if v, ok := values[c.Name]; ok && (!c.NodeIPAM || d.MoveIPAM) && d.Program.KnowsFlag(c.Name) {
			out = append(out, controlplane.Flag{Name: c.Name, Value: v})
		}
	}
	return out
}

// nodeController is what a cloud-controller-manager calls the loop that initialises nodes.
func nodeController(minor int) string {
	if controllernames.DialectOf(controllernames.CloudControllerManager, minor) == controllernames.Short {
		return "cloud-node"
	}
	return "cloud-node-controller"
}

// ControllersFlag is the --controllers list of the cloud-controller-manager. What the owner of the cluster switched off
// in the kube-controller-manager stays off. A cloud-node-manager has the node loop where there is one, and node IPAM
// runs in one place. Empty means its default.
func ControllersFlag(d *draft.Draft, kcmList string) string {
	var more []string
	for _, loop := range controllernames.CloudLoops {
		if flagvalue.IsLoopDisabled(kcmList, loop) {
			more = append(more, "-"+controllernames.Name(controllernames.CloudControllerManager, d.Program.Minor, loop))
		}
	}
	if needsNodeManager(d) {
		more = append(more, "-"+nodeController(d.Program.Minor))
	}
	switch {
	case d.MoveIPAM && !d.Program.IPAMOn:
		more = append(more, d.Program.IPAMName)
	case !d.MoveIPAM && d.Program.IPAMOn:
		more = append(more, "-"+d.Program.IPAMName)
	}
	if len(more) == 0 {
		return ""
	}
	return strings.Join(append([]string{"*"}, more...), ",")
}
