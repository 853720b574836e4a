package ccm

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// IsUnconfigured reports whether a kube-controller-manager has no cloud config and its provider needs none. An empty
// --cloud-config is none.
func IsUnconfigured(d *draft.Draft, m *v1.Component) bool {
	return d.Provider.ConfigOptional && m.Flags[flagvalue.FlagCloudConfig] == ""
}

// CheckCloudConfig returns why a manager that has no cloud config, on the host or in the workload that is named, cannot
// be followed. It is nil where it can.
func CheckCloudConfig(d *draft.Draft, m *v1.Component, where string) error {
	if m.Flags[flagvalue.FlagCloudConfig] != "" {
		return nil
	}
	if !d.Provider.ConfigOptional {
		return fmt.Errorf(
			"%s on %s has no --cloud-config, and with provider %s %s: write its configuration to a file, name it with --cloud-config, and plan again",
			component.KCM,
			where,
			d.Provider.Name,
			d.Provider.WithoutConfig,
		)
	}
	for _, e := range d.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		if d.Provider.NoMetadata != "" && name == d.Provider.NoMetadata && strings.EqualFold(value, "true") {
			return fmt.Errorf(
				"%s=%s in --ccm-env: %s on %s has no --cloud-config, so %s; leave the variable out",
				name,
				value,
				component.KCM,
				where,
				d.Provider.WithoutConfig,
			)
		}
	}
	d.Note(
		fmt.Sprintf(
			"cloud config: %s has none, and so has the %s; %s",
			component.KCM,
			component.CCM,
			d.Provider.WithoutConfig,
		),
	)
	return nil
}
