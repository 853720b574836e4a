package hosted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func environment(d *draft.Draft) []any {
	out := []any{}
	for _, e := range d.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		out = append(out, layout.Object{"name": name, "value": value})
	}
	return out
}

// startManager starts the cloud-controller-manager in the seed.
func startManager(d *draft.Draft, m *v1.Component) {
	o := renderManager(d, m)
	why := "the loops are proven off: from its first lease on it runs them"
	expect := expectOwners(d, draft.OwnedBy(component.CCM))
	if d.Options.Strategy == planstep.LeaderMigration {
		why, expect = "the next owner runs, has its main lease and reaches the cloud before the old one gives up", expectOwners(
			d,
			draft.OwnedBy(""),
		)
	}
	if d.Options.Part == v1.PartInstall {
		why = m.Manifest + " is external, so that no loop runs yet: from its first lease on the " + component.CCM + " runs them"
	}
	container := o["spec"].(layout.Object)["template"].(layout.Object)["spec"].(layout.Object)["containers"].([]any)[0].(layout.Object)
	s := v1.Step{
		ID:              "start/" + component.CCM,
		Phase:           planstep.PhaseHandover,
		Kind:            v1.StepEnsureObject,
		Component:       component.CCM,
		Title:           "start " + component.CCM + " in the seed",
		Why:             why,
		Ref:             layout.Ref(o),
		Object:          layout.EncodeObject(o),
		Derive:          layout.DeriveSeedManager,
		Source:          m.Manifest,
		Requires:        []string{"cluster:uid", "seed:uid"},
		Undo:            "delete it, if this migration made it",
		EstimateSeconds: 30,
		Expect:          expect,
		Changes: []v1.Change{
			{Field: "image", After: d.Options.Image},
			{Field: "environment, volumes and nodes", After: "those of " + m.Manifest + ", when the step is executed"},
		},
	}
	for _, a := range container["args"].([]any) {
		name, value, _ := strings.Cut(fmt.Sprint(a), "=")
		s.Changes = append(s.Changes, v1.Change{Field: name, After: value})
	}
	d.Add(s)
}

// managerRef is the Deployment of the cloud-controller-manager: the one that is there, else the one that the plan
// makes.
func managerRef(d *draft.Draft) string {
	if c := clusterview.FindHosted(d.Snapshot, component.CCM); c != nil && d.Options.Part == v1.PartFinish {
		return c.Manifest
	}
	return seedRef(d, "Deployment", layout.SeedDeploymentName(d.Provider.Name))
}

func renderManager(d *draft.Draft, m *v1.Component) layout.Object {
	port := cmp.Or(d.Program.ServingPort, component.PortCCM)
	flags := []controlplane.Flag{
		{
			Name:  "cloud-provider",
			Value: d.Provider.Name,
		},
		{Name: "kubeconfig", Value: layout.SeedKubeconfigDir + "/" + layout.SeedKubeconfigKey},
		{
			Name:  "authentication-kubeconfig",
			Value: layout.SeedKubeconfigDir + "/" + layout.SeedKubeconfigKey,
		},
		{Name: "authorization-kubeconfig", Value: layout.SeedKubeconfigDir + "/" + layout.SeedKubeconfigKey},
	}
	volumes := []any{
		layout.Object{"name": layout.SeedKubeconfig, "secret": layout.Object{"secretName": layout.SeedKubeconfig}},
	}
	mounts := []any{layout.Object{"name": layout.SeedKubeconfig, "mountPath": layout.SeedKubeconfigDir, "readOnly": true}}
	if configPath(d, m) != "" || isConfigGiven(d, m) {
		flags = append(
			flags,
			controlplane.Flag{
				Name:  flagvalue.FlagCloudConfig,
				Value: layout.SeedCloudConfigDir + "/" + layout.SeedCloudConfigKey,
			},
		)
		volumes = append(
			volumes,
			layout.Object{"name": layout.SeedCloudConfig, "secret": layout.Object{"secretName": layout.SeedCloudConfig}},
		)
		mounts = append(
			mounts,
			layout.Object{"name": layout.SeedCloudConfig, "mountPath": layout.SeedCloudConfigDir, "readOnly": true},
		)
	}
	if address := m.Flags["bind-address"]; address != "" {
		flags = append(flags, controlplane.Flag{Name: "bind-address", Value: address})
	}
	flags = append(
		flags,
		controlplane.Flag{Name: "leader-elect", Value: "true"},
		controlplane.Flag{Name: "leader-elect-retry-period", Value: ccm.RetryPeriod},
	)
	if d.Options.Strategy == planstep.LeaderMigration {
		flags = append(
			flags,
			controlplane.Flag{Name: "enable-leader-migration", Value: "true"},
			controlplane.Flag{Name: "leader-migration-config", Value: layout.SeedMigrationDir + "/" + layout.SeedMigrationCCM},
		)
		volumes = append(
			volumes,
			layout.Object{"name": layout.MigrationVolume, "configMap": layout.Object{"name": layout.SeedMigration}},
		)
		mounts = append(
			mounts,
			layout.Object{"name": layout.MigrationVolume, "mountPath": layout.SeedMigrationDir, "readOnly": true},
		)
	}
	flags = append(flags, controlplane.Flag{Name: "use-service-account-credentials", Value: "false"})
	flags = append(flags, ccm.InheritFlags(d, m)...)
	for _, more := range []controlplane.Flag{
		{Name: "controllers", Value: ccm.ControllersFlag(d, "")},
		{Name: flagvalue.FlagFeatureGates, Value: ccm.ManagerGates(d)},
		{Name: "secure-port", Value: port},
	} {
		if more.Value != "" {
			flags = append(flags, more)
		}
	}
	var args []any
	for _, f := range flags {
		args = append(args, "--"+f.Name+"="+f.Value)
	}
	container := layout.Object{
		"name":            component.CCM,
		"image":           d.Options.Image,
		"imagePullPolicy": "IfNotPresent",
		"args":            args,
		"volumeMounts":    mounts,
		"resources":       layout.Object{"requests": layout.Object{"cpu": "50m", "memory": "64Mi"}},
		"livenessProbe":   httpsProbe("/healthz", port, 10, 8),
		"startupProbe":    httpsProbe("/healthz", port, 2, 60),
	}
	if d.Program.Command != "" {
		container["command"] = []any{d.Program.Command}
	}
	if d.Program.ReadyPath != "" {
		container["readinessProbe"] = httpsProbe(d.Program.ReadyPath, port, 5, 3)
	}
	if env := environment(d); len(env) > 0 {
		container["env"] = env
	}
	name := layout.SeedDeploymentName(d.Provider.Name)
	labels := layout.Object{
		"app":                          name,
		"app.kubernetes.io/name":       component.CCM,
		"app.kubernetes.io/managed-by": "transplant",
	}
	pod := layout.Object{"containers": []any{container}, "volumes": volumes}
	if d.Program.Ours {
		pod["terminationGracePeriodSeconds"] = 30
	}
	return layout.Object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": seedMetadata(d, name),
		"spec": layout.Object{
			"replicas": clusterview.ReplicasOf(m),
			"selector": layout.Object{"matchLabels": layout.Object{"app": name}},
			// The old pod ends before the next one starts: a release of its leases is not waited for next to it.
			"strategy": layout.Object{
				"type": "Recreate",
			},
			"template": layout.Object{"metadata": layout.Object{"labels": labels}, "spec": pod},
		},
	}
}

func httpsProbe(path, port string, period, failures int) layout.Object {
	if _, err := strconv.Atoi(port); err != nil {
		port = component.PortCCM
	}
	return layout.Object{
		"httpGet":          layout.Object{"path": path, "port": json.Number(port), "scheme": "HTTPS"},
		"periodSeconds":    period,
		"timeoutSeconds":   15,
		"failureThreshold": failures,
	}
}

// configPath is where the kube-controller-manager mounts the cloud config that the external provider's is derived from;
// empty when it mounts none.
func configPath(d *draft.Draft, m *v1.Component) string {
	if at := m.Flags[flagvalue.FlagCloudConfig]; at != "" {
		return at
	}
	if d.Options.Part == v1.PartInstall && m.CloudConfig != nil && strings.HasPrefix(m.CloudConfig.Path, "/") {
		return m.CloudConfig.Path
	}
	return ""
}

// isConfigGiven reports whether a person made the Secret with the cloud config: it is mounted as it is.
func isConfigGiven(d *draft.Draft, m *v1.Component) bool {
	return d.Options.Part == v1.PartInstall && m.Flags[flagvalue.FlagCloudConfig] == "" && m.CloudConfig != nil &&
		strings.HasPrefix(m.CloudConfig.Path, "Secret/")
}
