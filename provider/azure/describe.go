package azure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

// unmanagedState is that of a Node whose machine is not in Azure: it keeps what it has.
func unmanagedState(node *corev1.Node, want cloud.Want) cloud.InstanceState {
	state := cloud.InstanceState{Exists: true}
	if want&cloud.WantMetadata != 0 {
		state.Metadata = &cloudprovider.InstanceMetadata{
			ProviderID: node.Spec.ProviderID, NodeAddresses: node.Status.Addresses,
		}
	}
	return state
}

// metadata is what the in-tree provider writes about a machine's Node.
func (i *instances) metadata(
	ctx context.Context,
	node *corev1.Node,
	m *machine,
) (*cloudprovider.InstanceMetadata, error) {
	zone, err := m.zone()
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", node.Name, err)
	}
	addresses, err := i.addresses(ctx, node, m)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", node.Name, err)
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: m.providerID(), InstanceType: m.size, NodeAddresses: addresses,
		Zone: zone, Region: strings.ToLower(m.location),
	}, nil
}

var groupInID = regexp.MustCompile(`(?i)(/resourceGroups/)([^/]+)`)

// providerID has the resource group in lower case: Azure's APIs do not agree about it.
func (m *machine) providerID() string {
	parts := groupInID.FindStringSubmatch(m.id)
	if parts == nil {
		return Name + "://" + m.id
	}
	return Name + "://" + strings.Replace(m.id, parts[0], parts[1]+strings.ToLower(parts[2]), 1)
}

// zone is the availability zone, or the fault domain of a machine in no zone.
func (m *machine) zone() (string, error) {
	if len(m.zones) > 0 {
		number, err := strconv.Atoi(m.zones[0])
		if err != nil {
			return "", fmt.Errorf("the zone %q of %s is no number", m.zones[0], m.place)
		}
		return strings.ToLower(fmt.Sprintf("%s-%d", m.location, number)), nil
	}
	if m.faultDomain == nil && m.place.set != "" {
		return "", fmt.Errorf("azure does not say in which zone or fault domain %s is", m.place)
	}
	return strconv.Itoa(int(deref(m.faultDomain))), nil
}

// addresses are those of the first configuration of the primary interface, and its IPv6 address.
func (i *instances) addresses(ctx context.Context, node *corev1.Node, m *machine) ([]corev1.NodeAddress, error) {
	primary, err := m.primaryNIC()
	if err != nil {
		return nil, err
	}
	properties, err := i.nic(ctx, primary)
	if err != nil {
		return nil, err
	}
	main := primaryConfig(properties.IPConfigurations)
	if main == nil || main.Properties == nil {
		return nil, fmt.Errorf("the network interface %s of %s has no address", nameIn(primary), m.place)
	}
	internal := deref(main.Properties.PrivateIPAddress)
	if _, err := netip.ParseAddr(internal); err != nil {
		return nil, fmt.Errorf("the network interface %s of %s has %q as its address", nameIn(primary), m.place, internal)
	}
	out := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: internal}, {Type: corev1.NodeHostName, Address: node.Name},
	}
	external, err := i.external(ctx, main)
	if err != nil {
		return nil, err
	}
	if external != "" {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: external})
	}
	for _, config := range properties.IPConfigurations {
		address, err := netip.ParseAddr(deref(deref(config.Properties).PrivateIPAddress))
		if err == nil && address.Is6() && address.String() != internal {
			return append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address.String()}), nil
		}
	}
	return out, nil
}

func (m *machine) primaryNIC() (string, error) {
	if len(m.nics) == 1 {
		return m.nics[0].id, nil
	}
	for _, n := range m.nics {
		if n.isPrimary {
			return n.id, nil
		}
	}
	return "", fmt.Errorf("%s has no primary network interface", m.place)
}

func primaryConfig(configs []*armnetwork.InterfaceIPConfiguration) *armnetwork.InterfaceIPConfiguration {
	if len(configs) == 1 {
		return configs[0]
	}
	for _, c := range configs {
		if deref(deref(c.Properties).Primary) {
			return c
		}
	}
	return nil
}

// named are the names in the ID of a resource, by the kind before them, in lower case.
func named(id string) map[string]string {
	parts := strings.Split(strings.Trim(id, "/"), "/")
	out := map[string]string{}
	for n := 0; n+1 < len(parts); n += 2 {
		out[strings.ToLower(parts[n])] = parts[n+1]
	}
	if at := strings.Index(strings.ToLower(id), "/providers/"); at >= 0 {
		rest := strings.Split(strings.Trim(id[at+len("/providers/"):], "/"), "/")
		for n := 1; n+1 < len(rest); n += 2 {
			out[strings.ToLower(rest[n])] = rest[n+1]
		}
	}
	return out
}

func nameIn(id string) string { return id[strings.LastIndex(id, "/")+1:] }

func (i *instances) nic(ctx context.Context, id string) (*armnetwork.InterfacePropertiesFormat, error) {
	in := named(id)
	var got armnetwork.Interface
	var err error
	if set := in["virtualmachinescalesets"]; set != "" {
		var answer armnetwork.InterfacesClientGetVirtualMachineScaleSetNetworkInterfaceResponse
		answer, err = i.client.NICs.GetVirtualMachineScaleSetNetworkInterface(ctx, in["resourcegroups"], set,
			in["virtualmachines"], in["networkinterfaces"], nil)
		got = answer.Interface
	} else {
		var answer armnetwork.InterfacesClientGetResponse
		answer, err = i.client.NICs.Get(ctx, in["resourcegroups"], in["networkinterfaces"], nil)
		got = answer.Interface
	}
	if err == nil && got.Properties == nil {
		err = errors.New("the answer has no properties")
	}
	return got.Properties, explain(err, "reading the network interface %s", nameIn(id))
}

// external is the public address of a configuration; empty for none, or for one that has no address yet.
func (i *instances) external(ctx context.Context, config *armnetwork.InterfaceIPConfiguration) (string, error) {
	id := deref(deref(config.Properties.PublicIPAddress).ID)
	if id == "" {
		return "", nil
	}
	in := named(id)
	var got armnetwork.PublicIPAddress
	var err error
	if set := in["virtualmachinescalesets"]; set != "" {
		var answer armnetwork.PublicIPAddressesClientGetVirtualMachineScaleSetPublicIPAddressResponse
		answer, err = i.client.Addresses.GetVirtualMachineScaleSetPublicIPAddress(ctx, in["resourcegroups"], set,
			in["virtualmachines"], in["networkinterfaces"], in["ipconfigurations"], in["publicipaddresses"], nil)
		got = answer.PublicIPAddress
	} else {
		var answer armnetwork.PublicIPAddressesClientGetResponse
		answer, err = i.client.Addresses.Get(ctx, in["resourcegroups"], in["publicipaddresses"], nil)
		got = answer.PublicIPAddress
	}
	if client.IsNotFound(err) {
		return "", nil
	}
	return deref(deref(got.Properties).IPAddress), explain(err, "reading the public address %s", nameIn(id))
}

// explain says what was being done, and of a refusal the one line that is for people. It returns nil for nil.
func explain(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	did := fmt.Sprintf(doing, args...)
	var refusal *client.RefusalError
	if errors.As(err, &refusal) {
		return fmt.Errorf("%s: %w", did, refusal)
	}
	var strange *transport.StrangeAnswerError
	if errors.As(err, &strange) {
		return fmt.Errorf("%s: %w", did, strange)
	}
	if noToken := client.TokenError(err); noToken != nil {
		err = noToken
	}
	return fmt.Errorf("%s: %w", did, err)
}
