// Package cloudconfig decides what a cloud config says, and derives the external provider's from the in-tree one. It
// says what is renamed, added and dropped, and what cannot be converted. A file is edited in place wherever both
// providers read the same format: comments, order and values stay. No value is returned next to the file but names of
// services and settings that the catalogue says can hold no secret.
package cloudconfig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

// Formats of a cloud config.
const (
	FormatINI  = "ini"
	FormatJSON = "json"
	FormatYAML = "yaml"
)

// Derived is the external provider's cloud config.
type Derived struct {
	// Data is the file; the same bytes when nothing has to change. With problems it is not to be used.
	Data []byte
	// Format of Data.
	Format string
	// Changes are sentences for the operator, each beginning with the section or key. They hold no values but names of
	// services.
	Changes []string
	// Problems are sentences about what cannot be converted, in the same form: an administrator has to decide first.
	Problems []string
}

// Description is what a cloud config says, without secrets.
type Description struct {
	Format string
	// Keys are "Section.Key", `Section "sub".Key` or, in JSON, "key"; as the documentation spells them; sorted.
	Keys []string
	// ServiceOverrides are the services whose endpoints an AWS config overrides, in the order of the file.
	ServiceOverrides []string
	// Settings are the values of keys that decide what the provider does, by key.
	Settings map[string]string
	// Secrets are the keys that hold one, sorted.
	Secrets []string
	// Problems are sentences about keys that a provider does not know or would refuse, also those of the derivation. Each
	// begins with the key or section.
	Problems []string
}

// Derive turns a provider's in-tree cloud config into the external provider's. A config that is the external provider's
// already comes back as it is, with no changes. An error means that the file cannot be read, and holds nothing of it.
func Derive(provider string, in []byte) (Derived, error) {
	var d Derived
	var err error
	switch provider {
	case "aws":
		d, err = deriveAWS(in)
	case "azure":
		d, err = deriveAzure(in)
	case "gce":
		d, err = deriveGCE(in)
	case "openstack":
		d, err = deriveOpenStack(in)
	case "vsphere":
		d, err = deriveVSphere(in)
	default:
		return Derived{}, fmt.Errorf("deriving a cloud config: nothing is known of the configs of provider %q", provider)
	}
	if err != nil {
		return Derived{}, fmt.Errorf("reading the cloud config: %w", err)
	}
	d.Data = bytes.Clone(d.Data)
	return d, nil
}

// Describe returns what a provider's cloud config says. An error means that the file cannot be read, and holds nothing
// of it.
func Describe(provider string, in []byte) (Description, error) {
	d, err := Derive(provider, in)
	if err != nil {
		return Description{}, err
	}
	entries, format, err := entriesOf(provider, in)
	if err != nil {
		return Description{}, fmt.Errorf("reading the cloud config: %w", err)
	}
	out := Description{Format: format, Settings: map[string]string{}}
	for _, e := range entries {
		out.add(provider, e)
	}
	if provider == "openstack" {
		out.neutron(entries)
	}
	slices.Sort(out.Keys)
	slices.Sort(out.Secrets)
	out.Keys, out.Secrets = slices.Compact(out.Keys), slices.Compact(out.Secrets)
	out.Problems = append(out.Problems, d.Problems...)
	if len(out.Settings) == 0 {
		out.Settings = nil
	}
	return out, nil
}

// setting is a key of a file of any format, with its value.
type setting struct {
	section, sub, key string
	value             string
}

// name is the key as people write it, spelled as the catalogue does.
func (s setting) name(provider string, known catalogue.ConfigKey) string {
	section, key := s.section, s.key
	if known.Key != "" {
		section, key = known.Section, known.Key
	} else if i := slices.IndexFunc(
		catalogue.ConfigKeys(provider),
		func(k catalogue.ConfigKey) bool { return strings.EqualFold(k.Section, section) },
	); i >= 0 {
		section = catalogue.ConfigKeys(provider)[i].Section
	}
	switch {
	case section == "":
		return key
	case s.sub != "":
		return fmt.Sprintf("%s %q.%s", section, s.sub, key)
	}
	return section + "." + key
}

// add describes one key.
func (d *Description) add(provider string, s setting) {
	known, ok := catalogue.ConfigKeyOf(provider, s.section, s.key)
	name := s.name(provider, known)
	d.Keys = append(d.Keys, name)
	switch {
	case !ok:
		d.Problems = append(d.Problems, fmt.Sprintf("%s is known to neither provider%s", name, strictly(provider)))
	case known.Secret:
		d.Secrets = append(d.Secrets, name)
	case known.Decides:
		d.Settings[name] = s.value
	}
	if ok && known.Section == overrideSection && known.Key == "Service" && s.value != "" {
		d.ServiceOverrides = append(d.ServiceOverrides, s.value)
	}
}

// strictly says what the in-tree provider does about a key that it does not know.
func strictly(provider string) string {
	p, _ := cloudprovider.Lookup(provider)
	switch last := catalogue.StrictConfigUntil(provider); last {
	case 0:
		return ", and means nothing"
	case p.LastInTree:
		return ", and the in-tree one does not start with it"
	default:
		return fmt.Sprintf(", and the in-tree one does not start with it up to Kubernetes 1.%d", last)
	}
}

// entriesOf lists the keys of a file in its order, and tells its format.
func entriesOf(provider string, in []byte) ([]setting, string, error) {
	p, _ := cloudprovider.Lookup(provider)
	if p.ConfigFormat == FormatJSON || p.ExternalFormat == FormatYAML && !isINI(in) {
		return treeEntries(provider, in)
	}
	f, err := parseFile(in)
	if err != nil {
		return nil, "", err
	}
	var out []setting
	for _, b := range f.blocks {
		for _, e := range b.entries {
			out = append(out, setting{
				section: b.section,
				sub:     b.sub,
				key:     e.key,
				value:   trimmed(e.value),
			})
		}
	}
	return out, FormatINI, nil
}
