package catalogue

import (
	"slices"
	"strings"
)

// ConfigKey is a key of a provider's cloud config.
type ConfigKey struct {
	// Section of an INI file, as its documentation spells it; empty in JSON. A section with a second name ([VirtualCenter "10.0.0.1"]) stands for all.
	Section, Key string
	// InTree and External tell which of the two providers reads it.
	InTree, External bool
	// Renamed is where the external provider reads it, Section.Key, when elsewhere.
	Renamed string
	// Secret tells that its value must be shown nowhere.
	Secret bool
	// Decides tells that its value decides what the provider does, and can hold no secret.
	Decides bool
	// Why says what becomes of a key that the external provider does not read, a clause.
	Why string
}

// Name is Section.Key, or Key where there are no sections.
func (k ConfigKey) Name() string {
	if k.Section == "" {
		return k.Key
	}
	return k.Section + "." + k.Key
}

// ConfigKeys lists the keys of a provider's cloud config that it or its external successor reads, in the order of their documentation.
func ConfigKeys(provider string) []ConfigKey { return slices.Clone(configKeys[provider]) }

// ConfigKeyOf finds a key, without regard to case, as the providers do.
func ConfigKeyOf(provider, section, key string) (ConfigKey, bool) {
	i := slices.IndexFunc(configKeys[provider], func(k ConfigKey) bool {
		return strings.EqualFold(k.Section, section) && strings.EqualFold(k.Key, key)
	})
	if i < 0 {
		return ConfigKey{}, false
	}
	return configKeys[provider][i], true
}

// StrictConfigUntil is the last minor whose in-tree provider does not start with a key that it does not know (gcfg.ReadInto without FatalOnly); 0 where
// none was strict. OpenStack's passes over them since 1.25 (https://github.com/kubernetes/kubernetes/issues/109709). No external provider is strict.
func StrictConfigUntil(provider string) int {
	switch provider {
	case "openstack":
		return 24
	case "aws", "vsphere":
		p, _ := Lookup(provider)
		return p.LastInTree
	}
	return 0
}

// Ways to write a row: keys of both, of the in-tree provider alone, and of the external one alone.
func both(section string, keys ...string) []ConfigKey {
	return rows(section, ConfigKey{InTree: true, External: true, Decides: true}, keys)
}

func inTreeOnly(section, why string, keys ...string) []ConfigKey {
	return rows(section, ConfigKey{InTree: true, Decides: true, Why: why}, keys)
}

func externalOnly(section string, keys ...string) []ConfigKey {
	return rows(section, ConfigKey{External: true, Decides: true}, keys)
}

// secret marks rows as secrets; quiet as keys whose values nobody has to see.
func secret(list []ConfigKey) []ConfigKey {
	for i := range list {
		list[i].Secret, list[i].Decides = true, false
	}
	return list
}

func quiet(list []ConfigKey) []ConfigKey {
	for i := range list {
		list[i].Decides = false
	}
	return list
}

func rows(section string, k ConfigKey, keys []string) []ConfigKey {
	out := make([]ConfigKey, 0, len(keys))
	for _, key := range keys {
		k.Section, k.Key = section, key
		out = append(out, k)
	}
	return out
}
