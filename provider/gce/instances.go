package gce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	compute "google.golang.org/api/compute/v1"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/gce/client"
)

const (
	// pageSize is the most instances that Compute Engine lists in one answer.
	pageSize = 500
	// direct is for how many nodes the instances are asked for one by one, which is cheaper than a list.
	direct = 3
	// lookups is how many instances a call asks for that the list lacks. Those that are left over are not known.
	lookups = 20
)

// instances reads the instances of nodes.
type instances struct{ project *project }

// place is where an instance is. zone is empty for a Node without a provider ID.
type place struct{ zone, name string }

var providerID = regexp.MustCompile(`^gce://([^/]+)/([^/]+)/([^/]+)$`)

// placeOf is where a Node's instance is. A provider ID of another project or cloud is an error: this project's answers
// say nothing about it.
func placeOf(project string, node *corev1.Node) (place, error) {
	id := node.Spec.ProviderID
	if id == "" {
		name, _, _ := strings.Cut(node.Name, ".") // a Node may be called by the instance's whole DNS name
		return place{name: name}, nil
	}
	parts := providerID.FindStringSubmatch(id)
	if parts == nil {
		return place{}, fmt.Errorf("node %q: the provider ID %q is none of Compute Engine, which are gce://PROJECT/ZONE/NAME",
			node.Name, id)
	}
	if parts[1] != project {
		return place{}, fmt.Errorf("node %q: its instance is in project %s, and this manager has project %s: "+
			"set project-id in the cloud config", node.Name, parts[1], project)
	}
	return place{zone: parts[2], name: parts[3]}, nil
}

// list describes the instances of nodes.
func (i *instances) list(ctx context.Context, nodes []*corev1.Node, want cloud.Want) ([]cloud.InstanceState, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	l, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) > direct {
		if err := l.read(ctx, ""); err != nil {
			return nil, err
		}
	}
	states := make([]cloud.InstanceState, len(nodes))
	for n, node := range nodes {
		instance, err := l.find(ctx, node)
		switch {
		case err != nil:
			states[n].Err = err
		case instance != nil:
			states[n] = stateOf(l.project, instance, want)
		}
	}
	return states, nil
}

// listing is what is known of a project's instances.
type listing struct {
	instances *instances
	project   string
	zones     []string // the managed ones
	known     map[place]*compute.Instance
	isRead    bool
	problem   error // why the list is not complete; nil when it is
	left      int   // lookups
}

func (i *instances) open(ctx context.Context) (*listing, error) {
	name, err := i.project.name(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := i.project.managedZones(ctx)
	if err != nil {
		return nil, err
	}
	return &listing{
		instances: i, project: name, zones: zones, known: map[place]*compute.Instance{}, left: lookups,
	}, nil
}

// read lists the instances of all zones, or those that pass a filter.
func (l *listing) read(ctx context.Context, filter string) error {
	all := l.instances.project.compute().Instances.AggregatedList(l.project).MaxResults(pageSize)
	if filter != "" {
		all = all.Filter(filter)
	}
	err := all.ReturnPartialSuccess(false).Pages(ctx, func(page *compute.InstanceAggregatedList) error {
		problems := []error{l.problem, incomplete(page.Warning)}
		if len(page.Unreachables) > 0 {
			problems = append(problems, fmt.Errorf("not reachable were %s", strings.Join(page.Unreachables, ", ")))
		}
		for scope, list := range page.Items {
			if err := incomplete(list.Warning); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", scope, err))
			}
			for _, instance := range list.Instances {
				l.known[place{path.Base(instance.Zone), instance.Name}] = instance
			}
		}
		l.problem = errors.Join(problems...)
		return nil
	})
	if err != nil {
		return explain(err, "listing the instances of project %s", l.project)
	}
	l.isRead = l.isRead || filter == ""
	return nil
}

// incomplete is an error for a warning that says that a list lacks something. An empty zone has a warning, too.
func incomplete(warning any) error {
	code, message := "", ""
	switch w := warning.(type) {
	case *compute.InstanceAggregatedListWarning:
		if w != nil {
			code, message = w.Code, w.Message
		}
	case *compute.InstancesScopedListWarning:
		if w != nil {
			code, message = w.Code, w.Message
		}
	case *compute.ZoneListWarning:
		if w != nil {
			code, message = w.Code, w.Message
		}
	case *compute.RouteListWarning:
		if w != nil {
			code, message = w.Code, w.Message
		}
	case *compute.ForwardingRuleListWarning:
		if w != nil {
			code, message = w.Code, w.Message
		}
	case *compute.InstanceGroupsListInstancesWarning:
		if w != nil {
			code, message = w.Code, w.Message
		}
	}
	if code == "" || code == "NO_RESULTS_ON_PAGE" {
		return nil
	}
	return fmt.Errorf("the list of Compute Engine is not complete: %s %s", code, message)
}

// errNotAsked is that an instance is not in the list, and was not asked for.
var errNotAsked = errors.New("the list of Compute Engine lacks it, and too many others for all to be asked for; " +
	"it will be asked for again")

// find is the instance of a Node; nil for one that Compute Engine has said does not exist.
func (l *listing) find(ctx context.Context, node *corev1.Node) (*compute.Instance, error) {
	at, err := placeOf(l.project, node)
	if err != nil {
		return nil, err
	}
	places := []place{at}
	if at.zone == "" {
		places = nil
		for _, zone := range l.zones {
			places = append(places, place{zone, at.name})
		}
	}
	var found []*compute.Instance
	for _, p := range places {
		if instance := l.known[p]; instance != nil {
			found = append(found, instance)
		}
	}
	if len(found) == 0 {
		if found, err = l.ask(ctx, node, places); err != nil {
			return nil, err
		}
	}
	switch len(found) {
	case 0:
		if at.zone != "" {
			return nil, nil
		}
		return l.findInOtherZones(ctx, node, at.name)
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("node %q: several zones have an instance of this name, and it has no provider ID: %s and %s",
			node.Name, path.Base(found[0].Zone), path.Base(found[1].Zone))
	}
}

// findInOtherZones looks for the instance of a Node without a provider ID where none is looked for. One in a zone that
// the region has got since is found. Another is an error: that the managed zones lack it does not say that it is gone.
func (l *listing) findInOtherZones(ctx context.Context, node *corev1.Node, name string) (*compute.Instance, error) {
	if !l.isRead {
		if err := l.read(ctx, "name eq "+name); err != nil {
			return nil, fmt.Errorf("looking for the instance of node %q in all zones: %w", node.Name, err)
		}
	}
	for at := range l.known {
		if at.name != name {
			continue
		}
		zones, err := l.instances.project.managedZones(ctx, at.zone)
		if err != nil {
			return nil, err
		}
		if l.zones = zones; slices.Contains(zones, at.zone) {
			return l.find(ctx, node)
		}
		return nil, fmt.Errorf("node %q: its instance is in zone %s, and instances of nodes without a provider ID are looked for "+
			"in %s alone: %s", node.Name, at.zone, strings.Join(l.zones, ", "), l.instances.project.zoneRemedy())
	}
	if l.problem != nil {
		return nil, fmt.Errorf("node %q: no list of project %s has its instance, and %w", node.Name, l.project, l.problem)
	}
	return nil, nil
}

// ask asks for an instance that is not in the list. That a list lacks it does not say that it does not exist.
func (l *listing) ask(ctx context.Context, node *corev1.Node, places []place) (found []*compute.Instance, err error) {
	if l.isRead && l.left == 0 {
		return nil, fmt.Errorf("node %q: %w", node.Name, errNotAsked)
	}
	if l.isRead && l.problem != nil {
		return nil, fmt.Errorf("node %q: its instance is not in the list of project %s, and %w",
			node.Name, l.project, l.problem)
	}
	l.left--
	for _, p := range places {
		instance, err := l.instances.project.compute().Instances.Get(l.project, p.zone, p.name).Context(ctx).Do()
		switch {
		case client.IsNotFound(err) && strings.Contains(err.Error(), "/instances/"+p.name):
		case err != nil: // a 404 that names the project or the zone says nothing about the instance
			return nil, explain(err, "reading instance %s in zone %s of node %q", p.name, p.zone, node.Name)
		case instance.Name != p.name || path.Base(instance.Zone) != p.zone:
			return nil, fmt.Errorf("reading instance %s in zone %s of node %q: the answer describes another one",
				p.name, p.zone, node.Name)
		default:
			l.known[p] = instance
			found = append(found, instance)
		}
	}
	return found, nil
}

// stoppedStates are those of an instance that runs no more. One that is stopping may still write.
var stoppedStates = []string{"TERMINATED", "STOPPED", "SUSPENDED"}

func stateOf(project string, instance *compute.Instance, want cloud.Want) cloud.InstanceState {
	if instance.Status == "" {
		return cloud.InstanceState{Err: fmt.Errorf("instance %s: the answer has no status", instance.Name)}
	}
	state := cloud.InstanceState{Exists: true, Shutdown: slices.Contains(stoppedStates, instance.Status)}
	if want&cloud.WantPodCIDRs != 0 {
		state.PodCIDRs = podCIDRsOf(instance)
	}
	if want&cloud.WantMetadata == 0 {
		return state
	}
	var err error
	if state.Metadata, err = metadataOf(project, instance); err != nil {
		return cloud.InstanceState{Err: err}
	}
	return state
}

// metadataOf is what upstream's provider writes about an instance's Node.
func metadataOf(project string, instance *compute.Instance) (*cloudprovider.InstanceMetadata, error) {
	zone := path.Base(instance.Zone)
	at := zoneName.FindStringSubmatch(zone)
	if at == nil {
		return nil, fmt.Errorf("instance %s: its zone %q is no zone", instance.Name, zone)
	}
	addresses, err := addressesOf(instance)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: fmt.Sprintf("%s://%s/%s/%s", Name, project, zone, instance.Name), InstanceType: path.Base(instance.MachineType),
		NodeAddresses: addresses, Zone: zone, Region: at[1],
	}, nil
}

// addressesOf are the addresses of each interface: internal, external, IPv6. Upstream also gives the empty external
// address of an interface whose address is not assigned yet.
func addressesOf(instance *compute.Instance) ([]corev1.NodeAddress, error) {
	var all []corev1.NodeAddress
	add := func(kind corev1.NodeAddressType, text string) error {
		if text == "" {
			return nil
		}
		if _, err := netip.ParseAddr(text); err != nil {
			return fmt.Errorf("instance %s: %q is no address", instance.Name, text)
		}
		all = append(all, corev1.NodeAddress{Type: kind, Address: text})
		return nil
	}
	var problems []error
	for _, nic := range instance.NetworkInterfaces {
		problems = append(problems, add(corev1.NodeInternalIP, nic.NetworkIP))
		for _, access := range nic.AccessConfigs {
			problems = append(problems, add(corev1.NodeExternalIP, access.NatIP))
		}
		problems = append(problems, add(corev1.NodeInternalIP, sixOf(nic)))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	isInternal := func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }
	if !slices.ContainsFunc(all, isInternal) {
		return nil, fmt.Errorf("instance %s has no internal address: give it a network interface", instance.Name)
	}
	return all, nil
}

func sixOf(nic *compute.NetworkInterface) string {
	if nic.Ipv6Address != "" || nic.Ipv6AccessType != "EXTERNAL" || len(nic.Ipv6AccessConfigs) == 0 {
		return nic.Ipv6Address
	}
	return nic.Ipv6AccessConfigs[len(nic.Ipv6AccessConfigs)-1].ExternalIpv6 // the one that upstream takes
}

// primary is what Compute Engine calls an instance's first interface, wherever it is in the list.
const primary = "nic0"

// podMaskSix is the size of a node's IPv6 block for pods: the first one of the range that its interface has.
const podMaskSix = 112

// podCIDRsOf are the ranges for pods that Compute Engine sends to an instance. They are the alias ranges of its first
// interface, and a block of that interface's IPv6 range. Ranges of other interfaces are of other networks.
func podCIDRsOf(instance *compute.Instance) (all []string) {
	if len(instance.NetworkInterfaces) == 0 {
		return nil
	}
	nic := instance.NetworkInterfaces[0]
	isPrimary := func(n *compute.NetworkInterface) bool { return n.Name == primary }
	if i := slices.IndexFunc(instance.NetworkInterfaces, isPrimary); i >= 0 {
		nic = instance.NetworkInterfaces[i]
	}
	for _, alias := range nic.AliasIpRanges {
		all = append(all, alias.IpCidrRange)
	}
	if six, err := netip.ParseAddr(sixOf(nic)); err == nil {
		all = append(all, netip.PrefixFrom(six, podMaskSix).Masked().String())
	}
	return all
}
