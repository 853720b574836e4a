package azure

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/azure/client"
)

// listing is what a call knows of machines.
type listing struct {
	instances *instances
	known     map[place]*machine
	groups    []string // those that were read whole
	left      int      // lookups
}

// readAll reads the resource groups of nodes: one list of machines, one of scale sets, and one for each set.
func (l *listing) readAll(ctx context.Context, nodes []*corev1.Node) error {
	for _, node := range nodes {
		if isUnmanaged(node) {
			continue
		}
		at, err := l.instances.placeOf(node)
		if err != nil {
			continue // find says so
		}
		if err := l.read(ctx, at.group); err != nil {
			return err
		}
	}
	return nil
}

// read reads a resource group. A list that is not complete is an error.
func (l *listing) read(ctx context.Context, group string) error {
	if slices.Contains(l.groups, group) {
		return nil
	}
	if l.instances.hasMachines() {
		pages := l.instances.client.VMs.NewListPager(group, nil)
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return explain(err, "listing the machines of resource group %s", group)
			}
			for _, vm := range page.Value {
				l.keep(machineOf(group, vm))
			}
		}
	}
	if l.instances.hasSets() {
		if err := l.readSets(ctx, group); err != nil {
			return err
		}
	}
	l.groups = append(l.groups, group)
	return nil
}

func (l *listing) readSets(ctx context.Context, group string) error {
	pages := l.instances.client.ScaleSets.NewListPager(group, nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explain(err, "listing the scale sets of resource group %s", group)
		}
		for _, set := range page.Value {
			mode := deref(deref(set.Properties).OrchestrationMode)
			if mode == armcompute.OrchestrationModeFlexible {
				continue // its machines are in the list of machines
			}
			if err := l.readSet(ctx, group, deref(set.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

var instanceView = string(armcompute.InstanceViewTypesInstanceView)

func (l *listing) readSet(ctx context.Context, group, set string) error {
	pages := l.instances.client.ScaleSetVMs.NewListPager(group, set,
		&armcompute.VirtualMachineScaleSetVMsClientListOptions{Expand: &instanceView})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if client.IsNotFound(err) {
			return nil // the set was deleted after it was listed
		}
		if err != nil {
			return explain(err, "listing the machines of scale set %s in resource group %s", set, group)
		}
		for _, vm := range page.Value {
			l.keep(setMachineOf(group, set, vm))
		}
	}
	return nil
}

func (l *listing) keep(m *machine) { l.known[m.place] = m }

// errNotAsked is that a machine is not in the lists, and was not asked for.
var errNotAsked = errors.New("the lists of Azure lack it, and too many others for all to be asked for; " +
	"it will be asked for again")

// find is the machine of a Node; nil for one that Azure has said does not exist.
func (l *listing) find(ctx context.Context, node *corev1.Node) (*machine, error) {
	at, err := l.instances.placeOf(node)
	if err != nil {
		return nil, err
	}
	if at.name == "" {
		return l.findByName(ctx, node, at.group)
	}
	if found := l.known[at]; found != nil {
		return found, nil
	}
	return l.ask(ctx, node, at)
}

// findByName finds the machine of a Node that has no provider ID yet: by its name, or by the name of its system.
func (l *listing) findByName(ctx context.Context, node *corev1.Node, group string) (*machine, error) {
	name := strings.ToLower(node.Name)
	if !l.instances.hasSets() {
		at := place{group: group, name: name}
		if found := l.known[at]; found != nil {
			return found, nil
		}
		return l.ask(ctx, node, at)
	}
	if err := l.read(ctx, group); err != nil {
		return nil, fmt.Errorf("node %q has no provider ID: %w", node.Name, err)
	}
	var found []*machine
	for _, m := range l.known {
		if m.place.group == group && m.nodeName == name {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("node %q has no provider ID, and is the name of two machines: %s and %s",
			node.Name, found[0].place, found[1].place)
	case l.instances.hasMachines():
		return l.ask(ctx, node, place{group: group, name: name})
	}
	return nil, nil
}

// ask asks for a machine that is not in the lists. That a list lacks it does not say that it does not exist.
func (l *listing) ask(ctx context.Context, node *corev1.Node, at place) (*machine, error) {
	if len(l.groups) > 0 && l.left == 0 {
		return nil, fmt.Errorf("node %q: %w", node.Name, errNotAsked)
	}
	l.left--
	return l.get(ctx, node, at)
}

// view reads what no list has.
func (l *listing) view(ctx context.Context, node *corev1.Node, m *machine) (*machine, error) {
	return l.get(ctx, node, m.place)
}

func (l *listing) get(ctx context.Context, node *corev1.Node, at place) (*machine, error) {
	var found *machine
	var err error
	view := armcompute.InstanceViewTypesInstanceView
	if at.set == "" {
		var vm armcompute.VirtualMachinesClientGetResponse
		vm, err = l.instances.client.VMs.Get(ctx, at.group, at.name,
			&armcompute.VirtualMachinesClientGetOptions{Expand: &view})
		found = machineOf(at.group, &vm.VirtualMachine)
	} else {
		var vm armcompute.VirtualMachineScaleSetVMsClientGetResponse
		vm, err = l.instances.client.ScaleSetVMs.Get(ctx, at.group, at.set, at.name,
			&armcompute.VirtualMachineScaleSetVMsClientGetOptions{Expand: &view})
		found = setMachineOf(at.group, at.set, &vm.VirtualMachineScaleSetVM)
	}
	switch {
	case client.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, explain(err, "reading %s of node %q", at, node.Name)
	case found.place != at:
		return nil, fmt.Errorf("reading %s of node %q: the answer describes another one", at, node.Name)
	}
	found.isViewed = true
	l.keep(found)
	return found, nil
}

// deref is what a pointer of the SDK points to; the zero value for nil.
func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

func machineOf(group string, vm *armcompute.VirtualMachine) *machine {
	properties := deref(vm.Properties)
	m := &machine{
		place: place{group: group, name: strings.ToLower(deref(vm.Name))}, id: deref(vm.ID),
		nodeName: strings.ToLower(deref(vm.Name)),
		location: deref(vm.Location), provisioning: deref(properties.ProvisioningState),
		size: string(deref(deref(properties.HardwareProfile).VMSize)),
	}
	m.addZones(vm.Zones)
	m.addInterfaces(properties.NetworkProfile)
	if view := properties.InstanceView; view != nil {
		m.isViewed, m.faultDomain = true, view.PlatformFaultDomain
		m.addPower(view.Statuses)
	}
	if system := deref(deref(properties.OSProfile).ComputerName); system != "" && properties.VirtualMachineScaleSet != nil {
		m.nodeName = strings.ToLower(system) // of a flexible scale set, whose machines have other names
	}
	return m
}

func setMachineOf(group, set string, vm *armcompute.VirtualMachineScaleSetVM) *machine {
	properties := deref(vm.Properties)
	m := &machine{
		place: place{group, strings.ToLower(set), strings.ToLower(deref(vm.InstanceID))}, id: deref(vm.ID),
		nodeName: strings.ToLower(deref(deref(properties.OSProfile).ComputerName)), location: deref(vm.Location),
		provisioning: deref(properties.ProvisioningState), size: deref(deref(vm.SKU).Name),
	}
	if m.place.name == "" {
		m.place.name = path.Base(m.id)
	}
	m.addZones(vm.Zones)
	m.addInterfaces(properties.NetworkProfile)
	if view := properties.InstanceView; view != nil {
		m.isViewed, m.faultDomain = true, view.PlatformFaultDomain
		m.addPower(view.Statuses)
	}
	return m
}

func (m *machine) addZones(zones []*string) {
	for _, z := range zones {
		m.zones = append(m.zones, deref(z))
	}
}

func (m *machine) addInterfaces(profile *armcompute.NetworkProfile) {
	for _, i := range deref(profile).NetworkInterfaces {
		m.nics = append(m.nics, nic{deref(i.ID), deref(deref(i.Properties).Primary)})
	}
}

func (m *machine) addPower(statuses []*armcompute.InstanceViewStatus) {
	for _, s := range statuses {
		if state, isPower := strings.CutPrefix(strings.ToLower(deref(s.Code)), "powerstate/"); isPower {
			m.power = state
		}
	}
}
