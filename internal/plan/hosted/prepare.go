package hosted

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// prepare makes what changes nothing yet: rights in the migrated cluster, credentials and configuration in the seed.
// All that could fail for what stands in them fails here, while the loops still run.
func prepare(d *draft.Draft, m *v1.Component) {
	ccm.EnsureRights(d)
	createSecret(
		d,
		layout.SeedKubeconfig,
		layout.DeriveSeedKubeconfig,
		m,
		"server and authority of "+m.Manifest+"'s kubeconfig, a token of "+layout.AccountRef+" for 365 days",
	)
	if at := configPath(d, m); at != "" {
		changed := "derived from what " + m.Manifest + " mounts at " + at
		if m.CloudConfig != nil && len(m.CloudConfig.DerivedChanges) > 0 {
			changed += ": " + strings.Join(m.CloudConfig.DerivedChanges, "; ")
		}
		createSecret(d, layout.SeedCloudConfig, layout.DeriveSeedCloudConfig, m, changed)
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		createMigrationConfigs(d)
	}
}

func createSecret(d *draft.Draft, name, derivation string, m *v1.Component, after string) {
	o := layout.Object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": seedMetadata(d, name)}
	d.Add(v1.Step{
		ID: "create/" + layout.Ref(
			o,
		),
		Phase: planstep.PhasePrepare,
		Kind:  v1.StepEnsureObject,
		Title: "create " + layout.Ref(o) + " in the seed",
		Why:   "it is made from what is there when the step is executed, and stands in no plan",
		Ref: layout.Ref(
			o,
		),
		Object:          layout.EncodeObject(o),
		Derive:          derivation,
		Source:          m.Manifest,
		Requires:        []string{"cluster:uid", "seed:uid"},
		Undo:            "delete it, if this migration made it",
		EstimateSeconds: 0.5,
		Changes:         []v1.Change{{Field: layout.Ref(o), After: after}},
	})
}

// createMigrationConfigs are both leader migration configs, in one ConfigMap.
func createMigrationConfigs(d *draft.Draft) {
	data := layout.Object{}
	for _, file := range []struct {
		comp  controllernames.Component
		minor int
		key   string
	}{
		{controllernames.KubeControllerManager, d.KCMMinor, layout.SeedMigrationKCM},
		{controllernames.CloudControllerManager, d.Program.Minor, layout.SeedMigrationCCM},
	} {
		content, err := migrationconfig.Render(file.comp, file.minor, d.MovedLoops(), d.Options.LeaseName)
		if err != nil {
			d.Refusals = append(d.Refusals, fmt.Errorf("rendering the leader migration config of %s: %w", file.comp, err))
			return
		}
		data[file.key] = string(content)
	}
	d.EnsureObjects(
		planstep.PhasePrepare,
		"names of the loops in the dialect of each manager: one file for both would make two owners",
		[]layout.Object{
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": seedMetadata(d, layout.SeedMigration), "data": data},
		},
	)
}
