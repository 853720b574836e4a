package cloudconfig

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// deriveVSphere writes the YAML that the external provider reads. It still reads an INI of its own, which comes back as
// it is.
func deriveVSphere(in []byte) (Derived, error) {
	if !isINI(in) {
		if _, err := tree(in); err != nil {
			return Derived{}, err
		}
		return Derived{Data: in, Format: FormatYAML}, nil
	}
	f, err := parseFile(in)
	if err != nil {
		return Derived{}, err
	}
	if !f.hasInTreeKeys() {
		return Derived{Data: in, Format: FormatINI}, nil
	}
	t := &translation{file: f}
	t.translate()
	out := Derived{
		Data:     in,
		Format:   FormatYAML,
		Changes:  t.changes,
		Problems: t.problems,
	}
	if len(t.problems) > 0 {
		return out, nil
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(t.out); err != nil {
		return Derived{}, fmt.Errorf("writing YAML: %w", err)
	}
	out.Data = b.Bytes()
	return out, nil
}

// hasInTreeKeys reports whether a file holds keys that only the in-tree provider reads. It does not start without some
// of them ([Workspace], or working-dir in files of the older form).
func (f *file) hasInTreeKeys() bool {
	return slices.ContainsFunc(f.blocks, func(b *block) bool {
		return slices.ContainsFunc(b.entries, func(e *entry) bool {
			k, ok := catalogue.ConfigKeyOf("vsphere", b.section, e.key)
			return ok && !k.External
		})
	})
}

// The external provider's YAML (pkg/common/config/types_yaml.go and pkg/cloudprovider/vsphere/config/types_yaml.go of
// cloud-provider-vsphere).
type vsphereYAML struct {
	Global  vsphereGlobal            `yaml:"global,omitempty"`
	VCenter map[string]vsphereCenter `yaml:"vcenter,omitempty"`
	Labels  *vsphereLabels           `yaml:"labels,omitempty"`
	Nodes   *vsphereNodes            `yaml:"nodes,omitempty"`
}

type vsphereGlobal struct {
	User              string   `yaml:"user,omitempty"`
	Password          string   `yaml:"password,omitempty"`
	Port              uint     `yaml:"port,omitempty"`
	InsecureFlag      bool     `yaml:"insecureFlag,omitempty"`
	Datacenters       []string `yaml:"datacenters,omitempty"`
	RoundTripperCount uint     `yaml:"soapRoundtripCount,omitempty"`
	CAFile            string   `yaml:"caFile,omitempty"`
	Thumbprint        string   `yaml:"thumbprint,omitempty"`
	SecretName        string   `yaml:"secretName,omitempty"`
	SecretNamespace   string   `yaml:"secretNamespace,omitempty"`
}

type vsphereCenter struct {
	Server            string   `yaml:"server"`
	User              string   `yaml:"user,omitempty"`
	Password          string   `yaml:"password,omitempty"`
	Port              uint     `yaml:"port,omitempty"`
	Datacenters       []string `yaml:"datacenters,omitempty"`
	RoundTripperCount uint     `yaml:"soapRoundtripCount,omitempty"`
	Thumbprint        string   `yaml:"thumbprint,omitempty"`
}

type vsphereLabels struct {
	Zone   string `yaml:"zone,omitempty"`
	Region string `yaml:"region,omitempty"`
}

type vsphereNodes struct {
	InternalVMNetworkName string `yaml:"internalVmNetworkName,omitempty"`
	ExternalVMNetworkName string `yaml:"externalVmNetworkName,omitempty"`
}

// translation is the way from the in-tree INI to that YAML.
type translation struct {
	*file
	out      vsphereYAML
	changes  []string
	problems []string
}

func (t *translation) say(format string, args ...any) {
	t.changes = append(t.changes, fmt.Sprintf(format, args...))
}

func (t *translation) addProblem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

func (t *translation) translate() {
	t.say("the file is written again as YAML: its comments are not copied")
	secret := t.global("secret-name") != "" && t.global("secret-namespace") != ""
	t.globals(secret)
	t.centers(secret)
	t.rest()
	t.leaveOut()
}

func (t *translation) global(key string) string {
	value, _ := t.value(globalSection, key)
	return value
}

// globals are those of [Global] that hold for every vCenter.
func (t *translation) globals(secret bool) {
	g := &t.out.Global
	g.SecretName, g.SecretNamespace = t.global("secret-name"), t.global("secret-namespace")
	if !secret {
		g.User, g.Password = t.global("user"), t.global("password")
	} else if t.global("user") != "" || t.global("password") != "" {
		t.say("[Global]: user and password are left out: the credentials come from the Secret")
	}
	insecure, ok := t.value(globalSection, "insecure-flag")
	g.InsecureFlag = ok && isTruthy(insecure)
	g.CAFile, g.Thumbprint = t.global("ca-file"), t.global("thumbprint")
	g.Port = t.number("[Global]: port", t.global("port"))
	g.RoundTripperCount = t.number("[Global]: soap-roundtrip-count", t.global("soap-roundtrip-count"))
	g.Datacenters = list(t.global("datacenters"))
	if old := t.global("datacenter"); old != "" {
		if len(g.Datacenters) == 0 {
			g.Datacenters = list(old)
			t.say("[Global]: datacenter becomes datacenters")
		} else {
			t.say("[Global]: datacenter is left out: datacenters goes before it")
		}
	}
}

// centers are the vCenters: sections of their own or, in files of the older form, the one of [Global].
func (t *translation) centers(secret bool) {
	t.out.VCenter = map[string]vsphereCenter{}
	for _, b := range t.blocks {
		if b.is(centerSection) && b.sub != "" {
			t.out.VCenter[b.sub] = t.center(b, t.out.VCenter[b.sub], secret)
		}
	}
	if len(t.out.VCenter) == 0 {
		server := t.global("server")
		if server == "" {
			t.addProblem("[Global]: neither server nor a section [VirtualCenter] names a vCenter")
			return
		}
		t.out.VCenter[server] = vsphereCenter{Server: server}
		t.say("[Global]: server becomes a vCenter of its own, as the external provider lists them")
	}
	if secret {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(t.out.VCenter)) {
		c := t.out.VCenter[name]
		if c.User == "" && t.out.Global.User == "" || c.Password == "" && t.out.Global.Password == "" {
			t.addProblem("[VirtualCenter %q]: there are no user and password for it, and no secret-name with secret-namespace", name)
		}
	}
}

const centerSection = "VirtualCenter"

func (t *translation) center(b *block, c vsphereCenter, secret bool) vsphereCenter {
	c.Server = b.sub
	dropped := false
	for _, e := range b.entries {
		value := trimmed(e.value)
		switch strings.ToLower(e.key) {
		case "user", "password":
			switch {
			case secret:
				dropped = true
			case strings.EqualFold(e.key, "user"):
				c.User = value
			default:
				c.Password = value
			}
		case "port":
			c.Port = t.number(b.title()+": port", value)
		case "datacenters":
			c.Datacenters = list(value)
		case "soap-roundtrip-count":
			c.RoundTripperCount = t.number(b.title()+": soap-roundtrip-count", value)
		case "thumbprint":
			c.Thumbprint = value
		}
	}
	if dropped {
		t.say("%s: user and password are left out: the credentials come from the Secret", b.title())
	}
	return c
}

// rest are the labels, which mean the same to both, and the network whose addresses the nodes have.
func (t *translation) rest() {
	zone, _ := t.value("Labels", "zone")
	region, _ := t.value("Labels", "region")
	if zone != "" || region != "" {
		t.out.Labels = &vsphereLabels{Zone: zone, Region: region}
	}
	if network, _ := t.value("Network", "public-network"); network != "" {
		t.out.Nodes = &vsphereNodes{InternalVMNetworkName: network, ExternalVMNetworkName: network}
		t.say(
			"[Network]: public-network becomes the network of both addresses of a node: internalVmNetworkName and externalVmNetworkName",
		)
	}
}

// leaveOut names the keys that are not carried over, with the reason.
func (t *translation) leaveOut() {
	for _, b := range t.blocks {
		for _, e := range b.entries {
			k, ok := catalogue.ConfigKeyOf("vsphere", b.section, e.key)
			switch {
			case !ok:
				t.say("%s: %s is left out: no provider knows it", b.title(), e.key)
			case !k.InTree:
				t.addProblem(
					"%s: %s is the external provider's, in a file of the in-tree one, which does not start with it: remove it",
					b.title(),
					k.Key,
				)
			case !k.External && k.Renamed == "":
				t.say("%s: %s is left out: %s", b.title(), k.Key, k.Why)
			}
		}
	}
}

// number reads one without showing what cannot be read.
func (t *translation) number(what, value string) uint {
	if value == "" {
		return 0
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		t.addProblem("%s is no number", what)
	}
	return uint(n)
}

// list is a value with commas.
func list(value string) []string {
	var out []string
	for _, item := range strings.Split(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// vsphereEntries lists the keys of the external provider's YAML by the names that its INI had, which the catalogue
// lists.
func vsphereEntries(root *yaml.Node) []setting {
	var out []setting
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i].Value, resolved(root.Content[i+1])
		if value.Kind != yaml.MappingNode {
			out = append(out, setting{section: iniSection(name), key: name})
			continue
		}
		for j := 0; j+1 < len(value.Content); j += 2 {
			key, inner := value.Content[j].Value, resolved(value.Content[j+1])
			if iniSection(name) != centerSection || inner.Kind != yaml.MappingNode {
				out = append(out, setting{section: iniSection(name), key: dashed(key), value: scalar(inner)})
				continue
			}
			for k := 0; k+1 < len(inner.Content); k += 2 {
				out = append(
					out,
					setting{
						section: centerSection,
						sub:     key,
						key:     dashed(inner.Content[k].Value),
						value:   scalar(inner.Content[k+1]),
					},
				)
			}
		}
	}
	return out
}

func iniSection(name string) string {
	if strings.EqualFold(name, "vcenter") {
		return centerSection
	}
	return name
}

// dashed turns soapRoundtripCount into soap-roundtrip-count.
func dashed(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('-')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
