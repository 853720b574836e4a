package vsphere

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// confirmations is how many nodes whose machine no list has are asked for one by one in a call. Those that are left
// over are not known.
const confirmations = 20

// errLeftOut is that the lists lack a machine, and that it is not certain that it is gone.
var errLeftOut = errors.New("the list of virtual machines lacks it; it will be asked for again")

var (
	uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	idForm   = regexp.MustCompile(`^(?:vsphere://)?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)
)

// reversed is a UUID with the first three fields in the other byte order. SMBIOS before 2.6 has them in that order, and
// so have guests that read it.
func reversed(uuid string) string {
	b := []byte(uuid)
	for _, field := range [][2]int{{0, 8}, {9, 13}, {14, 18}} {
		for i, j := field[0], field[1]-2; i < j; i, j = i+2, j-2 {
			b[i], b[i+1], b[j], b[j+1] = b[j], b[j+1], b[i], b[i+1]
		}
	}
	return string(b)
}

// sought is what is known of the machine of one node.
type sought struct {
	node string
	id   string // of the provider ID; empty for none
	uuid string // that the kubelet reports; empty for none
	err  error
}

func seek(node *corev1.Node) sought {
	s := sought{node: node.Name}
	if uuid := strings.ToLower(strings.TrimSpace(node.Status.NodeInfo.SystemUUID)); uuidForm.MatchString(uuid) {
		s.uuid = uuid
	}
	if node.Spec.ProviderID == "" {
		return s
	}
	match := idForm.FindStringSubmatch(strings.ToLower(strings.TrimSpace(node.Spec.ProviderID)))
	if match == nil {
		s.err = fmt.Errorf("the providerID %q of node %q is not of the form vsphere://UUID", node.Spec.ProviderID, node.Name)
		return s
	}
	s.id = match[1]
	return s
}

// location is where a machine was last.
type location struct {
	vcenter  *client.VCenter
	ref      client.Ref
	diskUUID *bool // of the machine, when it was listed
}

// finder finds the machines of nodes in an inventory, and is sure before it says that there is none.
type finder struct {
	vcenters []*client.VCenter

	mu   sync.Mutex
	last map[string]location // by UUID
}

// index is an inventory by what machines are found by.
type index struct {
	*inventory

	byUUID map[string][]*client.Machine
	byName map[string][]*client.Machine // in lower case: by the guest's host name, its first part, and the machine's name
}

func newIndex(i *inventory) *index {
	x := &index{inventory: i, byUUID: map[string][]*client.Machine{}, byName: map[string][]*client.Machine{}}
	for _, listing := range i.listings {
		for _, m := range listing.Machines {
			if m.UUID != "" {
				x.byUUID[m.UUID] = append(x.byUUID[m.UUID], m)
			}
			host := strings.ToLower(m.HostName)
			short, _, _ := strings.Cut(host, ".")
			for _, name := range slices.Compact([]string{host, short, strings.ToLower(m.Name)}) {
				if name != "" && !slices.Contains(x.byName[name], m) {
					x.byName[name] = append(x.byName[name], m)
				}
			}
		}
	}
	return x
}

// find returns the machine of a node, or nil with no error where no list has it. The provider ID decides where there is
// one.
func (x *index) find(s sought) (*client.Machine, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.id != "" {
		m, err := x.withUUID(s.node, s.id)
		if m != nil || err != nil {
			return m, err
		}
		if s.uuid != "" {
			if other, err := x.withUUID(s.node, s.uuid); err == nil && other != nil && other.UUID != s.id {
				return nil, fmt.Errorf("node %q has the providerID vsphere://%s, which no virtual machine has, and runs on %s, "+
					"whose UUID is %s: the machine's UUID was changed; delete the Node and let its kubelet register again",
					s.node, s.id, describeMachine(other), other.UUID)
			}
		}
		return nil, nil
	}
	if s.uuid != "" {
		if m, err := x.withUUID(s.node, s.uuid); m != nil || err != nil {
			return m, err
		}
	}
	return x.only(s.node, "name", x.byName[strings.ToLower(s.node)])
}

func (x *index) withUUID(node, uuid string) (*client.Machine, error) {
	all := slices.Clone(x.byUUID[uuid])
	if other := reversed(uuid); other != uuid {
		all = append(all, x.byUUID[other]...)
	}
	return x.only(node, "UUID "+uuid, all)
}

// only is the one machine of a list. Two are an error that names both: either could be the node's.
func (x *index) only(node, what string, all []*client.Machine) (*client.Machine, error) {
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		if !all[0].Listed {
			return nil, fmt.Errorf("%s is the machine of node %q, and its datacenter %q is not one of those in the cloud config",
				describeMachine(all[0]), node, all[0].Datacenter)
		}
		return all[0], nil
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = describeMachine(m)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("%d virtual machines have the %s of node %q: %s; give all but one another, or remove them",
		len(all), what, node, strings.Join(names, " and "))
}

func describeMachine(m *client.Machine) string {
	return fmt.Sprintf("virtual machine %q (%s) of vCenter %s", m.Name, m.Ref.Value, m.VCenter)
}

// rememberMachine keeps where a machine is.
func (f *finder) rememberMachine(m *client.Machine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.vcenters {
		if v.Name() == m.VCenter {
			f.last[m.UUID] = location{v, m.Ref, m.DiskUUID}
		}
	}
}

func (f *finder) lastOf(s sought) (location, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, uuid := range s.uuids() {
		if at, ok := f.last[uuid]; ok {
			return at, true
		}
	}
	return location{}, false
}

// uuids are what the machine's UUID may be.
func (s sought) uuids() (all []string) {
	for _, uuid := range []string{s.id, s.uuid} {
		if uuid != "" {
			all = append(all, uuid, reversed(uuid))
		}
	}
	return all
}

// confirm returns nil when it is certain that a node's machine is gone. Every vCenter has listed all that it has, and
// none finds the machine when it is asked for alone. A machine may move between two vCenters while they are listed.
func (f *finder) confirm(ctx context.Context, x *index, s sought) error {
	if len(x.failed) > 0 {
		return fmt.Errorf("the virtual machine of node %q may be in a vCenter that did not answer: %w",
			s.node, errors.Join(x.errors()...))
	}
	at, known := f.lastOf(s)
	if known {
		switch err := at.vcenter.Exists(ctx, at.ref); {
		case err == nil:
			return fmt.Errorf("node %q: %w", s.node, errLeftOut)
		case !client.NotFound(err):
			return fmt.Errorf("node %q: %w", s.node, err)
		}
	} else if err := x.readable(s); err != nil {
		return err
	}
	for _, v := range f.vcenters {
		found, err := f.search(ctx, v, s)
		if err != nil {
			return fmt.Errorf("node %q: %w", s.node, err)
		}
		if found {
			return fmt.Errorf("node %q: %w", s.node, errLeftOut)
		}
	}
	return nil
}

// readable is an error while a machine has no UUID that vCenter can read: it may be the node's.
func (x *index) readable(s sought) error {
	for _, listing := range x.listings {
		if len(listing.Unreadable) > 0 {
			return fmt.Errorf("no virtual machine is known to be that of node %q, and vCenter cannot read the UUID of %s (%d in all): "+
				"it may be the node's; make its datastore accessible, or remove it from the inventory",
				s.node, describeMachine(listing.Unreadable[0]), len(listing.Unreadable))
		}
	}
	return nil
}

func (f *finder) search(ctx context.Context, v *client.VCenter, s sought) (found bool, _ error) {
	uuids := s.uuids()
	slices.Sort(uuids)
	for _, uuid := range slices.Compact(uuids) {
		refs, err := v.FindByUUID(ctx, uuid)
		if err != nil || len(refs) > 0 {
			return len(refs) > 0, err
		}
	}
	if s.id != "" {
		return false, nil
	}
	refs, err := v.FindByName(ctx, s.node)
	return len(refs) > 0, err
}
