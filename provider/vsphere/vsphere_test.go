package vsphere

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	settings "k8s.io/cloud-provider/config"

	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheOtherByteOrder(t *testing.T) {
	const a, b = "56492e42-22ad-3911-6d72-59cc8f26bc90", "422e4956-ad22-1139-6d72-59cc8f26bc90"
	if got := reversed(a); got != b {
		t.Errorf("%s, want %s", got, b)
	}
	if got := reversed(reversed(a)); got != a {
		t.Errorf("there and back it is %s", got)
	}
}

func FuzzSeek(f *testing.F) {
	f.Add("vsphere://56492e42-22ad-3911-6d72-59cc8f26bc90", "56492E42-22AD-3911-6D72-59CC8F26BC90")
	f.Add("vsphere://", " ")
	f.Fuzz(func(t *testing.T, id, uuid string) {
		n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}
		n.Status.NodeInfo.SystemUUID = uuid
		s := seek(n)
		for _, u := range []string{s.id, s.uuid} {
			if u != "" && reversed(reversed(u)) != u {
				t.Errorf("%q is taken for a UUID", u)
			}
		}
		if id != "" && s.id == "" && s.err == nil {
			t.Errorf("the provider ID %q is passed over", id)
		}
	})
}

func TestInstanceTypesAreTheExternalProviders(t *testing.T) {
	for id, want := range map[string]string{
		"ubuntu64Guest": "ubuntu", "otherGuest": "other", "otherGuest64": "other", "rhel10_64Guest": "rhel10", "centos64Guest": "centos64",
		"debian10_64Guest": "debian10", "vmwarePhoton64Guest": "photon", "windows9Server64Guest": "win10server", "winNetEnterprise64Guest": "winnetenterprise",
		"sles12_64Guest": "sles12", "oracleLinux64Guest": "oracleLinux", "other3xLinux64Guest": "linux", "turboLinux64Guest": "turbolinux",
		"debian12_64Guest": "unknown", "": "unknown", "Guest": "unknown", "rhel9_64": "rhel9",
	} {
		if got := guestOS(id); got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
	if got := instanceType(&client.Machine{CPUs: 4, MemoryMB: 8191, GuestID: "ubuntu64Guest"}); got != "vsphere-vm.cpu-4.mem-7gb.os-ubuntu" {
		t.Errorf("the instance type is %q", got)
	}
}

func nic(network string, addresses ...string) types.GuestNicInfo {
	return types.GuestNicInfo{Network: network, IpAddress: addresses, DeviceConfigId: 4000}
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func TestAddresses(t *testing.T) {
	pods := nic("", "10.244.0.1")
	pods.DeviceConfigId = -1
	internal := func(a string) corev1.NodeAddress { return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a} }
	external := func(a string) corev1.NodeAddress { return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: a} }
	both, four := []string{"ipv4", "ipv6"}, []string{"ipv4"}
	for name, test := range map[string]struct {
		nics     []types.GuestNicInfo
		families []string
		rules    cloudconf.Nodes
		want     []corev1.NodeAddress
		says     string
	}{
		"the first, for both": {
			nics: []types.GuestNicInfo{pods, nic("a", "127.0.0.1", "fe80::1", "no address", "10.0.0.1", "10.0.0.2")}, families: four,
			want: []corev1.NodeAddress{internal("10.0.0.1"), external("10.0.0.1")},
		},
		"families in order": {
			nics: []types.GuestNicInfo{nic("a", "10.0.0.1", "fd00::1")}, families: []string{"ipv6", "ipv4"},
			want: []corev1.NodeAddress{internal("fd00::1"), external("fd00::1"), internal("10.0.0.1"), external("10.0.0.1")},
		},
		"subnets in order": {
			nics: []types.GuestNicInfo{nic("a", "10.1.0.1", "10.2.0.1")}, families: four,
			rules: cloudconf.Nodes{Internal: cloudconf.Selection{Subnets: prefixes("10.2.0.0/16", "10.1.0.0/16")}},
			want:  []corev1.NodeAddress{internal("10.2.0.1")},
		},
		"a subnet before a network": {
			nics: []types.GuestNicInfo{nic("A", "10.1.0.1"), nic("b", "10.2.0.1")}, families: four,
			rules: cloudconf.Nodes{
				Internal: cloudconf.Selection{Subnets: prefixes("10.2.0.0/16"), Network: "a"}, External: cloudconf.Selection{Network: "a"},
			},
			want: []corev1.NodeAddress{internal("10.2.0.1"), external("10.1.0.1")},
		},
		"excluded": {
			nics: []types.GuestNicInfo{nic("a", "10.1.0.1", "10.2.0.1")}, families: four,
			rules: cloudconf.Nodes{Internal: cloudconf.Selection{Exclude: prefixes("10.1.0.0/16")}},
			want:  []corev1.NodeAddress{internal("10.2.0.1"), external("10.1.0.1")},
		},
		"all excluded": {
			nics: []types.GuestNicInfo{nic("a", "10.1.0.1")}, families: four,
			rules: cloudconf.Nodes{
				Internal: cloudconf.Selection{Exclude: prefixes("10.0.0.0/8")}, External: cloudconf.Selection{Exclude: prefixes("10.0.0.0/8")},
			},
			says: "reports no ipv4 address that the cloud config allows, only 10.1.0.1",
		},
		"one family is missing": {nics: []types.GuestNicInfo{nic("a", "10.1.0.1")}, families: both, says: "no ipv6 address"},
		"none":                  {nics: []types.GuestNicInfo{pods}, families: four, says: "VMware Tools"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := addressesOf(&client.Machine{NICs: test.nics}, test.families, test.rules)
			if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, addresses (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestStaticAddressesGoFirst(t *testing.T) {
	const network = "ethernets:\n  b: {addresses: [10.0.0.9/24]}\n  a: {addresses: [10.0.0.7/24, 'fd00::7/64']}\n"
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(network)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	indented := "network:\n  " + strings.ReplaceAll(strings.TrimSpace(network), "\n", "\n  ") + "\n"
	for name, test := range map[string]struct {
		metadata, encoding string
		first              string
	}{
		"plain":            {encode([]byte(indented)), "base64", "10.0.0.7"},
		"in base64":        {encode([]byte("network: " + encode([]byte(network)) + "\nnetwork.encoding: base64\n")), "base64", "10.0.0.7"},
		"compressed":       {encode([]byte("network: " + encode(packed.Bytes()) + "\nnetwork.encoding: gzip+base64\n")), "base64", "10.0.0.7"},
		"not encoded":      {indented, "", "10.0.0.5"},
		"no base64":        {"%%%", "base64", "10.0.0.5"},
		"no YAML":          {encode([]byte("network: [")), "base64", "10.0.0.5"},
		"not compressed":   {encode([]byte("network: " + encode([]byte(network)) + "\nnetwork.encoding: gzip+base64\n")), "base64", "10.0.0.5"},
		"another network":  {encode([]byte("network: 7\n")), "base64", "10.0.0.5"},
		"without metadata": {"", "", "10.0.0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &client.Machine{NICs: []types.GuestNicInfo{nic("a", "10.0.0.5", "10.0.0.9", "10.0.0.7")}, Metadata: test.metadata, MetadataEncoding: test.encoding}
			got, err := addressesOf(m, []string{"ipv4"}, cloudconf.Nodes{})
			if err != nil || got[0].Address != test.first {
				t.Errorf("addresses %v, error %v", got, err)
			}
		})
	}
}

func TestWhatTheProgramCannotStartWith(t *testing.T) {
	_, err := openProgram(settings.KubeCloudSharedConfiguration{}, []byte("[Global]\npasword = hunter2\n"))
	if err == nil || !strings.Contains(err.Error(), "[Global] pasword: no vSphere provider knows this key") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
	if got := environment([]string{"PATH=/bin", "VSPHERE_USER=x", "VCENTER_1_PASSWORD=y"}); !cmp.Equal(got, []string{"VSPHERE_USER", "VCENTER_1_PASSWORD"}) {
		t.Errorf("variables %q", got)
	}
}
