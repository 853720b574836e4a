package vsphere

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/safeyaml"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// candidate is an address that a guest reports, with the network of its adapter.
type candidate struct {
	address netip.Addr
	network string
}

// addressesOf are the addresses of a machine's node, as the external provider chooses them, so that they do not change
// with the manager. For each family there is one internal and one external address:
//
//	one in the rule's subnets, in the order of the subnets
//	or else one of the rule's network
//	or else, where neither rule has found one, the first that is not excluded
//
// Addresses that the machine's own guestinfo.metadata names go before others. A virtual IP address that is on the
// machine for a time must not become the node's.
func addressesOf(m *client.Machine, families []string, rules cloudconf.Nodes) ([]corev1.NodeAddress, error) {
	all := candidates(m)
	if len(all) == 0 {
		return nil, fmt.Errorf("%s reports no address: VMware Tools (open-vm-tools) must run in it, and the network be up",
			describeMachine(m))
	}
	var out []corev1.NodeAddress
	if m.HostName != "" {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: m.HostName})
	}
	for _, family := range families {
		internal, external := choose(ofFamily(all, family), rules)
		if internal == nil && external == nil {
			return nil, fmt.Errorf("%s reports no %s address that the cloud config allows, only %s: correct nodes and ip-family there",
				describeMachine(m), family, texts(all))
		}
		if internal != nil {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: internal.address.String()})
		}
		if external != nil {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: external.address.String()})
		}
	}
	return out, nil
}

func texts(all []candidate) string {
	list := make([]string, len(all))
	for i, c := range all {
		list[i] = c.address.String()
	}
	return strings.Join(list, ", ")
}

// candidates are the addresses of a machine's adapters. An adapter without a device is one that the guest has made
// itself, as for pods. Addresses that only the guest knows are left out.
func candidates(m *client.Machine) (all []candidate) {
	for _, nic := range m.NICs {
		if nic.DeviceConfigId == -1 {
			continue
		}
		for _, text := range nic.IpAddress {
			address, err := netip.ParseAddr(text)
			address = address.Unmap().WithZone("")
			if err != nil || address.IsUnspecified() || address.IsLoopback() || address.IsLinkLocalUnicast() ||
				address.IsLinkLocalMulticast() {
				continue
			}
			all = append(all, candidate{address, nic.Network})
		}
	}
	static := staticAddresses(m.Metadata, m.MetadataEncoding)
	rank := func(c candidate) int {
		if i, named := static[c.address]; named {
			return i
		}
		return len(static)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func ofFamily(all []candidate, family string) []candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c candidate) bool {
		return c.address.Is4() != (family == cloudconf.IPv4)
	})
}

func choose(all []candidate, rules cloudconf.Nodes) (internal, external *candidate) {
	forInternal, forExternal := allowed(all, rules.Internal), allowed(all, rules.External)
	internal, external = matching(forInternal, rules.Internal), matching(forExternal, rules.External)
	if internal == nil && external == nil {
		return firstOf(forInternal), firstOf(forExternal)
	}
	return internal, external
}

func firstOf(all []candidate) *candidate {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

func allowed(all []candidate, rule cloudconf.Selection) []candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return contains(rule.Exclude, c.address) })
}

func contains(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

func matching(all []candidate, rule cloudconf.Selection) *candidate {
	for _, subnet := range rule.Subnets {
		if i := slices.IndexFunc(all, func(c candidate) bool { return subnet.Contains(c.address) }); i >= 0 {
			return &all[i]
		}
	}
	if rule.Network != "" {
		named := func(c candidate) bool { return strings.EqualFold(c.network, rule.Network) }
		if i := slices.IndexFunc(all, named); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// maxMetadata bounds what a machine's metadata may grow to when it is unpacked: its administrator may be another one
// than the cluster's.
const maxMetadata = 64 << 10

// maxStatic is how many addresses of a machine's metadata are looked at.
const maxStatic = 256

// networkConfig is cloud-init's network config, version 2, as far as it names addresses.
type networkConfig struct {
	Ethernets map[string]struct {
		Addresses []string `json:"addresses"`
	} `json:"ethernets"`
}

// staticAddresses ranks the addresses that a machine's metadata gives its guest, from 0. Metadata that cannot be read
// names none: it decides an order, and no machine goes without addresses for it.
func staticAddresses(metadata, encoding string) map[netip.Addr]int {
	text := unpack(metadata, encoding)
	var encoded struct {
		Encoding string `json:"network.encoding"`
		Network  any    `json:"network"`
	}
	if len(text) == 0 || safeyaml.Unmarshal(text, &encoded) != nil {
		return nil
	}
	var network networkConfig
	if packed, ok := encoded.Network.(string); ok {
		if safeyaml.Unmarshal(unpack(packed, encoded.Encoding), &network) != nil {
			return nil
		}
	} else {
		var plain struct {
			Network networkConfig `json:"network"`
		}
		if safeyaml.Unmarshal(text, &plain) != nil {
			return nil
		}
		network = plain.Network
	}
	ranks := map[netip.Addr]int{}
	for _, name := range slices.Sorted(maps.Keys(network.Ethernets)) {
		for _, address := range network.Ethernets[name].Addresses {
			host, _, _ := strings.Cut(address, "/")
			parsed, err := netip.ParseAddr(host)
			if err != nil {
				continue
			}
			if _, ranked := ranks[parsed.Unmap()]; !ranked {
				ranks[parsed.Unmap()] = len(ranks)
			}
			if len(ranks) == maxStatic {
				return ranks
			}
		}
	}
	return ranks
}

// unpack reads what is in base64, and perhaps compressed below that.
func unpack(text, encoding string) []byte {
	compressed := encoding == "gzip+base64" || encoding == "gz+b64"
	if !compressed && encoding != "base64" && encoding != "b64" {
		return nil
	}
	text = strings.TrimSpace(text)
	if len(text) > base64.StdEncoding.EncodedLen(maxMetadata) {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	if !compressed {
		return bounded(data)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	data, err = io.ReadAll(io.LimitReader(reader, maxMetadata+1))
	if err != nil {
		return nil
	}
	return bounded(data)
}

// bounded is nothing where there is more than a machine's metadata may have: a part of it would say something else.
func bounded(data []byte) []byte {
	if len(data) > maxMetadata {
		return nil
	}
	return data
}
