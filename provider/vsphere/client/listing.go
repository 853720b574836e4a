package client

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/transplant-dev/transplant/provider/transport"
)

// Ref names an object of a vCenter.
type Ref = types.ManagedObjectReference

// Machine is a virtual machine.
type Machine struct {
	VCenter string
	Ref     Ref
	Name    string
	// UUID is the BIOS's, in lower case. It is empty while vCenter cannot read the machine's files.
	UUID string
	// HostName is the guest's, as VMware Tools report it.
	HostName string
	NICs     []types.GuestNicInfo
	Power    types.VirtualMachinePowerState
	CPUs     int32
	MemoryMB int32
	GuestID  string
	// Metadata is what guestinfo.metadata gave the guest, encoded as MetadataEncoding says.
	Metadata, MetadataEncoding string
	// DiskUUID reports whether the guest sees the UUIDs of the disks (disk.enableUUID); nil where vCenter does not say.
	DiskUUID *bool
	// Datacenter is the name of the datacenter that it is in; empty where the user may not see it.
	Datacenter string
	// Listed is that the machine is in a datacenter that the cloud config names.
	Listed bool

	host, pool, parent *Ref
}

// Listing is every machine of a vCenter at one time.
type Listing struct {
	Machines []*Machine
	// Unreadable are the machines without a UUID: any node's could be one of them.
	Unreadable []*Machine

	parents map[Ref]Ref
	names   map[Ref]string
}

var (
	machineProperties = []string{
		"name", "parent", "summary.config", "config.uuid", "guest.hostName", "guest.net", "runtime.powerState", "runtime.host",
		"resourcePool", metadataKey, metadataEncodingKey, diskUUIDFlag, diskUUIDKeys[0], diskUUIDKeys[1],
	}
	// placeTypes are what a machine may be below.
	placeTypes = []string{"Folder", "Datacenter", "ComputeResource", "HostSystem", "ResourcePool"}
)

const (
	metadataKey         = `config.extraConfig["guestinfo.metadata"]`
	metadataEncodingKey = `config.extraConfig["guestinfo.metadata.encoding"]`

	// diskUUIDFlag is how vCenter shows disk.enableUUID.
	diskUUIDFlag = "config.flags.diskUuidEnabled"

	datacenterType = "Datacenter"
)

// diskUUIDKeys are how the setting is spelled in the files of machines.
var diskUUIDKeys = [2]string{`config.extraConfig["disk.EnableUUID"]`, `config.extraConfig["disk.enableUUID"]`}

// List reads all machines, and what they are below, in one call. A page that fails fails the list.
func (v *VCenter) List(ctx context.Context) (*Listing, error) {
	var contents []types.ObjectContent
	err := v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		var err error
		ctx, list := lists.Read(ctx, "virtual machines", "vCenter "+v.Name())
		contents, err = s.retrieveAll(ctx, list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	l := &Listing{parents: map[Ref]Ref{}, names: map[Ref]string{}}
	for _, content := range contents {
		l.add(v.Name(), content)
	}
	return l, v.checkDatacenters(l)
}

// lists bound what is read for one list. A vCenter has 40,000 machines at most, of about 5 kB each; its pages are as
// long as it likes.
var lists = transport.List{MaxBytes: 512 << 20, MaxPages: 5000}

// retrieveAll reads the view of all machines, which is made once in a session.
func (s *opened) retrieveAll(ctx context.Context, list *transport.Reading) ([]types.ObjectContent, error) {
	if err := s.makeView(ctx); err != nil {
		return nil, err
	}
	yes := true
	set := []types.PropertySpec{{Type: "VirtualMachine", PathSet: machineProperties}}
	for _, kind := range placeTypes {
		set = append(set, types.PropertySpec{Type: kind, PathSet: []string{"name", "parent"}})
	}
	collector := s.soap.ServiceContent.PropertyCollector
	answer, err := methods.RetrievePropertiesEx(ctx, s.soap, &types.RetrievePropertiesEx{
		This: collector,
		SpecSet: []types.PropertyFilterSpec{{
			PropSet: set,
			ObjectSet: []types.ObjectSpec{{
				Obj: *s.view, Skip: &yes,
				SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: s.view.Type, Path: "view"}},
			}},
		}},
	})
	if NotFound(err) {
		s.view = nil
		return nil, fmt.Errorf("%w: %w", errViewLost, err)
	}
	if err != nil {
		return nil, err
	}
	if answer.Returnval == nil {
		return nil, nil
	}
	contents, token := answer.Returnval.Objects, answer.Returnval.Token
	for token != "" {
		if err := list.Page(); err != nil {
			return nil, err
		}
		more, err := methods.ContinueRetrievePropertiesEx(ctx, s.soap,
			&types.ContinueRetrievePropertiesEx{This: collector, Token: token})
		if err != nil {
			return nil, err
		}
		contents, token = append(contents, more.Returnval.Objects...), more.Returnval.Token
	}
	return contents, nil
}

func (s *opened) makeView(ctx context.Context) error {
	if s.view != nil {
		return nil
	}
	manager := s.soap.ServiceContent.ViewManager
	if manager == nil {
		return fmt.Errorf("it has no ViewManager: it is not a vCenter that this program knows")
	}
	made, err := methods.CreateContainerView(ctx, s.soap, &types.CreateContainerView{
		This: *manager, Container: s.soap.ServiceContent.RootFolder, Recursive: true,
		Type: append([]string{"VirtualMachine"}, placeTypes...),
	})
	if err != nil {
		return err
	}
	s.view = &made.Returnval
	return nil
}

func (l *Listing) add(vcenter string, content types.ObjectContent) {
	properties := map[string]any{}
	for _, p := range content.PropSet {
		properties[p.Name] = p.Val
	}
	parent := refOf(properties["parent"])
	if parent != nil {
		l.parents[content.Obj] = *parent
	}
	name, _ := properties["name"].(string)
	l.names[content.Obj] = name
	if content.Obj.Type != "VirtualMachine" {
		return
	}
	m := &Machine{
		VCenter: vcenter, Ref: content.Obj, Name: name,
		host: refOf(properties["runtime.host"]), pool: refOf(properties["resourcePool"]), parent: parent,
		Metadata: optionOf(properties[metadataKey]), MetadataEncoding: optionOf(properties[metadataEncodingKey]),
	}
	m.DiskUUID = diskUUIDOf(properties)
	m.UUID, _ = properties["config.uuid"].(string)
	m.HostName, _ = properties["guest.hostName"].(string)
	m.Power, _ = properties["runtime.powerState"].(types.VirtualMachinePowerState)
	if nics, ok := properties["guest.net"].(types.ArrayOfGuestNicInfo); ok {
		m.NICs = nics.GuestNicInfo
	}
	if config, ok := properties["summary.config"].(types.VirtualMachineConfigSummary); ok {
		if config.Template {
			return
		}
		m.CPUs, m.MemoryMB, m.GuestID = config.NumCpu, config.MemorySizeMB, config.GuestId
		if m.UUID == "" {
			m.UUID = config.Uuid
		}
	}
	m.UUID = strings.ToLower(m.UUID)
	l.Machines = append(l.Machines, m)
	if m.UUID == "" {
		l.Unreadable = append(l.Unreadable, m)
	}
}

func refOf(value any) *Ref {
	if ref, ok := value.(Ref); ok {
		return &ref
	}
	return nil
}

// diskUUIDOf reports whether the guest of a machine sees the UUIDs of its disks, by the flag or by an entry of its
// file. It is nil where neither is there.
func diskUUIDOf(properties map[string]any) *bool {
	shows, known := properties[diskUUIDFlag].(bool)
	for _, key := range diskUUIDKeys {
		option := optionOf(properties[key])
		on, err := strconv.ParseBool(option)
		shows, known = shows || err == nil && on, known || option != ""
	}
	if !known {
		return nil
	}
	return &shows
}

// optionOf is the value of an entry of config.extraConfig.
func optionOf(value any) string {
	if option, ok := value.(types.BaseOptionValue); ok {
		value = option.GetOptionValue().Value
	} else if option, ok := value.(types.OptionValue); ok {
		value = option.Value
	}
	text, _ := value.(string)
	return text
}

// above are an object and what it is below, the nearest first.
func (l *Listing) above(ref *Ref) (chain []Ref) {
	for at := ref; at != nil && len(chain) < maxDepth; {
		chain = append(chain, *at)
		next, ok := l.parents[*at]
		if !ok {
			break
		}
		at = &next
	}
	return chain
}

// maxDepth ends a chain of parents that has a loop.
const maxDepth = 100

// datacenter is the name and the inventory path of the datacenter that an object is in.
func (l *Listing) datacenter(of *Ref) (name, inventoryPath string) {
	chain := l.above(of)
	i := slices.IndexFunc(chain, func(r Ref) bool { return r.Type == datacenterType })
	if i < 0 {
		return "", ""
	}
	parts := make([]string, 0, len(chain)-i)
	for _, ref := range chain[i:] {
		if _, below := l.parents[ref]; below || ref.Type == datacenterType { // not the root folder
			parts = append(parts, l.names[ref])
		}
	}
	slices.Reverse(parts)
	return l.names[chain[i]], "/" + path.Join(parts...)
}

// checkDatacenters says of each machine whether it is in a datacenter of the cloud config. A datacenter that is not
// there is an error: without it, the machines in it would be missing.
func (v *VCenter) checkDatacenters(l *Listing) error {
	configured := v.options.Config.Datacenters
	matches := func(name, inventoryPath string) func(string) bool {
		return func(want string) bool {
			return want == name || strings.Trim(want, "/") == strings.Trim(inventoryPath, "/")
		}
	}
	seen, all := map[string]bool{}, []string{}
	for ref := range l.names {
		if ref.Type != datacenterType {
			continue
		}
		name, inventoryPath := l.datacenter(&ref)
		all = append(all, inventoryPath)
		for _, want := range configured {
			seen[want] = seen[want] || matches(name, inventoryPath)(want)
		}
	}
	slices.Sort(all)
	for _, want := range configured {
		if !seen[want] {
			return fmt.Errorf("vCenter %s shows no datacenter %q, only %s: correct datacenters in the cloud config, "+
				"or give the user the role Read-only there", v.Name(), want, strings.Join(all, ", "))
		}
	}
	if len(l.Machines) == 0 {
		return fmt.Errorf("vCenter %s shows no virtual machine at all: give the user the role Read-only, "+
			"with propagation, on the vCenter", v.Name())
	}
	for _, m := range l.Machines {
		name, inventoryPath := l.datacenter(m.parent)
		if name == "" {
			name, inventoryPath = l.datacenter(m.host)
		}
		m.Datacenter = name
		m.Listed = len(configured) == 0 || slices.ContainsFunc(configured, matches(name, inventoryPath))
	}
	return nil
}

// Exists asks for one machine alone: nil if it is there, an error that NotFound recognises if vCenter says that it is
// not.
func (v *VCenter) Exists(ctx context.Context, ref Ref) error {
	err := v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		answer, err := methods.RetrievePropertiesEx(ctx, s.soap, &types.RetrievePropertiesEx{
			This: s.soap.ServiceContent.PropertyCollector,
			SpecSet: []types.PropertyFilterSpec{{
				PropSet:   []types.PropertySpec{{Type: ref.Type, PathSet: []string{"name"}}},
				ObjectSet: []types.ObjectSpec{{Obj: ref}},
			}},
		})
		if err == nil && (answer.Returnval == nil || len(answer.Returnval.Objects) == 0) {
			err = fmt.Errorf("it says nothing about machine %s", ref.Value)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("asking for virtual machine %s: %w", ref.Value, err)
	}
	return nil
}

// FindByUUID asks vCenter's index for the machines with a UUID.
func (v *VCenter) FindByUUID(ctx context.Context, uuid string) (found []Ref, _ error) {
	err := v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		no := false
		index, err := s.index()
		if err != nil {
			return err
		}
		answer, err := methods.FindAllByUuid(ctx, s.soap,
			&types.FindAllByUuid{
				This:         index,
				Uuid:         uuid,
				VmSearch:     true,
				InstanceUuid: &no,
			})
		if err == nil {
			found = answer.Returnval
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the virtual machine with UUID %s: %w", uuid, err)
	}
	return found, nil
}

// FindByName asks vCenter's index for the machines whose guest has a DNS name.
func (v *VCenter) FindByName(ctx context.Context, name string) (found []Ref, _ error) {
	err := v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		index, err := s.index()
		if err != nil {
			return err
		}
		answer, err := methods.FindAllByDnsName(ctx, s.soap,
			&types.FindAllByDnsName{This: index, DnsName: name, VmSearch: true})
		if err == nil {
			found = answer.Returnval
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the virtual machine with host name %s: %w", name, err)
	}
	return found, nil
}

func (s *opened) index() (Ref, error) {
	if s.soap.ServiceContent.SearchIndex == nil {
		return Ref{}, fmt.Errorf("it has no SearchIndex: it is not a vCenter that this program knows")
	}
	return *s.soap.ServiceContent.SearchIndex, nil
}
