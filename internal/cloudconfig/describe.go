package cloudconfig

import (
	"fmt"
	"slices"
	"strings"
)

// Describe lists the variables of a cloud config, sorted ("Global.Zone", `ServiceOverride "1".Service`), and the services that it overrides, in the
// order of the file. It returns no other value.
func Describe(in []byte) (keys []string, serviceOverrides []string, err error) {
	f, err := parse(in)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range f.blocks {
		section := spelled(b.section, []string{globalSection, overrideSection})
		if b.sub != "" {
			section = fmt.Sprintf("%s %q", section, b.sub)
		}
		for _, e := range b.entries {
			keys = append(keys, section+"."+spelled(e.key, known))
		}
	}
	slices.Sort(keys)
	for _, o := range f.overrides() {
		if o.service != "" {
			serviceOverrides = append(serviceOverrides, o.service)
		}
	}
	return slices.Compact(keys), serviceOverrides, nil
}

// spelled is a name as the documentation spells it.
func spelled(name string, spellings []string) string {
	if i := slices.IndexFunc(spellings, func(s string) bool { return strings.EqualFold(s, name) }); i >= 0 {
		return spellings[i]
	}
	return name
}
