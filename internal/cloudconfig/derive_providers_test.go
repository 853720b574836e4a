package cloudconfig

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hidden stands in every place of the test files where a secret is.
const hidden = "hunter2"

const openstackInTree = `[Global]
auth-url = https://keystone.example:5000/v3
username = k8s
password = "hunter2"
region = RegionOne
tenant-id = 0123456789abcdef
domain-name = Default
ca-file = /etc/kubernetes/openstack-ca.pem

[LoadBalancer]
use-octavia = true
subnet-id = 11111111-2222-3333-4444-555555555555
floating-network-id = 66666666-7777-8888-9999-000000000000
lb-method = ROUND_ROBIN
create-monitor = yes
monitor-delay = 10s
manage-security-groups = true

; for volumes
[BlockStorage]
bs-version = v3
ignore-volume-az = true

[Route]
router-id = aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee

[Metadata]
search-order = configDrive,metadataService
`

const openstackDerived = `[Global]
auth-url = https://keystone.example:5000/v3
username = k8s
password = "hunter2"
region = RegionOne
tenant-id = 0123456789abcdef
domain-name = Default
ca-file = /etc/kubernetes/openstack-ca.pem

[LoadBalancer]
use-octavia = true
subnet-id = 11111111-2222-3333-4444-555555555555
floating-network-id = 66666666-7777-8888-9999-000000000000
lb-method = ROUND_ROBIN
create-monitor = yes
monitor-delay = 10s
manage-security-groups = true

; for volumes

[Route]
router-id = aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee

[Metadata]
search-order = configDrive,metadataService
`

const azureInTree = `{
    "cloud": "AzurePublicCloud",
    "tenantId": "72f988bf-0000-0000-0000-000000000000",
    "subscriptionId": "00000000-1111-2222-3333-444444444444",
    "aadClientId": "55555555-6666-7777-8888-999999999999",
    "aadClientSecret": "hunter2",
    "resourceGroup": "prod",
    "location": "westeurope",
    "routeTableName": "prod-routes",
    "primaryAvailabilitySetName": "prod-as",
    "useInstanceMetadata": true
}
`

const azureDerived = `{
    "loadBalancerSku": "basic",
    "vmType": "standard",
    "cloud": "AzurePublicCloud",
    "tenantId": "72f988bf-0000-0000-0000-000000000000",
    "subscriptionId": "00000000-1111-2222-3333-444444444444",
    "aadClientId": "55555555-6666-7777-8888-999999999999",
    "aadClientSecret": "hunter2",
    "resourceGroup": "prod",
    "location": "westeurope",
    "routeTableName": "prod-routes",
    "primaryAvailabilitySetName": "prod-as",
    "useInstanceMetadata": true
}
`

const azureComplete = `{"cloud":"AzureChinaCloud","vmType":"vmss","loadBalancerSku":"Standard","useManagedIdentityExtension":true,"userAssignedIdentityID":"x"}`

const gceInTree = `[global]
project-id = prod-1
network-name = prod-net
node-tags = prod-nodes
node-instance-prefix = prod
multizone = true
token-url = nil
`

const vsphereInTree = `# the old datacenter
[Global]
insecure-flag = 1
user = "k8s@vsphere.local"
password = "hunter2"
port = 443
ca-file = /etc/kubernetes/vcenter-ca.pem
secret-not-managed = true

[VirtualCenter "10.0.0.1"]
datacenters = dc-east, dc-west
soap-roundtrip-count = 4

[VirtualCenter "10.0.0.2"]
user = other@vsphere.local
password = hunter2
datacenters = dc-south
thumbprint = AA:BB

[Workspace]
server = 10.0.0.1
datacenter = dc-east
folder = kubernetes
default-datastore = vsanDatastore
resourcepool-path = prod/Resources

[Disk]
scsicontrollertype = pvscsi

[Network]
public-network = "VM Network"

[Labels]
zone = k8s-zone
region = k8s-region
`

const vsphereDerived = `global:
  user: k8s@vsphere.local
  password: hunter2
  port: 443
  insecureFlag: true
  caFile: /etc/kubernetes/vcenter-ca.pem
vcenter:
  10.0.0.1:
    server: 10.0.0.1
    datacenters:
      - dc-east
      - dc-west
    soapRoundtripCount: 4
  10.0.0.2:
    server: 10.0.0.2
    user: other@vsphere.local
    password: hunter2
    datacenters:
      - dc-south
    thumbprint: AA:BB
labels:
  zone: k8s-zone
  region: k8s-region
nodes:
  internalVmNetworkName: VM Network
  externalVmNetworkName: VM Network
`

const vsphereOld = `[Global]
secret-name = vsphere-creds
secret-namespace = kube-system
user = k8s
password = hunter2
server = vc.example
datacenter = dc-1
datastore = ds-1
working-dir = kubernetes
vm-uuid = 4230
`

const vsphereOldDerived = `global:
  datacenters:
    - dc-1
  secretName: vsphere-creds
  secretNamespace: kube-system
vcenter:
  vc.example:
    server: vc.example
`

func TestDeriveOf(t *testing.T) {
	const intro = "the file is written again as YAML: its comments are not copied"
	tests := []struct {
		name, provider, in, want string
		changes                  []string
	}{
		{
			"AWS's overrides are renamed",
			"aws",
			section("1", "ec2", "r"),
			section("1", "EC2", "r"),
			[]string{`[ServiceOverride "1"]: Service ec2 becomes EC2, the name that the external provider looks for`},
		},
		{"OpenStack's volumes are left out", "openstack", openstackInTree, openstackDerived, []string{
			"[BlockStorage]: bs-version is left out: only volumes used it, and the CSI driver has a config of its own",
			"[BlockStorage]: ignore-volume-az is left out: only volumes used it, and the CSI driver has a config of its own",
		}},
		{
			"OpenStack's external config stays",
			"openstack",
			"[Global]\nuse-clouds = true\n[LoadBalancer]\nenabled = false\n[Networking]\naddress-sort-order = 10.0.0.0/8\n",
			"",
			nil,
		},
		{"half a Secret means nothing in tree", "openstack", "[Global]\nsecret-name = x\nregion = r\n", "[Global]\nregion = r\n", []string{
			"[Global]: secret-name is left out: the external provider reads its credentials from its config alone",
		}},
		{"Azure's defaults are written down", "azure", azureInTree, azureDerived, []string{
			"vmType: standard is written down: the external provider looks for scale sets when nothing is said",
			"loadBalancerSku: basic is written down: the external provider makes standard load balancers when nothing is said",
		}},
		{"Azure's file that says everything stays", "azure", azureComplete, "", nil},
		{"Azure's external file stays", "azure", `{"cloud":"AzurePublicCloud","putVMSSVMBatchSize":10}`, "", nil},
		{"Azure's YAML", "azure", "cloud: AzurePublicCloud\nvmType: vmss", "cloud: AzurePublicCloud\nvmType: vmss\nloadBalancerSku: basic\n", []string{
			"loadBalancerSku: basic is written down: the external provider makes standard load balancers when nothing is said",
		}},
		{"Azure's empty value", "azure", `{"vmType": "", "loadBalancerSku": "standard"}`, `{"vmType": "standard", "loadBalancerSku": "standard"}`, []string{
			"vmType: standard is written down: the external provider looks for scale sets when nothing is said",
		}},
		{
			"Azure's JSON with tabs and escapes",
			"azure",
			"{\n\t\"vmType\": \"vmss\",\n\t\"loadBalancerSku\": null,\n\t\"aadClientSecret\": \"a\\/hunter2\\u00e4\"\n}\n",
			"{\n\t\"vmType\": \"vmss\",\n\t\"loadBalancerSku\": \"basic\",\n\t\"aadClientSecret\": \"a\\/hunter2\\u00e4\"\n}\n",
			[]string{
				"loadBalancerSku: basic is written down: the external provider makes standard load balancers when nothing is said",
			},
		},
		{
			"Azure's YAML without a value",
			"azure",
			"vmType: # to be chosen\nloadBalancerSku: basic\n",
			"vmType: \"standard\" # to be chosen\nloadBalancerSku: basic\n",
			[]string{
				"vmType: standard is written down: the external provider looks for scale sets when nothing is said",
			},
		},
		{"Azure's empty object", "azure", `{}`, `{"loadBalancerSku": "basic", "vmType": "standard" }`, []string{
			"vmType: standard is written down: the external provider looks for scale sets when nothing is said",
			"loadBalancerSku: basic is written down: the external provider makes standard load balancers when nothing is said",
		}},
		{"GCE's file stays", "gce", gceInTree, "", nil},
		{"vSphere's INI becomes YAML", "vsphere", vsphereInTree, vsphereDerived, []string{
			intro,
			"[Network]: public-network becomes the network of both addresses of a node: internalVmNetworkName and externalVmNetworkName",
			"[Global]: secret-not-managed is left out: the external provider always follows its Secret",
			"[Workspace]: server is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Workspace]: datacenter is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Workspace]: folder is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Workspace]: default-datastore is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Workspace]: resourcepool-path is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Disk]: scsicontrollertype is left out: only volumes used it, and the CSI driver has a config of its own",
		}},
		{"vSphere's older form with a Secret", "vsphere", vsphereOld, vsphereOldDerived, []string{
			intro,
			"[Global]: user and password are left out: the credentials come from the Secret",
			"[Global]: datacenter becomes datacenters",
			"[Global]: server becomes a vCenter of its own, as the external provider lists them",
			"[Global]: datastore is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Global]: working-dir is left out: only volumes used it, and the CSI driver has a config of its own",
			"[Global]: vm-uuid is left out: the external provider finds virtual machines by themselves",
		}},
		{"vSphere's external YAML stays", "vsphere", vsphereDerived, "", nil},
		{"vSphere's external INI stays", "vsphere", "[Global]\nsecret-name = a\nsecret-namespace = b\n[VirtualCenter \"x\"]\ndatacenters = d\n", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				tt.want = tt.in
			}
			got, err := Derive(tt.provider, []byte(tt.in))
			if err != nil || len(got.Problems) > 0 {
				t.Fatal(err, got.Problems)
			}
			if diff := cmp.Diff(tt.want, string(got.Data)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.changes, got.Changes); diff != "" {
				t.Errorf("changes, -want +got:\n%s", diff)
			}
			again, err := Derive(tt.provider, got.Data)
			if err != nil || !bytes.Equal(again.Data, got.Data) || len(again.Changes)+len(again.Problems) > 0 {
				t.Errorf("deriving again: %v, %q, %q:\n%s", err, again.Changes, again.Problems, again.Data)
			}
			if _, err := Describe(tt.provider, got.Data); err != nil {
				t.Errorf("the derived file cannot be described: %v", err)
			}
		})
	}
}

func TestWhatCannotBeCarriedOver(t *testing.T) {
	tests := []struct {
		name, provider, in string
		want               []string // beginnings, in order
	}{
		{"an override of an unknown service", "aws", section("7", "Ec2", "r"), []string{`[ServiceOverride "7"]: Service "Ec2" is not known`}},
		{"credentials from a Secret", "openstack", "[Global]\nsecret-name=a\nsecret-namespace=b\n", []string{"[Global]: secret-name and secret-namespace let"}},
		{"Neutron LBaaS", "openstack", "[LoadBalancer]\nuse-octavia = no\n", []string{"[LoadBalancer]: use-octavia is false"}},
		{"several standard load balancers", "azure", `{"enableMultipleStandardLoadBalancers": true}`, []string{"enableMultipleStandardLoadBalancers is true"}},
		{"a form into which nothing can be written", "azure", "cloud: x\n---\ncloud: y\n", []string{"vmType, loadBalancerSku: the file does not set it"}},
		{"no vCenter", "vsphere", "[Workspace]\nfolder = x\n", []string{"[Global]: neither server nor a section"}},
		{"no credentials", "vsphere", "[VirtualCenter \"a\"]\n[VirtualCenter \"b\"]\nuser = x\n[Workspace]\nfolder = x\n", []string{
			`[VirtualCenter "a"]: there are no user and password`, `[VirtualCenter "b"]: there are no user and password`,
		}},
		{"a port that is none", "vsphere", "[Global]\nuser=a\npassword=hunter2\nport=hunter2\nserver=x\nworking-dir=y\n", []string{"[Global]: port is no number"}},
		{
			"keys of both",
			"vsphere",
			"[Global]\nuser=a\npassword=b\nserver=x\nworking-dir=y\nip-family=ipv6\n",
			[]string{"[Global]: ip-family is the external provider's"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Derive(tt.provider, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Problems) != len(tt.want) {
				t.Fatalf("problems = %q", got.Problems)
			}
			for i, p := range got.Problems {
				if !strings.HasPrefix(p, tt.want[i]) || strings.Contains(p, hidden) {
					t.Errorf("problem %q, want %q", p, tt.want[i])
				}
			}
			d, err := Describe(tt.provider, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range got.Problems {
				if !slices.Contains(d.Problems, p) {
					t.Errorf("the description does not have the problem %q", p)
				}
			}
		})
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for provider, in := range map[string]string{
		"aws": "[Global\n", "openstack": "password = hunter2\n", "gce": "[global]\nx y\n", "azure": `{"aadClientSecret": "hunter2"`, "vsphere": "[Global]\npassword = \"hunter2\n",
		"ovirt": "", "": "",
	} {
		if d, err := Derive(provider, []byte(in)); err == nil || d.Data != nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v, %q", provider, err, d.Data)
		}
		if _, err := Describe(provider, []byte(in)); err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v", provider, err)
		}
	}
	for _, in := range []string{"- hunter2\n", "hunter2", "a: b: hunter2\n", "{{hunter2}: 1}", "\tx: hunter2\n"} {
		for _, provider := range []string{"azure", "vsphere"} {
			if _, err := Describe(provider, []byte(in)); err != nil && strings.Contains(err.Error(), hidden) {
				t.Errorf("%s: %q is shown: %v", provider, in, err)
			}
		}
	}
}

func TestDescriptions(t *testing.T) {
	tests := []struct {
		name, provider, in string
		want               Description
	}{
		{"OpenStack", "openstack", "[Global]\nAuth-URL = https://k\npassword = hunter2\nusername = u\n[LoadBalancer]\nlb-method = x\nodd = hunter2\n", Description{
			Format: FormatINI, Keys: []string{"Global.auth-url", "Global.password", "Global.username", "LoadBalancer.lb-method", "LoadBalancer.odd"},
			Settings: map[string]string{"Global.auth-url": "https://k", "LoadBalancer.lb-method": "x"}, Secrets: []string{"Global.password"},
			Problems: []string{
				"LoadBalancer.odd is known to neither provider, and the in-tree one does not start with it up to Kubernetes 1.24",
				"LoadBalancer.use-octavia is not there: the in-tree provider then makes load balancers of Neutron LBaaS, with which the external one cannot do anything",
			},
		}},
		{
			"Azure",
			"azure",
			`{"cloud": "AzurePublicCloud", "VMType": "vmss", "loadBalancerSku": "standard", "aadClientSecret": "hunter2", "useInstanceMetadata": true, "odd": {"a": "hunter2"}}`,
			Description{
				Format: FormatJSON, Keys: []string{"aadClientSecret", "cloud", "loadBalancerSku", "odd", "useInstanceMetadata", "vmType"},
				Settings: map[string]string{"cloud": "AzurePublicCloud", "loadBalancerSku": "standard", "useInstanceMetadata": "true", "vmType": "vmss"},
				Secrets:  []string{"aadClientSecret"}, Problems: []string{"odd is known to neither provider, and means nothing"},
			},
		},
		{"GCE", "gce", gceInTree, Description{
			Format: FormatINI,
			Keys:   []string{"Global.multizone", "Global.network-name", "Global.node-instance-prefix", "Global.node-tags", "Global.project-id", "Global.token-url"},
			Settings: map[string]string{
				"Global.multizone":            "true",
				"Global.network-name":         "prod-net",
				"Global.node-instance-prefix": "prod",
				"Global.node-tags":            "prod-nodes",
				"Global.project-id":           "prod-1",
			},
			Secrets: []string{"Global.token-url"},
		}},
		{
			"vSphere's YAML",
			"vsphere",
			"global:\n  user: u\n  password: hunter2\n  soapRoundtripCount: 3\nvcenter:\n  a:\n    server: b\n    password: hunter2\n    datacenters: [c, d]\nlabels:\n  zone: z\n",
			Description{
				Format: FormatYAML,
				Keys: []string{
					"Global.password",
					"Global.soap-roundtrip-count",
					"Global.user",
					"Labels.zone",
					`VirtualCenter "a".datacenters`,
					`VirtualCenter "a".password`,
					`VirtualCenter "a".server`,
				},
				Settings: map[string]string{
					"Global.soap-roundtrip-count":   "3",
					"Labels.zone":                   "z",
					`VirtualCenter "a".datacenters`: "c,d",
					`VirtualCenter "a".server`:      "b",
				},
				Secrets: []string{"Global.password", `VirtualCenter "a".password`},
			},
		},
		{"AWS", "aws", "[Global]\nzone = a\nOdd = hunter2\nVPC\n" + section("1", "ec2", "r"), Description{
			Format: FormatINI,
			Keys: []string{
				"Global.Odd",
				"Global.VPC",
				"Global.Zone",
				`ServiceOverride "1".Region`,
				`ServiceOverride "1".Service`,
				`ServiceOverride "1".SigningRegion`,
				`ServiceOverride "1".URL`,
			},
			ServiceOverrides: []string{"ec2"},
			Settings: map[string]string{
				"Global.VPC": "", "Global.Zone": "a", `ServiceOverride "1".Region`: "r", `ServiceOverride "1".Service`: "ec2", `ServiceOverride "1".SigningRegion`: "r",
			},
			Problems: []string{"Global.Odd is known to neither provider, and the in-tree one does not start with it"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Describe(tt.provider, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// FuzzEveryProvider checks that any text gives a result or an error, that a result is stable, that the input stays, and that no secret gets out: the
// seeds have one word for all of theirs.
func FuzzEveryProvider(f *testing.F) {
	for _, seed := range []string{
		openstackInTree, azureInTree, azureComplete, gceInTree, vsphereInTree, vsphereOld, vsphereDerived, inTree, "{\"a\":\n", "a: &x {b: *x}",
		"[Global]\npassword=hunter2",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, provider := range []string{"aws", "azure", "gce", "openstack", "vsphere"} {
			before := bytes.Clone(in)
			got, err := Derive(provider, in)
			if !bytes.Equal(in, before) {
				t.Fatal("the input was written to")
			}
			if err != nil {
				continue
			}
			noSecret(t, provider, in, append(slices.Clone(got.Changes), got.Problems...))
			d, err := Describe(provider, in)
			if err != nil {
				t.Fatalf("%s: derived and not described: %v", provider, err)
			}
			noSecret(t, provider, in, d.Problems)
			if len(got.Problems) > 0 {
				continue
			}
			if len(got.Changes) == 0 && !bytes.Equal(in, got.Data) {
				t.Fatalf("%s: a change is not told:\n%q\n%q", provider, in, got.Data)
			}
			again, err := Derive(provider, got.Data)
			if err != nil || len(again.Changes)+len(again.Problems) > 0 || !bytes.Equal(again.Data, got.Data) {
				t.Fatalf("%s: deriving again: %v %q %q\n%q\n%q\n%q", provider, err, again.Changes, again.Problems, in, got.Data, again.Data)
			}
		}
	})
}

// noSecret looks for the seeds' secret in sentences.
func noSecret(t *testing.T, provider string, in []byte, sentences []string) {
	t.Helper()
	entries, _, err := entriesOf(provider, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.section+e.sub+e.key, hidden) {
			return // it is a name as well, and names are shown
		}
	}
	for _, e := range entries {
		if e.value != hidden || !strings.Contains(strings.ToLower(e.key), "password") {
			continue
		}
		for _, s := range sentences {
			if strings.Contains(s, hidden) {
				t.Fatalf("%s: a secret is in %q", provider, s)
			}
		}
	}
}
