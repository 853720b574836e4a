package cloudconf

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The external provider's YAML. Its keys are in the form that the provider's own structs have.
type (
	yamlFile struct {
		Global  yamlCenter             `yaml:"global"`
		VCenter map[string]*yamlCenter `yaml:"vcenter"`
		Labels  yamlLabels             `yaml:"labels"`
		Nodes   yamlNodes              `yaml:"nodes"`
	}
	yamlCenter struct {
		User             string   `yaml:"user"`
		Password         string   `yaml:"password"`
		TenantRef        string   `yaml:"tenantref"`
		Server           string   `yaml:"server"`
		Port             uint     `yaml:"port"`
		InsecureFlag     bool     `yaml:"insecureFlag"`
		Datacenters      []string `yaml:"datacenters"`
		Tries            uint     `yaml:"soapRoundtripCount"`
		CAFile           string   `yaml:"caFile"`
		Thumbprint       string   `yaml:"thumbprint"`
		SecretRef        string   `yaml:"secretref"`
		SecretName       string   `yaml:"secretName"`
		SecretNamespace  string   `yaml:"secretNamespace"`
		SecretsDirectory string   `yaml:"secretsDirectory"`
		APIDisable       *bool    `yaml:"apiDisable"`
		APIBinding       string   `yaml:"apiBinding"`
		Families         []string `yaml:"ipFamily"`
	}
	yamlLabels struct {
		Zone   string `yaml:"zone"`
		Region string `yaml:"region"`
	}
	yamlNodes struct {
		InternalSubnets string `yaml:"internalNetworkSubnetCidr"`
		ExternalSubnets string `yaml:"externalNetworkSubnetCidr"`
		InternalNetwork string `yaml:"internalVmNetworkName"`
		ExternalNetwork string `yaml:"externalVmNetworkName"`
		InternalExclude string `yaml:"excludeInternalNetworkSubnetCidr"`
		ExternalExclude string `yaml:"excludeExternalNetworkSubnetCidr"`
	}
)

func readYAML(data []byte) (*raw, []string, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, nil, atLines(err)
	}
	if more := decoder.Decode(&yaml.Node{}); more == nil {
		return nil, nil, errors.New("it has more than one YAML document: the others would not be read")
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, nil, errors.New("it is neither YAML with keys such as vcenter nor an INI with sections such as [Global]")
	}
	if err := errors.Join(unknownKeys(document.Content[0], reflect.TypeFor[yamlFile](), "")...); err != nil {
		return nil, nil, err
	}
	var file yamlFile
	if err := document.Decode(&file); err != nil {
		return nil, nil, atLines(err)
	}
	return file.raw()
}

func (f *yamlFile) raw() (*raw, []string, error) {
	n := f.Nodes
	r := &raw{
		global: f.Global.center(), centers: map[string]center{}, labels: Labels(f.Labels),
		nodes: nodes{
			internalSubnets: n.InternalSubnets, externalSubnets: n.ExternalSubnets,
			internalNetwork: n.InternalNetwork, externalNetwork: n.ExternalNetwork,
			internalExclude: n.InternalExclude, externalExclude: n.ExternalExclude,
		},
	}
	var notes []string
	for name, c := range f.VCenter {
		if c == nil || c.Server == "" {
			return nil, nil, fmt.Errorf("vcenter.%s.server is missing: the name of the section alone is no address", name)
		}
		r.centers[name] = c.center()
		if c.TenantRef != "" || c.SecretRef != "" {
			notes = append(notes, fmt.Sprintf("vcenter.%s: tenantref and secretref are not used: "+
				"the section's name and secretName with secretNamespace are", name))
		}
		if c.SecretsDirectory != "" {
			return nil, nil, fmt.Errorf("vcenter.%s.secretsDirectory: it is a key of global, for all vCenters", name)
		}
	}
	if f.Global.APIDisable != nil || f.Global.APIBinding != "" {
		notes = append(notes, noteAPI)
	}
	return r, notes, nil
}

func (c *yamlCenter) center() center {
	return center{
		user: c.User, password: c.Password, server: c.Server, port: c.Port, insecure: c.InsecureFlag,
		datacenters: c.Datacenters, tries: c.Tries, caFile: c.CAFile, thumbprint: c.Thumbprint,
		secretName: c.SecretName, secretNamespace: c.SecretNamespace, secretsDirectory: c.SecretsDirectory,
		families: c.Families,
	}
}

// unknownKeys names the keys of a mapping that a struct has no field for.
func unknownKeys(node *yaml.Node, of reflect.Type, path string) (unknown []error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		inner, ok := fieldOf(of, key)
		switch {
		case key == "<<":
		case !ok && path == "":
			unknown = append(unknown, unknownSection(key))
		case !ok:
			unknown = append(unknown, fmt.Errorf("line %d: %s%s: no vSphere provider knows this key", node.Content[i].Line, path, key))
		case inner.Kind() == reflect.Struct || inner.Kind() == reflect.Map || inner.Kind() == reflect.Pointer:
			unknown = append(unknown, unknownKeys(value, inner, path+key+".")...)
		}
	}
	return unknown
}

func unknownSection(name string) error {
	switch strings.ToLower(name) {
	case "network", "disk", "workspace", "virtualcenter":
		return fmt.Errorf("%s: it is a section of the in-tree provider's INI and has no place in YAML: "+
			"use vcenter, and nodes for networks; volumes are the CSI driver's", name)
	}
	return unknownKey(name, "")
}

// fieldOf is the type of what a key holds.
func fieldOf(of reflect.Type, key string) (reflect.Type, bool) {
	if of.Kind() == reflect.Map {
		return of.Elem(), true
	}
	if of.Kind() != reflect.Struct {
		return of, true
	}
	for field := range of.Fields() {
		if field.Tag.Get("yaml") == key {
			return field.Type, true
		}
	}
	return nil, false
}

var lineOf = regexp.MustCompile(`line \d+`)

// atLines says where YAML cannot be read, without the values that its library puts into errors.
func atLines(err error) error {
	lines := lineOf.FindAllString(err.Error(), -1)
	if len(lines) == 0 {
		return errors.New("it is no YAML that can be read")
	}
	var mismatch *yaml.TypeError
	if errors.As(err, &mismatch) {
		return fmt.Errorf("%s: the value is of the wrong type (a list, a number or a text is expected)", strings.Join(lines, ", "))
	}
	return fmt.Errorf("%s: it is no YAML that can be read", strings.Join(lines, ", "))
}
