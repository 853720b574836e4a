package plan

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// prepare makes everything that the later phases need and that changes nothing yet: rights, files, binaries.
func prepare(d *draft.Draft) {
	d.AddFact("cluster:uid", d.Snapshot.Cluster.UID, "")
	ccm.EnsureRights(d)
	for _, h := range d.Hosts {
		writeConfigs(d, h)
	}
	kubelet.InstallCredentialProviders(d)
}

// writeConfigs are the files of the managers of a host.
func writeConfigs(d *draft.Draft, h v1.Host) {
	m := clusterview.FindComponent(h, component.KCM)
	if err := ccm.CheckCloudConfig(d, m, "host "+h.Name); err != nil {
		d.Refusals = append(d.Refusals, err)
		return
	}
	if !ccm.IsUnconfigured(d, m) && (h.CloudConfig == nil || h.CloudConfig.Error != "") {
		d.Refusals = append(
			d.Refusals,
			fmt.Errorf(
				"cloud config %s on host %s could not be read or turned into the external provider's: see transplant check",
				m.Flags[flagvalue.FlagCloudConfig],
				h.Name,
			),
		)
		return
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		writeMigrationConfigs(d, h, m)
	}
	if !ccm.IsUnconfigured(d, m) {
		d.DeriveFile(
			h,
			layout.CCMCloudConf,
			layout.DeriveCloudConfig,
			h.CloudConfig.Path,
			"0600",
			h.CloudConfig.DerivedChanges,
		)
	}
	if d.Shape == v1.ShapeStaticPod {
		source := clusterview.KubeconfigPath(h, m)
		ccm.WriteToken(d, h)
		d.DeriveFile(
			h,
			layout.CCMKubeconfig,
			layout.DeriveKubeconfig,
			source,
			"0600",
			[]string{"server and CA of " + source + ", token in " + layout.CCMToken},
		)
	}
}

func writeMigrationConfigs(d *draft.Draft, h v1.Host, m *v1.Component) {
	n, _ := d.MinorOf(m) // aim has asked
	for _, file := range []struct {
		comp      controllernames.Component
		minor     int
		path, why string
	}{
		{controllernames.KubeControllerManager, n, layout.KCMMigration, "names of the loops in the dialect of this kube-controller-manager"},
		{controllernames.CloudControllerManager, d.Program.Minor, layout.CCMMigration, "the same loops in the dialect of the cloud-controller-manager: one file for both would make two owners"},
	} {
		content, err := migrationconfig.Render(file.comp, file.minor, d.MovedLoops(), d.Options.LeaseName)
		if err != nil {
			d.Refusals = append(
				d.Refusals,
				fmt.Errorf("rendering the leader migration config of %s on host %s: %w", file.comp, h.Name, err),
			)
			return
		}
		d.WriteFile(h, file.path, string(content), file.why)
	}
}
