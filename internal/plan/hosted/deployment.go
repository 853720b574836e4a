// Package hosted plans for control planes that run as Deployments, in their own cluster or in a seed.
package hosted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/external"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// CheckCandidates refuses a cluster in which it is not clear which hosts, and which kube-controller-manager or
// kube-apiserver, are its own.
func CheckCandidates(snap *v1.Snapshot) error {
	var errs []error
	evidence := hostproof.OfSnapshot(snap)
	for _, h := range snap.Hosts {
		if why := evidence.WhyNot(snap, h); why != "" {
			errs = append(errs, fmt.Errorf("host %s would get what only the control plane has: %s", h.Name, why))
		}
		if len(h.Claims) > 0 {
			errs = append(
				errs,
				fmt.Errorf("host %s runs %s by its own word alone, and %s", h.Name, strings.Join(h.Claims, ", "), hostproof.Unlabelled(h.Name)),
			)
		}
	}
	for _, name := range []string{component.KCM, component.KAS} {
		var found []string
		for _, c := range clusterview.AllHosted(snap, name) {
			found = append(found, c.Manifest)
		}
		isDeployed := len(found) > 0
		for _, h := range snap.Hosts {
			if isDeployed && snap.Cluster.Seed == "" && clusterview.FindComponent(h, name) != nil {
				found = append(found, "host "+h.Name)
			}
		}
		if isDeployed && len(found) > 1 {
			errs = append(
				errs,
				fmt.Errorf(
					"%s runs as %s: which of them is the control plane's own is not known; delete what is left over, then plan again",
					name,
					strings.Join(found, " and "),
				),
			)
		}
	}
	return errors.Join(errs...)
}

// PlanDeployment plans for a kube-controller-manager that is a Deployment of the cluster that it manages.
//
// The documents scale it down, and that is right where it runs in another cluster. In its own cluster it is the
// controller of its own Deployment: scaled to zero, no controller is left to scale it up again. So it is not scaled but
// changed in place. Its lease lets one of the old and new pods run loops at a time. Once the last old pod has ended, no
// manager runs the cloud loops until the cloud-controller-manager, a Deployment next to it, does.
func PlanDeployment(d *draft.Draft, m *v1.Component) error {
	if d.Options.Strategy == "" {
		d.Options.Strategy = planstep.Downtime
	}
	if err := checkDeployable(d, m); err != nil {
		return err
	}
	if err := errors.Join(external.ChooseNodeIPAM(d, m)...); err != nil {
		return err
	}
	var err error
	if d.KCMMinor, err = d.MinorOf(m); err != nil {
		return fmt.Errorf("%s: %w", m.Manifest, err)
	}
	d.AddFact("cluster:uid", d.Snapshot.Cluster.UID, "")
	ccm.EnsureRights(d)
	createCloudConfig(d, m)
	kubelet.InstallCredentialProviders(d)
	d.Add(d.EditComponent(v1.Host{}, m, v1.Step{
		ID:     "external/" + component.KCM + "@" + m.Manifest,
		Phase:  planstep.PhaseHandover,
		Title:  "make " + m.Manifest + " external, and wait until its old pods have ended",
		Why:    "with the last old pod the cloud loops stop; it is not scaled to none, because it is the controller of its own Deployment",
		Edits:  append(externalEdits(m), external.NodeIPAMEdits(d, m, d.KCMMinor)...),
		Leases: []string{component.KCM},
	}))
	object, flags := renderDeployment(d, m)
	d.EnsureObjects(
		planstep.PhaseHandover,
		"from its first lease on it runs the cloud loops; until then nodes are not initialised and load balancers do not change",
		[]map[string]any{object},
	)
	start := &d.Steps[len(d.Steps)-1]
	start.Component, start.EstimateSeconds, start.Changes = component.CCM, 30, ccm.DescribeFlags(d, flags)
	ccm.StartNodeManagers(d, planstep.PhaseHandover)
	makeAPIServersExternal(d)
	kubelet.MakeExternal(d)
	d.VerifyOwners(planstep.PhaseVerify, "verify/handed-over", handedOver(d, m))
	return nil
}

// handedOver are the owners that the loops have in the end. A cloud config on a volume is not read: whether the
// provider has a route loop is not known then, and none is expected.
func handedOver(d *draft.Draft, m *v1.Component) map[string]string {
	out := draft.OwnedBy(component.CCM)
	if m.CloudConfig == nil && clusterview.DependsOnConfig(d.Provider.Name, m.Flags) {
		delete(out, string(controllernames.Route))
	}
	return out
}

// checkDeployable says why a Deployment cannot be migrated; nil when it can.
func checkDeployable(d *draft.Draft, m *v1.Component) error {
	switch {
	case d.Options.Strategy != planstep.Downtime:
		return fmt.Errorf(
			"%s runs as %s: whether its old process has ended cannot be proven on a host, so leader migration would not hand over quickly; use --strategy %s",
			component.KCM,
			m.Manifest,
			planstep.Downtime,
		)
	case m.Error != "":
		return fmt.Errorf("%s: %s", m.Manifest, m.Error)
	case m.Flags["cloud-provider"] == "" || m.Flags["cloud-provider"] == "external":
		return fmt.Errorf(
			"%s runs with --cloud-provider=%q: this plan moves in-tree providers only; if transplant started this migration, continue it with: transplant apply; if it was started by hand, see: transplant explain CP-007",
			m.Manifest,
			m.Flags["cloud-provider"],
		)
	case m.Flags[flagvalue.FlagCloudConfig] != "" && !path.IsAbs(m.Flags[flagvalue.FlagCloudConfig]):
		return fmt.Errorf(
			"%s runs with --cloud-config=%s, which is no absolute path: what it means depends on the directory in which its image starts",
			m.Manifest,
			m.Flags[flagvalue.FlagCloudConfig],
		)
	}
	if err := ccm.CheckCloudConfig(d, m, m.Manifest); err != nil {
		return err
	}
	for _, w := range d.Snapshot.Workloads {
		if w.Role == v1.RoleCCM && strings.Contains(w.Ref, "/"+component.Namespace+"/") {
			return fmt.Errorf("%s is there already: remove it, or continue the migration that put it there", w.Ref)
		}
	}
	return nil
}

func externalEdits(m *v1.Component) []v1.Edit {
	edits := []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}
	if _, ok := m.Flags["cloud-config"]; ok {
		edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "cloud-config"})
	}
	return edits
}

// createCloudConfig makes the Secret with the manager's cloud config, where the kube-controller-manager has one. What
// could fail for what stands in it fails here, while the loops still run.
func createCloudConfig(d *draft.Draft, m *v1.Component) {
	at := m.Flags[flagvalue.FlagCloudConfig]
	if at == "" {
		return
	}
	o := layout.CloudConfigSecret()
	d.Add(v1.Step{
		ID: "create/" + layout.Ref(
			o,
		),
		Phase: planstep.PhasePrepare,
		Kind:  v1.StepEnsureObject,
		Title: "create " + layout.Ref(o),
		Why:   "it is made from what " + m.Manifest + " mounts when the step is executed, and stands in no plan",
		Ref: layout.Ref(
			o,
		),
		Object:          layout.EncodeObject(o),
		Derive:          layout.DeriveDeployedCloudConfig,
		Source:          m.Manifest,
		Undo:            "delete it, if this migration made it",
		EstimateSeconds: 0.5,
		Requires: []string{
			"cluster:uid",
			d.AddFact(planstep.WorkloadFact(m.Manifest), m.SHA256, strings.Join(m.Command, "\n")),
		},
		Changes: []v1.Change{{Field: layout.Ref(o), After: "derived from what " + m.Manifest + " mounts at " + at}},
	})
	d.Notes = append(
		d.Notes,
		"cloud config: what it says is read when the migration begins. A file that it names has to be among the authorities that "+m.Manifest+" takes from its hosts; others are not mounted",
	)
}

// makeAPIServersExternal makes the API servers external, wherever they run. They come when a manager runs the cloud
// loops again: their rollout takes as long as everything before it, and no manager needs it.
func makeAPIServersExternal(d *draft.Draft) {
	change := func(h v1.Host, c *v1.Component, where string) {
		if c == nil || c.Flags["cloud-provider"] == "" || c.Flags["cloud-provider"] == "external" {
			return
		}
		d.Add(d.EditComponent(h, c, v1.Step{
			ID:    "external/" + component.KAS + "@" + where,
			Phase: planstep.PhaseHandover,
			Title: "make " + component.KAS + " of " + where + " external",
			Why:   "removes the provider from the API server (labels of persistent volumes); the " + component.CCM + " finds another one meanwhile",
			Edits: externalEdits(c),
		}))
	}
	if c := clusterview.FindHosted(d.Snapshot, component.KAS); c != nil {
		change(v1.Host{}, c, c.Manifest)
	}
	for _, h := range d.Snapshot.Hosts {
		if !h.APIOnly {
			change(h, clusterview.FindComponent(h, component.KAS), h.Name)
		}
	}
}

// renderDeployment puts the cloud-controller-manager next to a kube-controller-manager's Deployment: on its nodes and
// with as many replicas. Its pods are those of a DaemonSet: the program of the image, probes, and flags that follow the
// kube-controller-manager's.
func renderDeployment(d *draft.Draft, m *v1.Component) (map[string]any, []controlplane.Flag) {
	flags := append(
		[]controlplane.Flag{{Name: "cloud-provider", Value: d.Provider.Name}, {Name: "bind-address", Value: "127.0.0.1"}},
		ccm.ManagerFlags(d, m)...)
	hasConfig := m.Flags[flagvalue.FlagCloudConfig] != ""
	if hasConfig {
		flags = append(
			flags,
			controlplane.Flag{
				Name:  flagvalue.FlagCloudConfig,
				Value: layout.SeedCloudConfigDir + "/" + layout.SeedCloudConfigKey,
			},
		)
	}
	given, files := ccm.Environment(d, "{host}")
	env := ccm.EndpointEnv(d)
	for _, e := range given {
		if strings.Contains(e.Value, "{host}") {
			d.Refusals = append(
				d.Refusals,
				fmt.Errorf(
					"environment %s with {host} needs a static pod on each host: a Deployment has one environment for all",
					e.Name,
				),
			)
		}
		env = append(env, layout.Object{"name": e.Name, "value": e.Value})
	}
	pod := ccm.PodOf(d, ccm.ClusterCritical).Render(flags, env, append(files, clusterview.TrustMounts(m)...))
	// A node that is not initialised must take it, or no manager initialises it. From a node that is dead it is taken
	// away, unlike the pod of a DaemonSet.
	pod["tolerations"] = slices.DeleteFunc(
		ccm.Tolerations(),
		func(t any) bool { return t.(layout.Object)["effect"] == "NoExecute" },
	)
	container := pod["containers"].([]any)[0].(layout.Object)
	if hasConfig {
		volumes, _ := pod["volumes"].([]any)
		mounts, _ := container["volumeMounts"].([]any)
		pod["volumes"] = append(
			volumes,
			layout.Object{"name": layout.SeedCloudConfig, "secret": layout.Object{"secretName": layout.SeedCloudConfig}},
		)
		container["volumeMounts"] = append(
			mounts,
			layout.Object{"name": layout.SeedCloudConfig, "mountPath": layout.SeedCloudConfigDir, "readOnly": true},
		)
	}
	port := json.Number(cmp.Or(ccm.ServingPort(d), component.PortCCM))
	// Two replicas never come to one node, where the second would find its port taken.
	container["ports"] = []any{layout.Object{"name": "https", "containerPort": port, "hostPort": port, "protocol": "TCP"}}
	for _, w := range d.Snapshot.Workloads {
		if w.Ref == m.Manifest && len(w.NodeSelector) > 0 {
			selector := layout.Object{}
			for k, v := range w.NodeSelector {
				selector[k] = v
			}
			pod["nodeSelector"] = selector
		}
	}
	labels := layout.Object{"app.kubernetes.io/name": component.CCM, "app.kubernetes.io/managed-by": "transplant"}
	return layout.Object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": layout.Metadata(component.CCM, component.Namespace),
		"spec": layout.Object{
			// One at a time on its host port: the next one starts when the last has ended.
			"replicas": clusterview.ReplicasOf(
				m,
			),
			"strategy": layout.Object{"type": "Recreate"},
			"selector": layout.Object{"matchLabels": labels},
			"template": layout.Object{"metadata": layout.Object{"labels": labels}, "spec": pod},
		},
	}, flags
}

// RefuseUpgrade refuses another version for a control plane that another program deploys.
func RefuseUpgrade(o v1.Options) error {
	if !draft.UpgradeOf(o).IsWanted() {
		return nil
	}
	return errors.New(
		"--target-version: the control plane runs as Deployments, and the program that deploys them sets their images; upgrade it there, and leave out --target-version",
	)
}
