package vsphereccm

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// asked is a vCenter, and the program that is asked about it.
type asked struct {
	*vspheresim.VCenter

	program, directory string
	machines           []vspheresim.Machine
	nodes              []v1.Node
}

func ask(t *testing.T, o vspheresim.Options) *asked {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	a := &asked{VCenter: vcenter(t, o), directory: t.TempDir()}
	if a.program, err = build.BuildCommand(t.Context(), root, a.directory, "vsphere-cloud-controller-manager"); err != nil {
		t.Fatal(err)
	}
	var objects []*corev1.Node
	a.machines, objects = nodes(t, a.VCenter)
	for _, n := range objects {
		a.nodes = append(a.nodes, v1.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID})
	}
	return a
}

// file writes a cloud config, and returns its path.
func (a *asked) file(t *testing.T, config []byte) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "vsphere.conf")
	if err := os.WriteFile(at, config, 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

func (a *asked) inventory(t *testing.T, spec string) *v1.CloudInventory {
	t.Helper()
	source, err := cloudprogram.Programs{Cloud: spec, Path: a.program}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return source.Inventory(t.Context(), a.nodes)
}

// readOnly checks that the sessions are ended, and that nothing was asked that may change anything.
func (a *asked) readOnly(t *testing.T) {
	t.Helper()
	reads := []string{
		"RetrieveServiceContent", "Login", "Logout", "CurrentTime", "CreateContainerView", "RetrievePropertiesEx", "FindAllByUuid", "FindAllByDnsName",
		"session", "tag-association",
	}
	for _, call := range a.Calls() {
		if !slices.ContainsFunc(reads, func(read string) bool { return strings.Contains(call, read) }) && !strings.Contains(call, "GET") {
			t.Errorf("the call %s", call)
		}
	}
	if sessions, err := a.Sessions(t.Context()); err != nil || sessions != 0 {
		t.Errorf("%d sessions are left, error %v", sessions, err)
	}
}

func TestTheProgramSaysWhatVSphereHoldsForACluster(t *testing.T) {
	a := ask(t, vspheresim.Options{Machines: 4, Number: 1})
	if err := a.PowerOff(t.Context(), a.machines[1]); err != nil {
		t.Fatal(err)
	}
	if err := a.Destroy(t.Context(), a.machines[2]); err != nil {
		t.Fatal(err)
	}
	a.nodes[3].ProviderID = "" // found by its UUID
	yes, no := true, false
	a.SetDiskUUID(a.machines[0], &no)
	a.SetDiskUUID(a.machines[1], &yes)
	a.SetDiskUUID(a.machines[3], &no)
	if err := a.SetOption(t.Context(), a.machines[3], "disk.EnableUUID", "TRUE"); err != nil {
		t.Fatal(err)
	}
	id := func(i int) string { return a.machines[i].UUID }
	want := &v1.CloudInventory{Provider: "vsphere", Instances: []v1.CloudInstance{
		{Node: a.nodes[0].Name, ID: id(0), State: "running", Found: true, DiskUUID: &no},
		{Node: a.nodes[1].Name, ID: id(1), State: "stopped", Found: true, DiskUUID: &yes},
		{Node: a.nodes[2].Name, ID: id(2)},
		{Node: a.nodes[3].Name, ID: id(3), State: "running", Found: true, DiskUUID: &yes},
	}}
	slices.SortFunc(want.Instances, func(x, y v1.CloudInstance) int { return strings.Compare(x.Node, y.Node) })
	ignored := cmpopts.IgnoreFields(v1.CloudInstance{}, "Type")
	a.Calls()
	file := a.file(t, config(a.Config("a", trusted(t, a.VCenter)), ""))
	got := a.inventory(t, "vsphere:config="+file)
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("by the cloud config (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.Instances[0].Type, "vsphere-vm.cpu-") {
		t.Errorf("the type is %q", got.Instances[0].Type)
	}
	a.readOnly(t)
	host, port := a.Address()
	for name, value := range map[string]string{
		"GOVC_URL":      "https://" + url.UserPassword(vspheresim.User, vspheresim.Password).String() + "@" + host + ":" + port + "/sdk",
		"GOVC_INSECURE": "1", "GOVC_DATACENTER": "DC0",
	} {
		t.Setenv(name, value)
	}
	if diff := cmp.Diff(want, a.inventory(t, "vsphere"), ignored); diff != "" {
		t.Errorf("by the environment (-want +got):\n%s", diff)
	}
	a.readOnly(t)
}

// TestWhichMachinesShowTheUUIDsOfTheirDisks goes by the flag and by both spellings of the entry. Without either nothing is said.
func TestWhichMachinesShowTheUUIDsOfTheirDisks(t *testing.T) {
	yes, no := true, false
	for name, test := range map[string]struct {
		flag       *bool
		key, value string
		want       *bool
	}{
		"nothing":                     {},
		"the flag":                    {flag: &yes, want: &yes},
		"the flag, which is off":      {flag: &no, want: &no},
		"an entry":                    {key: "disk.enableUUID", value: "1", want: &yes},
		"an entry in other letters":   {key: "disk.EnableUUID", value: "true", want: &yes},
		"an entry before its restart": {flag: &no, key: "disk.enableUUID", value: "TRUE", want: &yes},
		"an entry that is off":        {key: "disk.EnableUUID", value: "FALSE", want: &no},
		"an entry of no meaning":      {key: "disk.EnableUUID", value: "perhaps", want: &no},
	} {
		t.Run(name, func(t *testing.T) {
			v := vcenter(t, vspheresim.Options{Machines: 1, Number: 1})
			machines, nodes := nodes(t, v)
			v.SetDiskUUID(machines[0], test.flag)
			if test.key != "" {
				if err := v.SetOption(t.Context(), machines[0], test.key, test.value); err != nil {
					t.Fatal(err)
				}
			}
			c := open(t, config(v.Config("a", trusted(t, v)), ""), client.Options{})
			if got := c.ShowsDiskUUIDs(nodes[0]); got != nil {
				t.Errorf("before a list it is %v", *got)
			}
			if _, err := c.ListInstances(t.Context(), nodes, cloud.WantExists); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.ShowsDiskUUIDs(nodes[0])); diff != "" {
				t.Errorf("it shows them (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatVSphereDoesNotAnswerIsUnknown(t *testing.T) {
	a := ask(t, vspheresim.Options{Machines: 2, Number: 1})
	good := a.Config("a", trusted(t, a.VCenter))
	for name, c := range map[string]struct {
		config []byte
		says   []string
	}{
		"an untrusted certificate": {config(a.Config("a"), ""), []string{"vCenter a", "its certificate is not trusted", "set ca-file"}},
		"a wrong password": {
			[]byte(strings.Replace(string(config(good, "")), "password: "+vspheresim.Password, "password: wrong-"+vspheresim.Password, 1)),
			[]string{"vCenter a", "it does not take the user and password", "correct them in the cloud config"},
		},
		"a datacenter that is not there": {config(a.Config("a", trusted(t, a.VCenter), "datacenters: [DC7]"), ""), []string{`shows no datacenter "DC7"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.inventory(t, "vsphere:config="+a.file(t, c.config))
			if len(got.Instances) > 0 || len(got.Errors) != 1 || !strings.HasPrefix(got.Errors[0], "instances: ") {
				t.Fatalf("inventory %+v", got)
			}
			for _, says := range c.says {
				if !strings.Contains(got.Errors[0], says) {
					t.Errorf("%q is not in %q", says, got.Errors[0])
				}
			}
			if strings.Contains(got.Errors[0], vspheresim.Password) {
				t.Errorf("the password is in %q", got.Errors[0])
			}
		})
	}
	b := vcenter(t, vspheresim.Options{Machines: 2, Number: 2})
	others, err := b.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.SetUUID(others[0], a.machines[0].UUID)
	b.SetUUID(others[1], "42000000"+a.machines[1].UUID[8:])
	two := a.file(t, config(a.Config("left", trusted(t, a.VCenter))+b.Config("right", trusted(t, b)), ""))
	got := a.inventory(t, "vsphere:config="+two)
	if len(got.Instances) != 1 || got.Instances[0].Node != a.nodes[1].Name || len(got.Errors) != 1 ||
		!strings.Contains(got.Errors[0], "2 virtual machines have the UUID "+a.machines[0].UUID) || !strings.Contains(got.Errors[0], "of vCenter right") {
		t.Errorf("two machines of one UUID: %+v", got)
	}
	for spec, says := range map[string]string{
		"vsphere": "there are no credentials; export GOVC_URL", "vsphere:config=/none": "no such file", "vsphere:colour=red": "there is config",
		"vsphere:config=" + a.file(t, []byte("global: {secretName: s, secretNamespace: kube-system}\nvcenter: {a: {server: vc.example}}\n")): "in the Secret kube-system/s, which is not read from here",
	} {
		if _, err := (cloudprogram.Programs{Cloud: spec, Path: a.program}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v", spec, err)
		}
	}
}

// In tree a node has no type, and each of its addresses twice. What the new manager would write is foreseen.
func TestTheProgramSaysWhatItWouldWriteAboutNodesOnVSphere(t *testing.T) {
	a := ask(t, vspheresim.Options{Machines: 2, Number: 1})
	if err := a.Tag(t.Context(), "k8s-zone", "zone-a", "ClusterComputeResource"); err != nil {
		t.Fatal(err)
	}
	if err := a.Tag(t.Context(), "k8s-region", "region-1", "Datacenter"); err != nil {
		t.Fatal(err)
	}
	a.nodes = append(a.nodes, v1.Node{Name: "foreign", ProviderID: "aws:///a/i-1"})
	a.Calls()
	data := config(a.Config("a", trusted(t, a.VCenter)), labels)
	got, err := cloudprogram.Programs{Path: a.program, Cloud: "vsphere"}.Preview(t.Context(), "vsphere", data, a.nodes)
	if err != nil {
		t.Fatal(err)
	}
	if got.Provider != "vsphere" || got.Calls == 0 || got.Calls > 20 || len(got.Nodes) != 3 {
		t.Fatalf("preview %+v", got)
	}
	for _, n := range got.Nodes {
		if n.Node == "foreign" {
			if !strings.Contains(n.Error, "not of the form vsphere://UUID") {
				t.Errorf("a foreign providerID: %+v", n)
			}
			continue
		}
		i := slices.IndexFunc(a.nodes, func(of v1.Node) bool { return of.Name == n.Node })
		if !n.Found || n.ProviderID != a.nodes[i].ProviderID || n.Zone != "zone-a" || n.Region != "region-1" ||
			!strings.HasPrefix(n.Type, "vsphere-vm.cpu-") || len(n.Addresses) == 0 {
			t.Errorf("preview %+v", n)
		}
	}
	a.readOnly(t)
}
