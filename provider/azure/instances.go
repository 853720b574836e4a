package azure

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cloud-provider-azure/pkg/consts"
	upstreamconfig "sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/azure/client"
)

const (
	// direct is for how many nodes the machines are asked for one by one, which is cheaper than the lists.
	direct = 3
	// lookups is how many machines a call asks for that the lists lack. Those that are left over are not known.
	lookups = 20
)

// instances reads the machines of nodes.
type instances struct {
	client *client.Client
	conf   *upstreamconfig.Config
}

// place is where a machine is, in lower case: Azure does not tell names apart by case. set is empty for a machine that
// is in no scale set, or in a flexible one.
type place struct{ group, set, name string }

func (p place) String() string {
	if p.set == "" {
		return fmt.Sprintf("machine %s of resource group %s", p.name, p.group)
	}
	return fmt.Sprintf("machine %s of scale set %s in resource group %s", p.name, p.set, p.group)
}

var providerID = regexp.MustCompile(`(?i)^azure:///subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.Compute/` +
	`(?:virtualMachineScaleSets/([^/]+)/)?virtualMachines/([^/]+)$`)

// placeOf is where a Node's machine is; an empty name for a Node without a provider ID. A provider ID of another
// subscription or cloud is an error: this subscription's answers say nothing about it.
func (i *instances) placeOf(node *corev1.Node) (place, error) {
	id := node.Spec.ProviderID
	if id == "" {
		return place{group: i.groupOf(node)}, nil
	}
	parts := providerID.FindStringSubmatch(id)
	if parts == nil {
		return place{}, fmt.Errorf("node %q: the provider ID %q is none of Azure, which are "+
			"azure:///subscriptions/ID/resourceGroups/NAME/providers/Microsoft.Compute/ and a machine", node.Name, id)
	}
	if !strings.EqualFold(parts[1], i.conf.SubscriptionID) {
		return place{}, fmt.Errorf("node %q: its machine is in subscription %s, and this manager has subscription %s: "+
			"check subscriptionId in the cloud config", node.Name, parts[1], i.conf.SubscriptionID)
	}
	return place{strings.ToLower(parts[2]), strings.ToLower(parts[3]), strings.ToLower(parts[4])}, nil
}

// groupOf is the resource group of a Node without a provider ID.
func (i *instances) groupOf(node *corev1.Node) string {
	if group := node.Labels[consts.ExternalResourceGroupLabel]; group != "" {
		return strings.ToLower(group)
	}
	return strings.ToLower(i.conf.ResourceGroup)
}

// hasSets reports whether nodes may be machines of uniform scale sets.
func (i *instances) hasSets() bool { return strings.EqualFold(i.conf.VMType, consts.VMTypeVMSS) }

// hasMachines reports whether nodes may be machines of no scale set, or of a flexible one.
func (i *instances) hasMachines() bool {
	return !i.hasSets() || !i.conf.DisableAvailabilitySetNodes || i.conf.EnableVmssFlexNodes
}

// isUnmanaged reports whether a Node is a machine outside of Azure, by the label that upstream has for that.
func isUnmanaged(node *corev1.Node) bool {
	return strings.EqualFold(node.Labels[consts.ManagedByAzureLabel], consts.NotManagedByAzureLabelValue)
}

// list describes the machines of nodes.
func (i *instances) list(ctx context.Context, nodes []*corev1.Node, want cloud.Want) ([]cloud.InstanceState, error) {
	l := &listing{instances: i, known: map[place]*machine{}, left: lookups}
	if len(nodes) > direct {
		if err := l.readAll(ctx, nodes); err != nil {
			return nil, err
		}
	}
	states := make([]cloud.InstanceState, len(nodes))
	for n, node := range nodes {
		states[n] = i.stateOf(ctx, l, node, want)
	}
	return states, nil
}

func (i *instances) stateOf(
	ctx context.Context,
	l *listing,
	node *corev1.Node,
	want cloud.Want,
) cloud.InstanceState {
	if isUnmanaged(node) {
		return unmanagedState(node, want)
	}
	found, err := l.find(ctx, node)
	if err != nil || found == nil {
		return cloud.InstanceState{Err: err}
	}
	needsView := want&cloud.WantShutdown != 0 || want&cloud.WantMetadata != 0 && len(found.zones) == 0
	if needsView && !found.isViewed {
		if found, err = l.view(ctx, node, found); err != nil || found == nil {
			return cloud.InstanceState{Err: err}
		}
	}
	state := cloud.InstanceState{Exists: true}
	if want&cloud.WantShutdown != 0 {
		if state.Shutdown, err = found.isShutdown(); err != nil {
			return cloud.InstanceState{Err: fmt.Errorf("node %q: %w", node.Name, err)}
		}
	}
	if want&cloud.WantMetadata != 0 {
		if state.Metadata, err = i.metadata(ctx, node, found); err != nil {
			return cloud.InstanceState{Err: err}
		}
	}
	return state
}

// machine is what is known of a virtual machine.
type machine struct {
	place    place
	id       string // of the resource, as Azure writes it
	nodeName string // in lower case
	location string
	size     string
	zones    []string
	nics     []nic
	// provisioning is such as Succeeded, Failed, Deleting.
	provisioning string
	// isViewed is that what follows was read.
	isViewed    bool
	power       string // such as running, deallocated; empty where Azure does not say
	faultDomain *int32
}

type nic struct {
	id        string
	isPrimary bool
}

// stoppedStates are those of a machine that runs no more. One that is stopping may still write.
var stoppedStates = []string{"stopped", "deallocated"}

// isShutdown reports whether a machine is stopped for good. One that is being changed has no such state.
func (m *machine) isShutdown() (bool, error) {
	if m.power == "" {
		return false, fmt.Errorf("azure does not say whether %s runs; its provisioning state is %s", m.place, m.provisioning)
	}
	isSettled := strings.EqualFold(m.provisioning, "Succeeded") || strings.EqualFold(m.provisioning, "Failed")
	return isSettled && slices.Contains(stoppedStates, m.power), nil
}
