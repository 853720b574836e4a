package parts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/cloudconfig"
)

// vcenter is a vCenter of the external provider's cloud config.
type vcenter struct {
	Server       string   `yaml:"server"`
	User         string   `yaml:"user"`
	Password     string   `yaml:"password"`
	Port         uint     `yaml:"port"`
	InsecureFlag bool     `yaml:"insecureFlag"`
	Datacenters  []string `yaml:"datacenters"`
}

// driverClusterID is the cluster-id that vSphere's CSI driver gets. vSphere has registered every volume with the one
// that the driver runs with. With another one the driver would take none of them for its own. So the one in its config
// stays, also where that has none and the driver has made one itself. A new driver gets the cluster's.
func driverClusterID(have []byte, cluster string) string {
	if len(have) == 0 {
		return cluster
	}
	for line := range strings.Lines(string(have)) {
		key, value, found := strings.Cut(line, "=")
		if !found || !strings.EqualFold(strings.TrimSpace(key), "cluster-id") {
			continue
		}
		value = strings.TrimSpace(value)
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		return value
	}
	return ""
}

// vsphereConfig makes the CSI driver's config of the in-tree cloud config. It names the cluster unless that is empty.
// Errors hold nothing of it.
func vsphereConfig(in []byte, cluster string) ([]byte, error) {
	d, err := cloudconfig.Derive("vsphere", in)
	if err != nil {
		return nil, err
	}
	var c struct {
		Global  vcenter            `yaml:"global"`
		VCenter map[string]vcenter `yaml:"vcenter"`
	}
	if yaml.Unmarshal(d.Data, &c) != nil {
		return nil, errors.New("the cloud config of vSphere cannot be read")
	}
	if len(c.VCenter) == 0 {
		return nil, errors.New("the cloud config of vSphere names no vCenter")
	}
	var b strings.Builder
	if cluster != "" {
		fmt.Fprintf(&b, "[Global]\ncluster-id = %s\n", quoteValue(cluster))
	}
	for _, name := range slices.Sorted(maps.Keys(c.VCenter)) {
		v := c.VCenter[name].orElse(c.Global, name)
		if v.User == "" || v.Password == "" || len(v.Datacenters) == 0 {
			return nil, errors.New("the cloud config of vSphere names no user, password or datacenter for a vCenter")
		}
		fmt.Fprintf(
			&b,
			"\n[VirtualCenter %s]\nuser = %s\npassword = %s\nport = \"%d\"\ninsecure-flag = \"%t\"\ndatacenters = %s\n",
			quoteValue(
				v.Server,
			),
			quoteValue(v.User),
			quoteValue(v.Password),
			v.Port,
			v.InsecureFlag,
			quoteValue(strings.Join(v.Datacenters, ",")),
		)
	}
	return []byte(b.String()), nil
}

func (v vcenter) orElse(global vcenter, name string) vcenter {
	if v.Server == "" {
		v.Server = name
	}
	if v.User == "" {
		v.User, v.Password = global.User, global.Password
	}
	if v.Port == 0 {
		v.Port = global.Port
	}
	if v.Port == 0 {
		v.Port = 443
	}
	v.InsecureFlag = v.InsecureFlag || global.InsecureFlag
	if len(v.Datacenters) == 0 {
		v.Datacenters = global.Datacenters
	}
	return v
}

// quoteValue is a value as gcfg reads it.
func quoteValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}
