package vsphere

import (
	"context"
	"errors"
	"fmt"

	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// instances reads the machines of nodes.
type instances struct {
	conf     *cloudconf.Config
	vcenters map[string]*client.VCenter
	lister   *lister
	finder   *finder
}

func newInstances(vcenters []*client.VCenter, conf *cloudconf.Config) *instances {
	i := &instances{
		conf: conf, vcenters: map[string]*client.VCenter{}, lister: newLister(vcenters),
		finder: &finder{vcenters: vcenters, last: map[string]location{}},
	}
	for _, v := range vcenters {
		i.vcenters[v.Name()] = v
	}
	return i
}

// list describes the machines of nodes: one list for each vCenter, and one call for the tags of each where zones are
// wanted. A vCenter that does not answer is an error of those nodes alone that no other vCenter has.
func (i *instances) list(ctx context.Context, nodes []*corev1.Node, want cloud.Want) ([]cloud.InstanceState, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	all, err := i.lister.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(all.listings) == 0 {
		return nil, errors.Join(all.errors()...)
	}
	x := newIndex(all)
	states := make([]cloud.InstanceState, len(nodes))
	machines := make([]*client.Machine, len(nodes))
	left := confirmations
	for n, node := range nodes {
		s := seek(node)
		m, err := x.find(s)
		switch {
		case err != nil:
			states[n].Err = err
		case m != nil:
			i.finder.rememberMachine(m)
			machines[n] = m
			states[n] = cloud.InstanceState{Exists: true, Shutdown: m.Power == types.VirtualMachinePowerStatePoweredOff}
		case left == 0:
			states[n].Err = fmt.Errorf("node %q: %w", node.Name, errLeftOut)
		default:
			left--
			states[n].Err = i.finder.confirm(ctx, x, s)
		}
	}
	if want&cloud.WantMetadata != 0 {
		i.describe(ctx, x, machines, states)
	}
	return states, nil
}

// describe adds metadata to the states of machines. One that is powered off has none: its guest reports no address.
func (i *instances) describe(ctx context.Context, x *index, machines []*client.Machine, states []cloud.InstanceState) {
	running := map[string][]*client.Machine{}
	for n, m := range machines {
		if m != nil && !states[n].Shutdown {
			running[m.VCenter] = append(running[m.VCenter], m)
		}
	}
	attached, failed := map[string]client.Tags{}, map[string]error{}
	if i.conf.Labels.Zone != "" {
		for name, of := range running {
			attached[name], failed[name] = i.vcenters[name].AttachedTags(ctx, x.listings[name].Places(of))
		}
	}
	for n, m := range machines {
		if m == nil || states[n].Shutdown {
			continue
		}
		metadata, err := i.metadata(x.listings[m.VCenter], m, attached[m.VCenter])
		if failed[m.VCenter] != nil {
			err = failed[m.VCenter]
		}
		if err != nil {
			states[n] = cloud.InstanceState{Err: err}
			continue
		}
		states[n].Metadata = metadata
	}
}

func (i *instances) metadata(
	listing *client.Listing,
	m *client.Machine,
	attached client.Tags,
) (*cloudprovider.InstanceMetadata, error) {
	addresses, err := addressesOf(m, i.vcenters[m.VCenter].Config().Families, i.conf.Nodes)
	if err != nil {
		return nil, err
	}
	out := &cloudprovider.InstanceMetadata{
		ProviderID:    Name + "://" + m.UUID,
		InstanceType:  instanceType(m),
		NodeAddresses: addresses,
	}
	if i.conf.Labels.Zone == "" || attached == nil {
		return out, nil
	}
	out.Zone, out.Region, err = listing.Zone(m, attached, i.conf.Labels.Zone, i.conf.Labels.Region)
	if err != nil {
		return nil, err
	}
	for _, value := range []string{out.Zone, out.Region} {
		if len(validation.IsValidLabelValue(value)) > 0 {
			return nil, fmt.Errorf("the tag %q above %s cannot be the value of a label: use letters, digits, dots and dashes alone",
				value, describeMachine(m))
		}
	}
	return out, nil
}
