package cloudconf

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

var comparePrefixes = cmpopts.EquateComparable(netip.Prefix{})

// keysOf are the keys of an INI's section that a struct has.
func keysOf(section string, of reflect.Type) (all []string) {
	for field := range of.Fields() {
		key := field.Tag.Get("gcfg")
		if key == "" {
			key = strings.ToLower(field.Name)
		}
		all = append(all, section+"."+key)
	}
	return all
}

func TestEveryKeyOfTheExternalProviderIsRead(t *testing.T) {
	var read []string
	for section, of := range map[string]reflect.Type{
		"Global": reflect.TypeFor[iniCenter](), "VirtualCenter": reflect.TypeFor[iniCenter](), "Labels": reflect.TypeFor[Labels](),
		"Nodes": reflect.TypeFor[iniNodes](), "Network": reflect.TypeFor[iniNetwork](),
	} {
		read = append(read, keysOf(section, of)...)
	}
	for _, key := range catalogue.ConfigKeys("vsphere") {
		if (key.External || key.Renamed != "") && !slices.Contains(read, key.Name()) {
			t.Errorf("%s is not read", key.Name())
		}
	}
	if dashed := len(reflect.VisibleFields(reflect.TypeFor[yamlNodes]())); dashed != len(reflect.VisibleFields(reflect.TypeFor[iniNodes]())) {
		t.Errorf("YAML has %d keys of nodes, an INI another number", dashed)
	}
}

const external = `
global:
  user: admin
  password: pa$$word
  port: 8443
  insecureFlag: true
  datacenters: [dc1, dc2]
  ipFamily: [ipv6, IPv4]
  apiDisable: true
vcenter:
  b:
    server: vc-b.example
    secretName: creds
    secretNamespace: kube-system
    soapRoundtripCount: 5
    datacenters: [/folder/dc3]
  a:
    server: 192.0.2.1
    tenantref: x
labels: {zone: k8s-zone, region: k8s-region}
nodes:
  internalNetworkSubnetCidr: 10.0.0.0/8, fd00::/8
  externalVmNetworkName: public
  excludeInternalNetworkSubnetCidr: 10.1.2.3/16
`

func TestBothFormatsAreRead(t *testing.T) {
	want := &Config{
		VCenters: []VCenter{
			{
				Name: "a", Server: "192.0.2.1", Port: 8443, User: "admin", Password: "pa$$word", Insecure: true,
				Datacenters: []string{"dc1", "dc2"}, Tries: 3, Families: []string{"ipv6", "ipv4"},
			},
			{
				Name: "b", Server: "vc-b.example", Port: 8443, SecretName: "creds", SecretNamespace: "kube-system", Insecure: true,
				Datacenters: []string{"/folder/dc3"}, Tries: 5, Families: []string{"ipv6", "ipv4"},
			},
		},
		Labels: Labels{Zone: "k8s-zone", Region: "k8s-region"},
		Nodes: Nodes{
			Internal: Selection{
				Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
				Exclude: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
			},
			External: Selection{Network: "public"},
		},
	}
	config, notes, err := Read([]byte(external))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, config, comparePrefixes); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
	if len(notes) != 2 {
		t.Errorf("notes: %q", notes)
	}
	config, notes, err = Read([]byte(`; a comment
[Global]
user = admin
password = "pa$$word"
port = 8443
insecure-flag = 1
datacenters = dc1, dc2
ip-family = ipv6,ipv4
[VirtualCenter "b"]
server = vc-b.example
secret-name = creds
secret-namespace = kube-system
soap-roundtrip-count = 5
datacenters = /folder/dc3
[VirtualCenter "a"]
server = 192.0.2.1
[Labels]
zone = k8s-zone
region = k8s-region
[Nodes]
internal-network-subnet-cidr = 10.0.0.0/8, fd00::/8
external-vm-network-name = public
exclude-internal-network-subnet-cidr = 10.1.2.3/16
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, config, comparePrefixes); diff != "" || len(notes) > 0 {
		t.Errorf("INI, with the notes %q (-want +got):\n%s", notes, diff)
	}
}

func TestAnInTreeConfigIsRead(t *testing.T) {
	config, notes, err := Read([]byte(`[Global]
user = u
password = p
server = vc.example
datacenter = dc1
datastore = ds
vm-uuid = 42
[Workspace]
server = vc.example
folder = vms
[Disk]
scsicontrollertype = pvscsi
[Network]
public-network = VM Network
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		VCenters: []VCenter{{
			Name: "vc.example", Server: "vc.example", Port: 443, User: "u", Password: "p", Datacenters: []string{"dc1"}, Tries: 3, Families: []string{"ipv4"},
		}},
		Nodes: Nodes{Internal: Selection{Network: "VM Network"}, External: Selection{Network: "VM Network"}},
	}
	if diff := cmp.Diff(want, config, comparePrefixes); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	for _, part := range []string{
		"[Global] datastore is not read: ", "[Global] vm-uuid is not read: ", "[Workspace] is not read: only volumes", "[Disk] is not read: only volumes",
		"internal-vm-network-name", "use datacenters",
	} {
		if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, part) }) {
			t.Errorf("no note says %q: %q", part, notes)
		}
	}
}

func TestConfigsThatCannotBeUsed(t *testing.T) {
	const head, login = "[Global]\nserver=vc\n", "user=u\npassword=hunter2\n"
	for name, test := range map[string]struct{ text, says string }{
		"empty":                  {" \n", "is empty"},
		"no YAML":                {"just words", "neither YAML"},
		"broken YAML":            {"vcenter: {a: [password: hunter2", "no YAML that can be read"},
		"two documents":          {external + "---\nglobal: {}\n", "more than one YAML document"},
		"wrong type":             {"global:\n  port: hunter2\n", "line 2: the value is of the wrong type"},
		"unknown key":            {"global:\n  pasword: hunter2\n", "line 2: global.pasword: no vSphere provider knows this key"},
		"unknown key of vCenter": {"vcenter:\n  a:\n    server: x\n    prot: 1\n", "line 4: vcenter.a.prot"},
		"unknown key of nodes":   {"nodes:\n  internalNetworkSubnetCIDR: 10.0.0.0/8\n", "nodes.internalNetworkSubnetCIDR: no"},
		"unknown section":        {"colour: {blue: yes}\n", "[colour]: no vSphere provider knows this section"},
		"in-tree section":        {"workspace: {server: x}\n", "workspace: it is a section of the in-tree provider's INI"},
		"NSX-T in YAML":          {"loadBalancer: {ipPoolName: x}\n", "no load balancers and no routes of NSX-T"},
		"NSX-T in INI":           {head + login + "[LoadBalancer]\nipPoolName=x\n", "no load balancers and no routes of NSX-T"},
		"NSX-T class":            {head + login + "[LoadBalancerClass \"x\"]\nipPoolName=x\n", "no load balancers"},
		"no server":              {"vcenter:\n  a: {user: u}\n", "vcenter.a.server is missing"},
		"null vCenter":           {"vcenter:\n  a:\n", "vcenter.a.server is missing"},
		"secrets of one vCenter": {"vcenter:\n  a: {server: x, secretsDirectory: /x}\n", "key of global"},
		"unknown INI key":        {head + login + "pasword=hunter2\n", "[Global] pasword: no vSphere provider knows this key"},
		"unknown INI section":    {head + login + "[Colour]\nblue=yes\n", "[Colour]: no vSphere provider knows this section"},
		"INI syntax":             {"[Global\nuser=x\n", "reading the cloud config"},
		"INI port":               {head + login + "port=many\n", "many"},
		"INI without a name":     {"[VirtualCenter]\nuser=x\n", "has no name"},
		"no vCenter":             {"[Global]\n" + login, "no vCenter is named"},
		"no credentials":         {head, `vCenter "vc" has no credentials`},
		"no password":            {head + "user=u\n", `vCenter "vc" has no credentials`},
		"half a Secret":          {head + "secret-name=x\n", "set both secret-name and secret-namespace"},
		"port":                   {head + login + "port=70000\n", "port is 70000"},
		"URL":                    {"[Global]\nserver=https://vc/sdk\n" + login, "without https:// and path"},
		"no CA":                  {head + login + "ca-file=/no/such/file\n", "/no/such/file"},
		"family":                 {head + login + "ip-family=ipv5\n", `ip-family is "ipv5"`},
		"family twice":           {head + login + "ip-family=ipv4,IPv4\n", "ip-family has ipv4 twice"},
		"half of labels":         {head + login + "[Labels]\nzone=z\n", "set both, or none"},
		"CIDR":                   {head + login + "[Nodes]\nexternal-network-subnet-cidr=10.0.0.0/8,nets\n", `external-network-subnet-cidr: "nets" is no CIDR`},
		"one server twice": {
			"[VirtualCenter \"a\"]\nserver=vc\n" + login + "[VirtualCenter \"b\"]\nserver=VC\n" + login, `vCenter "a" and vCenter "b" are both vc:443`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := Read([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q in it", err, test.says)
			}
			if config != nil || err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a config comes with the error, or a secret is in it: %v", err)
			}
		})
	}
}

func TestWhereCredentialsComeFrom(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want VCenter
	}{
		"own before global": {
			"[Global]\nuser=g\npassword=g\n[VirtualCenter \"a\"]\nuser=o\npassword=p\n", VCenter{User: "o", Password: "p"},
		},
		"one of each": {
			"[Global]\nuser=g\npassword=g\n[VirtualCenter \"a\"]\nuser=o\n", VCenter{User: "o", Password: "g"},
		},
		"a Secret for all": {
			"[Global]\nsecret-name=s\nsecret-namespace=n\n[VirtualCenter \"a\"]\n", VCenter{SecretName: "s", SecretNamespace: "n"},
		},
		"a Secret of its own": {
			"[Global]\nsecret-name=s\nsecret-namespace=n\n[VirtualCenter \"a\"]\nsecret-name=o\nsecret-namespace=m\n",
			VCenter{SecretName: "o", SecretNamespace: "m"},
		},
		"files": {"[Global]\nsecrets-directory=/creds\n[VirtualCenter \"a\"]\n", VCenter{SecretsDirectory: "/creds"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := Read([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			got := config.VCenters[0]
			got = VCenter{
				User: got.User, Password: got.Password, SecretName: got.SecretName, SecretNamespace: got.SecretNamespace, SecretsDirectory: got.SecretsDirectory,
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(external))
	f.Add([]byte("[Global]\nserver=vc\nuser=u\npassword=p\n[Workspace]\nfolder=x\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("vcenter: &x\n  a: {<<: *x}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, notes, err := Read(data)
		switch {
		case err != nil && (config != nil || notes != nil):
			t.Errorf("an error comes with a config: %v", err)
		case err == nil && len(config.VCenters) == 0:
			t.Error("a config without a vCenter is taken")
		}
	})
}
