// Package cloudconf decides how a cloud config of vSphere is understood. It reads the YAML and the INI of the external
// provider (cloud-provider-vsphere), with its defaults, and the INI of the in-tree one.
//
//	YAML --\
//	        raw --defaults of [Global]--> one VCenter for each server --> checks
//	INI  --/
//
// A key that no provider knows is an error: a misspelt exclude rule would give nodes the wrong addresses. A key that
// only the in-tree provider read is a note that says what to use instead.
package cloudconf

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Config is a cloud config.
type Config struct {
	// VCenters are in the order of their names.
	VCenters []VCenter
	// Labels are the categories of the tags that say where a virtual machine is.
	Labels Labels
	Nodes  Nodes
}

// VCenter is one vCenter, and who asks it.
type VCenter struct {
	// Name is what the config calls it. It is the server unless the config has both.
	Name   string
	Server string
	Port   uint
	// User and Password are empty when the credentials are in a Secret or in files.
	User, Password string
	// SecretNamespace and SecretName are of a Secret; SecretsDirectory has files of the same names as a Secret's keys.
	SecretNamespace, SecretName, SecretsDirectory string

	Insecure           bool
	CAFile, Thumbprint string
	// Datacenters are names or inventory paths; none stands for all.
	Datacenters []string
	// Tries is how often a request is sent when the connection fails.
	Tries uint
	// Families are the kinds of addresses that a node gets, in this order.
	Families []string
}

// Labels are categories of tags. Both are set, or nodes get neither label.
type Labels struct{ Zone, Region string }

// Nodes says which addresses of a virtual machine its node gets.
type Nodes struct{ Internal, External Selection }

// Selection chooses one address of a family: one in Subnets, or else one in Network, and never one in Exclude.
type Selection struct {
	Subnets []netip.Prefix
	Network string
	Exclude []netip.Prefix
}

// The external provider's defaults (pkg/common/config/consts_and_errors.go of cloud-provider-vsphere).
const (
	defaultPort  = 443
	defaultTries = 3
	maxPort      = 65535

	// IPv4 and IPv6 are the families.
	IPv4 = "ipv4"
	IPv6 = "ipv6"
)

// raw is what both formats are read into, as they are written.
type raw struct {
	global  center
	centers map[string]center
	labels  Labels
	nodes   nodes
	// inTreeNetwork is [Network] public-network.
	inTreeNetwork string
}

// center are the keys of [Global], and of one vCenter.
type center struct {
	user, password                                string
	server                                        string
	port                                          uint
	insecure                                      bool
	datacenters                                   []string
	tries                                         uint
	caFile, thumbprint                            string
	secretName, secretNamespace, secretsDirectory string
	families                                      []string
}

type nodes struct {
	internalSubnets, externalSubnets string
	internalNetwork, externalNetwork string
	internalExclude, externalExclude string
}

// Read reads a cloud config. The notes say which keys are not used, and what to use instead. Neither notes nor errors
// hold a value that may be a secret.
func Read(data []byte) (config *Config, notes []string, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil, errors.New("the cloud config is empty: vSphere needs at least one vCenter and its credentials")
	}
	read := readYAML
	if isINI(data) {
		read = readINI
	}
	r, notes, err := read(data)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	p := &problems{}
	c := &Config{Labels: r.labels, Nodes: r.selections(p)}
	for _, name := range r.names() {
		c.VCenters = append(c.VCenters, r.vcenter(name, p))
	}
	c.check(p)
	if len(p.all) > 0 {
		return nil, nil, fmt.Errorf("the cloud config cannot be used: %w", errors.Join(p.all...))
	}
	return c, notes, nil
}

// isINI reports whether the first line that says something is the title of a section.
func isINI(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) > 0 && line[0] != '#' && line[0] != ';' {
			return line[0] == '['
		}
	}
	return false
}

type problems struct{ all []error }

func (p *problems) add(format string, args ...any) {
	p.all = append(p.all, fmt.Errorf(format, args...))
}

// names are those of the vCenters. A server in [Global] is one of them unless a section of its own describes it.
func (r *raw) names() []string {
	var names []string
	for name := range r.centers {
		names = append(names, name)
	}
	if server := r.global.server; server != "" && !slices.Contains(names, server) {
		names = append(names, server)
	}
	slices.Sort(names)
	return names
}

// vcenter is one vCenter with what [Global] says for all of them.
func (r *raw) vcenter(name string, p *problems) VCenter {
	own, global := r.centers[name], r.global
	v := VCenter{
		Name:        name,
		Server:      first(own.server, name),
		Port:        first(own.port, global.port, defaultPort),
		Insecure:    own.insecure || global.insecure,
		CAFile:      first(own.caFile, global.caFile),
		Thumbprint:  first(own.thumbprint, global.thumbprint),
		Datacenters: own.datacenters,
		Tries:       first(own.tries, global.tries, defaultTries),
		Families:    own.families,
	}
	if len(v.Datacenters) == 0 {
		v.Datacenters = global.datacenters
	}
	if len(v.Families) == 0 {
		v.Families = global.families
	}
	if len(v.Families) == 0 {
		v.Families = []string{IPv4}
	}
	switch {
	case own.secretName != "" || own.secretNamespace != "":
		v.SecretName, v.SecretNamespace = own.secretName, own.secretNamespace
	case own.user != "" && own.password != "":
		v.User, v.Password = own.user, own.password
	case global.secretName != "" || global.secretNamespace != "":
		v.SecretName, v.SecretNamespace = global.secretName, global.secretNamespace
	case global.secretsDirectory != "":
		v.SecretsDirectory = global.secretsDirectory
	default:
		v.User, v.Password = first(own.user, global.user), first(own.password, global.password)
	}
	v.check(p)
	return v
}

func first[T comparable](values ...T) T {
	var zero T
	for _, value := range values {
		if value != zero {
			return value
		}
	}
	return zero
}

func (v *VCenter) check(p *problems) {
	if v.Server == "" || strings.ContainsAny(v.Server, "/ \t@?#") {
		p.add("vCenter %q: server is %q: it is a host name or an IP address, without https:// and path", v.Name, v.Server)
	}
	if v.Port > maxPort {
		p.add("vCenter %q: port is %d: it is between 1 and %d", v.Name, v.Port, maxPort)
	}
	switch {
	case v.SecretsDirectory != "":
	case (v.SecretName == "") != (v.SecretNamespace == ""):
		p.add("vCenter %q: set both secret-name and secret-namespace (secretName and secretNamespace in YAML)", v.Name)
	case v.SecretName == "" && (v.User == "" || v.Password == ""):
		p.add("vCenter %q has no credentials; set user and password, secret-name and secret-namespace, "+
			"or [Global] secrets-directory", v.Name)
	}
	if v.CAFile != "" {
		if _, err := os.Stat(v.CAFile); err != nil {
			p.add("vCenter %q: ca-file: %w", v.Name, err)
		}
	}
	for i, family := range v.Families {
		v.Families[i] = strings.ToLower(family)
		if !slices.Contains([]string{IPv4, IPv6}, v.Families[i]) {
			p.add("vCenter %q: ip-family is %q: it is ipv4, ipv6, or both", v.Name, family)
		}
		if slices.Contains(v.Families[:i], v.Families[i]) {
			p.add("vCenter %q: ip-family has %s twice", v.Name, v.Families[i])
		}
	}
}

func (c *Config) check(p *problems) {
	if len(c.VCenters) == 0 {
		p.add("no vCenter is named: set vcenter in YAML, or a section [VirtualCenter \"<server>\"] in an INI")
	}
	if (c.Labels.Zone == "") != (c.Labels.Region == "") {
		p.add("labels has one of zone and region: set both, or none; with one of them no node gets a label")
	}
	at := map[string]string{}
	for _, v := range c.VCenters {
		address := fmt.Sprintf("%s:%d", strings.ToLower(v.Server), v.Port)
		if other := at[address]; other != "" {
			p.add("vCenter %q and vCenter %q are both %s: every virtual machine would be found twice", other, v.Name, address)
		}
		at[address] = v.Name
	}
}

// selections are the rules of nodes' addresses. The in-tree provider had one network for both.
func (r *raw) selections(p *problems) Nodes {
	n := r.nodes
	return Nodes{
		Internal: Selection{
			Subnets: prefixes("internal-network-subnet-cidr", n.internalSubnets, p),
			Network: first(n.internalNetwork, r.inTreeNetwork),
			Exclude: prefixes("exclude-internal-network-subnet-cidr", n.internalExclude, p),
		},
		External: Selection{
			Subnets: prefixes("external-network-subnet-cidr", n.externalSubnets, p),
			Network: first(n.externalNetwork, r.inTreeNetwork),
			Exclude: prefixes("exclude-external-network-subnet-cidr", n.externalExclude, p),
		},
	}
}

func prefixes(key, value string, p *problems) (all []netip.Prefix) {
	for _, item := range list(value) {
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			p.add("[Nodes] %s: %q is no CIDR such as 10.0.0.0/8", key, item)
			continue
		}
		all = append(all, prefix.Masked())
	}
	return all
}

// list is a value with commas.
func list(value string) (all []string) {
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}
