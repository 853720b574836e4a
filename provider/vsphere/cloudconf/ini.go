package cloudconf

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/gcfg.v1"
	"gopkg.in/warnings.v0"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// The sections of an INI that this program reads: those of the external provider, and of the in-tree one what still
// means something.
type (
	iniFile struct {
		Global        iniCenter
		VirtualCenter map[string]*iniCenter
		Labels        Labels
		Nodes         iniNodes
		Network       iniNetwork
	}
	iniCenter struct {
		User             string
		Password         string
		Server           string
		Port             uint
		InsecureFlag     bool `gcfg:"insecure-flag"`
		Datacenters      string
		Datacenter       string
		Tries            uint   `gcfg:"soap-roundtrip-count"`
		CAFile           string `gcfg:"ca-file"`
		Thumbprint       string
		SecretName       string `gcfg:"secret-name"`
		SecretNamespace  string `gcfg:"secret-namespace"`
		SecretsDirectory string `gcfg:"secrets-directory"`
		APIDisable       string `gcfg:"api-disable"`
		APIBinding       string `gcfg:"api-binding"`
		IPFamily         string `gcfg:"ip-family"`
	}
	iniNodes struct {
		InternalSubnets string `gcfg:"internal-network-subnet-cidr"`
		ExternalSubnets string `gcfg:"external-network-subnet-cidr"`
		InternalNetwork string `gcfg:"internal-vm-network-name"`
		ExternalNetwork string `gcfg:"external-vm-network-name"`
		InternalExclude string `gcfg:"exclude-internal-network-subnet-cidr"`
		ExternalExclude string `gcfg:"exclude-external-network-subnet-cidr"`
	}
	iniNetwork struct {
		PublicNetwork string `gcfg:"public-network"`
	}
)

func readINI(data []byte) (*raw, []string, error) {
	var file iniFile
	err := gcfg.ReadInto(&file, bytes.NewReader(data))
	if fatal := gcfg.FatalOnly(err); fatal != nil {
		return nil, nil, fatal
	}
	notes, err := judgeExtra(err)
	if err != nil {
		return nil, nil, err
	}
	r := &raw{global: file.Global.center(), centers: map[string]center{}, labels: file.Labels}
	for name, c := range file.VirtualCenter {
		if name == "" {
			return nil, nil, errors.New("a section [VirtualCenter] has no name: write [VirtualCenter \"<server>\"]")
		}
		r.centers[name] = c.center()
	}
	n := file.Nodes
	r.nodes = nodes{
		internalSubnets: n.InternalSubnets, externalSubnets: n.ExternalSubnets,
		internalNetwork: n.InternalNetwork, externalNetwork: n.ExternalNetwork,
		internalExclude: n.InternalExclude, externalExclude: n.ExternalExclude,
	}
	if network := file.Network.PublicNetwork; network != "" {
		r.inTreeNetwork = network
		notes = append(notes, "[Network] public-network is the in-tree provider's: it is used as [Nodes] "+
			"internal-vm-network-name and external-vm-network-name, which go before it")
	}
	if datacenter := file.Global.Datacenter; datacenter != "" {
		notes = append(notes, "[Global] datacenter is the in-tree provider's: use datacenters, which goes before it")
	}
	if file.Global.APIDisable != "" || file.Global.APIBinding != "" {
		notes = append(notes, noteAPI)
	}
	return r, notes, nil
}

// noteAPI is about keys of the external provider.
const noteAPI = "api-disable and api-binding are not used: this program has no API of its own but health and metrics"

func (c *iniCenter) center() center {
	out := center{
		user: c.User, password: c.Password, server: c.Server, port: c.Port, insecure: c.InsecureFlag,
		datacenters: list(c.Datacenters), tries: c.Tries, caFile: c.CAFile, thumbprint: c.Thumbprint,
		secretName: c.SecretName, secretNamespace: c.SecretNamespace, secretsDirectory: c.SecretsDirectory,
		families: list(c.IPFamily),
	}
	if len(out.datacenters) == 0 {
		out.datacenters = list(c.Datacenter)
	}
	return out
}

// extra is how gcfg names data that it has no place for.
var extra = regexp.MustCompile(`section "([^"]*)"(?:, subsection "[^"]*")?(?:, variable "([^"]*)")?`)

// judgeExtra says what becomes of each key that has no place in the file. It is a note for one that only the in-tree
// provider read, and an error for any other.
func judgeExtra(err error) (notes []string, _ error) {
	var left warnings.List
	if !errors.As(err, &left) {
		return nil, err
	}
	var unknown []error
	told := map[string]bool{}
	for _, warning := range left.Warnings {
		match := extra.FindStringSubmatch(warning.Error())
		if match == nil {
			return nil, warning
		}
		if told[match[0]] {
			continue
		}
		told[match[0]] = true
		section, key := match[1], match[2]
		known, ok := catalogue.ConfigKeyOf("vsphere", section, key)
		if key == "" {
			known, ok = inTreeSection(section)
		}
		if !ok || known.External {
			unknown = append(unknown, unknownKey(section, key))
			continue
		}
		notes = append(notes, fmt.Sprintf("%s is not read: %s", strings.TrimSpace("["+section+"] "+key), known.Why))
	}
	return notes, errors.Join(unknown...)
}

// inTreeSection is a key of a section that only the in-tree provider has. gcfg names the section alone.
func inTreeSection(section string) (catalogue.ConfigKey, bool) {
	keys := catalogue.ConfigKeys("vsphere")
	i := slices.IndexFunc(keys, func(k catalogue.ConfigKey) bool { return strings.EqualFold(k.Section, section) })
	if i < 0 {
		return catalogue.ConfigKey{}, false
	}
	return keys[i], true
}

// unknownKey is the error of a key that this program does not know. NSX-T's load balancers and routes are known to
// the external provider.
func unknownKey(section, key string) error {
	name := strings.ToLower(section)
	if name == "nsxt" || name == "route" || strings.HasPrefix(name, "loadbalancer") {
		return fmt.Errorf("[%s]: this program has no load balancers and no routes of NSX-T: remove the section, "+
			"or stay with cloud-provider-vsphere", section)
	}
	if key == "" {
		return fmt.Errorf("[%s]: no vSphere provider knows this section", section)
	}
	return fmt.Errorf("[%s] %s: no vSphere provider knows this key", section, key)
}
