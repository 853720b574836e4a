package vsphereccm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

const labels = "labels: {zone: k8s-zone, region: k8s-region}\n"

func (f *fixture) tag(t *testing.T, category, tag, kind string) {
	t.Helper()
	if err := f.Tag(t.Context(), category, tag, kind); err != nil {
		t.Fatal(err)
	}
}

func TestFiveHundredNodesCostTwoCallsAPeriodAndOneSession(t *testing.T) {
	f := start(t, 500, labels)
	f.tag(t, "k8s-zone", "zone-a", "ClusterComputeResource")
	f.tag(t, "k8s-region", "region-1", "Datacenter")
	for period := range 4 {
		f.Calls()
		states := f.list(t, everything, f.nodes...)
		for i, state := range states {
			if state.Err != nil || !state.Exists || state.Shutdown || state.Metadata == nil {
				t.Fatalf("node %s: %+v", f.nodes[i].Name, state)
			}
			if m := state.Metadata; m.ProviderID != f.nodes[i].Spec.ProviderID || m.Zone != "zone-a" || m.Region != "region-1" ||
				!strings.HasPrefix(m.InstanceType, "vsphere-vm.cpu-1.mem-0gb.os-") || len(m.NodeAddresses) != 3 {
				t.Fatalf("node %s: %+v", f.nodes[i].Name, m)
			}
		}
		calls := f.Calls()
		t.Logf("period %d: %v", period, calls)
		if limit := 3; period > 0 && len(calls) > limit || len(calls) > 12 {
			t.Errorf("period %d: %d calls: %v", period, len(calls), calls)
		}
	}
	f.list(t, cloud.WantExists|cloud.WantShutdown, f.nodes...)
	if diff := cmp.Diff([]string{"RetrievePropertiesEx"}, f.Calls()); diff != "" {
		t.Errorf("a period without metadata (-want +got):\n%s", diff)
	}
	if sessions, err := f.Sessions(t.Context()); err != nil || sessions != 1 {
		t.Errorf("%d sessions, error %v", sessions, err)
	}
}

func TestAddressesAndLabelsOfANode(t *testing.T) {
	f := start(t, 1, "nodes: {internalNetworkSubnetCidr: 10.1.0.0/16, externalNetworkSubnetCidr: 203.0.113.0/24}\n")
	f.SetGuest(f.machines[0], "host.example", "169.254.1.1", "203.0.113.7", "10.1.0.7", "fd00::7")
	f.Update(f.machines[0], types.PropertyChange{Name: "summary.config.guestId", Val: "ubuntu64Guest"},
		types.PropertyChange{Name: "summary.config.memorySizeMB", Val: int32(8192)})
	metadata, err := f.cloud.InstanceMetadata(t.Context(), f.nodes[0])
	want := &cloudprovider.InstanceMetadata{
		ProviderID: f.nodes[0].Spec.ProviderID, InstanceType: "vsphere-vm.cpu-1.mem-8gb.os-ubuntu",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "host.example"},
			{Type: corev1.NodeInternalIP, Address: "10.1.0.7"},
			{Type: corev1.NodeExternalIP, Address: "203.0.113.7"},
		},
	}
	if diff := cmp.Diff(want, metadata); diff != "" || err != nil {
		t.Errorf("error %v, metadata (-want +got):\n%s", err, diff)
	}
}

// reversed is a UUID as a guest with an old SMBIOS reads it.
func reversed(u string) string {
	return u[6:8] + u[4:6] + u[2:4] + u[0:2] + "-" + u[11:13] + u[9:11] + "-" + u[16:18] + u[14:16] + u[18:]
}

func TestHowMachinesAreFound(t *testing.T) {
	f := start(t, 3, "")
	m := f.machines[1]
	other := strings.ToUpper(reversed(m.UUID))
	for name, n := range map[string]*corev1.Node{
		"provider ID":                     node("x", m.UUID, ""),
		"provider ID in capitals":         node("x", strings.ToUpper(m.UUID), ""),
		"provider ID in the other order":  node("x", reversed(m.UUID), ""),
		"system UUID":                     node("x", "", m.UUID),
		"system UUID in the other order":  node("x", "", other),
		"host name":                       node("node-1-1", "", ""),
		"the machine's name":              node(strings.ToLower(m.Name), "", ""),
		"name, with a UUID of no machine": node("node-1-1", "", "11111111-2222-4333-8444-555555555555"),
	} {
		t.Run(name, func(t *testing.T) {
			metadata, err := f.cloud.InstanceMetadata(t.Context(), n)
			if err != nil || metadata.ProviderID != "vsphere://"+m.UUID {
				t.Errorf("metadata %+v, error %v", metadata, err)
			}
		})
	}
	gone := "11111111-2222-4333-8444-555555555555"
	for name, n := range map[string]*corev1.Node{
		"no such provider ID": node("node-1-1", gone, gone), "no such name": node("stranger", "", gone), "nothing else": node("stranger", "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := f.cloud.InstanceMetadata(t.Context(), n); !errors.Is(err, cloudprovider.InstanceNotFound) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for name, test := range map[string]struct {
		node *corev1.Node
		says string
	}{
		"a foreign provider ID":    {&corev1.Node{Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1"}}, "not of the form vsphere://UUID"},
		"the machine's UUID moved": {node("x", gone, m.UUID), "the machine's UUID was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			exists, err := f.cloud.InstanceExists(t.Context(), test.node)
			if err == nil || exists || !strings.Contains(err.Error(), test.says) {
				t.Errorf("exists %v, error %v", exists, err)
			}
		})
	}
}

func TestTheLifeOfAMachine(t *testing.T) {
	f := start(t, 2, "")
	state := func() cloud.InstanceState { return f.list(t, everything, f.nodes[0], f.nodes[1])[0] }
	if s := state(); !s.Exists || s.Shutdown || s.Metadata == nil || s.Err != nil {
		t.Errorf("running: %+v", s)
	}
	if err := f.PowerOff(t.Context(), f.machines[0]); err != nil {
		t.Fatal(err)
	}
	f.SetGuest(f.machines[0], "") // VMware Tools are off, too
	if s := state(); !s.Exists || !s.Shutdown || s.Metadata != nil || s.Err != nil {
		t.Errorf("powered off: %+v", s)
	}
	if err := f.PowerOn(t.Context(), f.machines[0]); err != nil {
		t.Fatal(err)
	}
	f.SetGuest(f.machines[0], "")
	if s := state(); s.Err == nil || !strings.Contains(s.Err.Error(), "VMware Tools") {
		t.Errorf("without VMware Tools: %+v", s)
	}
	if s := f.list(t, cloud.WantExists|cloud.WantShutdown, f.nodes[0])[0]; !s.Exists || s.Shutdown || s.Err != nil {
		t.Errorf("without VMware Tools it exists: %+v", s)
	}
	if err := f.Destroy(t.Context(), f.machines[0]); err != nil {
		t.Fatal(err)
	}
	if s := state(); s.Exists || s.Err != nil {
		t.Errorf("destroyed: %+v", s)
	}
}

func TestAVCenterThatDoesNotAnswerDeletesNothing(t *testing.T) {
	f := start(t, 2, "")
	gone := node("gone", "11111111-2222-4333-8444-555555555555", "")
	all := append(slices.Clone(f.nodes), gone)
	if states := f.list(t, everything, all...); states[2].Exists || states[2].Err != nil {
		t.Fatalf("a machine that never was: %+v", states[2])
	}
	for name, fault := range map[string]vspheresim.Fault{
		"away":                     {},
		"an error":                 {Status: 503, Body: "<html>down</html>"},
		"no answer for the list":   {Operation: "RetrievePropertiesEx"},
		"HTML instead of an error": {Operation: "RetrievePropertiesEx", Status: 500, Body: "<html><body>oops</body></html>"},
		"HTML instead of a list":   {Operation: "RetrievePropertiesEx", Status: 200, Body: "<html><body>oops</body></html>"},
		"nothing":                  {Operation: "RetrievePropertiesEx", Status: 200},
		"an empty answer": {
			Operation: "RetrievePropertiesEx", Status: 200,
			Body: `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><RetrievePropertiesExResponse xmlns="urn:vim25"/></Body></Envelope>`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer f.Add(fault)()
			states, err := f.cloud.ListInstances(t.Context(), all, everything)
			for _, s := range states {
				if s.Err == nil && !s.Exists {
					t.Errorf("a node would be deleted: %+v", s)
				}
			}
			if err == nil {
				t.Errorf("there is no error: %+v", states)
			}
		})
	}
	for _, search := range []string{"FindAllByUuid"} {
		remove := f.Add(vspheresim.Fault{Operation: search})
		if s := f.list(t, everything, gone)[0]; s.Err == nil {
			t.Errorf("without an answer of %s: %+v", search, s)
		}
		remove()
	}
	if states := f.list(t, everything, all...); !states[0].Exists || states[2].Exists || states[2].Err != nil {
		t.Errorf("afterwards: %+v", states)
	}
}

// A list may lack what is there: the user has lost a role, or a machine is on its way to another vCenter.
func TestAMachineThatTheListLacksIsNotGone(t *testing.T) {
	f := start(t, 2, "")
	f.list(t, everything, f.nodes...)
	list := func(name, uuid string) string {
		return `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" ` +
			`xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><Body><RetrievePropertiesExResponse xmlns="urn:vim25"><returnval><objects>` +
			`<obj type="VirtualMachine">vm-x</obj><propSet><name>name</name><val xsi:type="xsd:string">` + name + `</val></propSet>` +
			`<propSet><name>config.uuid</name><val xsi:type="xsd:string">` + uuid + `</val></propSet></objects></returnval>` +
			`</RetrievePropertiesExResponse></Body></Envelope>`
	}
	for name, body := range map[string]string{
		"another machine alone": list("other", "11111111-2222-4333-8444-555555555555"), "one without a UUID": list("unreadable", ""),
	} {
		t.Run(name, func(t *testing.T) {
			defer f.Add(vspheresim.Fault{Operation: "RetrievePropertiesEx", Times: 1, Status: 200, Body: body})()
			for _, s := range f.list(t, cloud.WantExists, f.nodes...) {
				if s.Err == nil {
					t.Errorf("a node would be deleted: %+v", s)
				}
			}
		})
	}
}

func TestAnUnreadableMachineMayBeAnyNodes(t *testing.T) {
	f := start(t, 3, "")
	stranger := node("stranger", "11111111-2222-4333-8444-555555555555", "")
	f.list(t, cloud.WantExists, f.nodes...)
	if err := f.Destroy(t.Context(), f.machines[2]); err != nil {
		t.Fatal(err)
	}
	f.SetUUID(f.machines[0], "") // its datastore is inaccessible
	states := f.list(t, cloud.WantExists, append(slices.Clone(f.nodes), stranger)...)
	if s := states[0]; s.Err == nil {
		t.Errorf("the unreadable machine's own node: %+v", s)
	}
	if s := states[1]; !s.Exists || s.Err != nil {
		t.Errorf("a machine that is there: %+v", s)
	}
	if s := states[2]; s.Exists || s.Err != nil {
		t.Errorf("one that vCenter says is destroyed: %+v", s)
	}
	if s := states[3]; s.Err == nil || !strings.Contains(s.Err.Error(), "cannot read the UUID of") {
		t.Errorf("a node whose machine was never seen: %+v", s)
	}
}

func TestTwoMachinesWithOneUUIDAreNamedAndNothingIsDeleted(t *testing.T) {
	a, b := vcenter(t, vspheresim.Options{Machines: 2, Number: 1}), vcenter(t, vspheresim.Options{Machines: 2, Number: 2})
	two := &fixture{cloud: open(t, config(a.Config("left", trusted(t, a))+b.Config("right", trusted(t, b)), ""), client.Options{})}
	inA, nodesA := nodes(t, a)
	inB, nodesB := nodes(t, b)
	// the simulator names machines alike, and gives them UUIDs by their names
	for i, m := range inB {
		b.SetUUID(m, "4204"+inA[i].UUID[4:])
		nodesB[i].Spec.ProviderID, nodesB[i].Status.NodeInfo.SystemUUID = "vsphere://4204"+inA[i].UUID[4:], ""
	}
	all := append(slices.Clone(nodesA), nodesB...)
	for i, s := range two.list(t, everything, all...) {
		if !s.Exists || s.Err != nil {
			t.Errorf("node %d: %+v", i, s)
		}
	}
	b.SetUUID(inB[0], inA[0].UUID)
	s := two.list(t, everything, nodesA[0])[0]
	if s.Err == nil || !strings.Contains(s.Err.Error(), "of vCenter left and virtual machine") || !strings.Contains(s.Err.Error(), "of vCenter right") {
		t.Errorf("two vCenters with one UUID: %+v", s)
	}
	b.SetUUID(inB[0], "4204"+inA[0].UUID[4:])

	// one vCenter is away: its nodes are not known, the other's are
	remove := b.Add(vspheresim.Fault{})
	for i, s := range two.list(t, everything, all...) {
		if there := i < len(nodesA); there && (!s.Exists || s.Err != nil) || !there && (s.Err == nil || !strings.Contains(s.Err.Error(), "vCenter right")) {
			t.Errorf("node %d, while one vCenter is away: %+v", i, s)
		}
	}
	remove()
	if s := two.list(t, everything, nodesB[0])[0]; !s.Exists || s.Err != nil {
		t.Errorf("when it is back: %+v", s)
	}
}

func TestZonesOfTheNearestTags(t *testing.T) {
	f := start(t, 1, labels)
	s := f.list(t, everything, f.nodes[0])[0]
	if s.Err == nil || !strings.Contains(s.Err.Error(), `"k8s-zone" and "k8s-region"`) {
		t.Errorf("without tags: %+v", s)
	}
	f.tag(t, "k8s-region", "far", "Folder")
	f.tag(t, "k8s-region", "near", "ClusterComputeResource")
	f.tag(t, "k8s-zone", "z", "Datacenter")
	f.tag(t, "unrelated", "x", "ClusterComputeResource")
	if s := f.list(t, everything, f.nodes[0])[0]; s.Err != nil || s.Metadata.Zone != "z" || s.Metadata.Region != "near" {
		t.Errorf("with tags: %+v, %+v", s, s.Metadata)
	}
	defer f.Add(vspheresim.Fault{Operation: "tag-association", Status: 503})()
	if s := f.list(t, everything, f.nodes[0])[0]; s.Err == nil || !strings.Contains(s.Err.Error(), "reading tags") {
		t.Errorf("without an answer about tags: %+v", s)
	}
	if s := f.list(t, cloud.WantExists, f.nodes[0])[0]; s.Err != nil || !s.Exists {
		t.Errorf("whether it exists needs no tags: %+v", s)
	}
}

func TestOnlyTheConfiguredDatacentersAreTheClusters(t *testing.T) {
	f := start(t, 1, "")
	for datacenters, says := range map[string]string{"DC0": "", "/DC0": "", "DC7": `shows no datacenter "DC7", only /DC0`} {
		cloud := open(t, config(f.Config("a", trusted(t, f.VCenter), "datacenters: ["+datacenters+"]"), ""), client.Options{})
		exists, err := cloud.InstanceExists(t.Context(), f.nodes[0])
		if (err == nil) != (says == "") || exists != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: exists %v, error %v", datacenters, exists, err)
		}
	}
}
