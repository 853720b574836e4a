package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// otherControlPlane plans for control planes whose hosts are not edited: those that are replaced, and those that run as Deployments. It returns false
// when the snapshot and the options ask for neither.
func (b *builder) otherControlPlane() (bool, error) {
	if b.inSeed() {
		return true, b.seed()
	}
	if b.opts.ReplaceHosts {
		return true, b.replace()
	}
	if m := hosted(b.snap, KCM); m != nil {
		if err := noHosted(b.opts); err != nil {
			return true, err
		}
		return true, b.deployment(m)
	}
	return false, nil
}

// hosted is the component of the control plane that runs as a Deployment; nil for none.
func hosted(snap *v1.Snapshot, name string) *v1.Component {
	if all := allHosted(snap, name); len(all) > 0 {
		return all[0]
	}
	return nil
}

// allHosted are the Deployments that run a component of the control plane.
func allHosted(snap *v1.Snapshot, name string) []*v1.Component {
	var out []*v1.Component
	for i := range snap.Hosted {
		if c := &snap.Hosted[i]; c.Name == name && isOwnDeployment(snap.Cluster, c.Manifest) {
			out = append(out, c)
		}
	}
	return out
}

// isOwnDeployment reports whether a Deployment is in the namespace of the cluster's control plane. Who may create one in another namespace is no
// administrator for that, and there may be the control plane of another cluster.
func isOwnDeployment(of v1.Cluster, ref string) bool {
	parts := strings.Split(ref, "/")
	return len(parts) == 3 && parts[0] == "Deployment" && parts[1] == cmp.Or(of.Seed, Namespace) && parts[2] != ""
}

// Unproven says why a host is not taken for the control plane, and what to do.
func Unproven(host string) string {
	return fmt.Sprintf("no Node %[1]s is labelled as control plane: if it is, run \"kubectl label node %[1]s %[2]s=\", else find out who wrote there", host, labelControlPlane)
}

// checkCandidates refuses a cluster in which it is not clear which hosts, and which kube-controller-manager or kube-apiserver, are its own.
func checkCandidates(snap *v1.Snapshot) error {
	var errs []error
	for _, h := range snap.Hosts {
		if len(h.Claims) > 0 {
			errs = append(errs, fmt.Errorf("host %s runs %s by its own word alone, and %s", h.Name, strings.Join(h.Claims, ", "), Unproven(h.Name)))
		}
	}
	for _, name := range []string{KCM, KAS} {
		var found []string
		for _, c := range allHosted(snap, name) {
			found = append(found, c.Manifest)
		}
		isDeployed := len(found) > 0
		for _, h := range snap.Hosts {
			if isDeployed && snap.Cluster.Seed == "" && component(h, name) != nil {
				found = append(found, "host "+h.Name)
			}
		}
		if isDeployed && len(found) > 1 {
			errs = append(errs, fmt.Errorf("%s runs as %s: which of them is the control plane's own is not known; delete what is left over, then plan again",
				name, strings.Join(found, " and ")))
		}
	}
	return errors.Join(errs...)
}

// ChooseStrategy returns the strategy for a snapshot where none was asked for, and why.
func ChooseStrategy(snap *v1.Snapshot, o v1.Options) (strategy, why string) {
	if o.ReplaceHosts {
		return LeaderMigration, "hosts are replaced one by one"
	}
	if m := hosted(snap, KCM); m != nil && snap.Cluster.Seed != "" && m.Replicas != nil && *m.Replicas > 1 {
		return LeaderMigration, fmt.Sprintf("%s has %d replicas", m.Manifest, *m.Replicas)
	} else if m != nil {
		return Downtime, KCM + " runs as " + m.Manifest
	}
	n := 0
	for _, h := range snap.Hosts {
		if component(h, KCM) != nil {
			n++
		}
	}
	if n == 1 {
		return Downtime, "one control-plane host: nobody could take the loops over under a lease"
	}
	return LeaderMigration, fmt.Sprintf("%d control-plane hosts", n)
}

// deployment plans for a kube-controller-manager that is a Deployment of the cluster that it manages.
//
// The documents scale it down, and that is right where it runs in another cluster. In its own cluster it is the controller of its own Deployment: scaled
// to none, nobody is left to scale it up again. So it is not scaled but changed in place: its lease lets one of the old and new pods run loops at a
// time, and once the last old pod has ended nobody runs the cloud loops until the cloud-controller-manager, a Deployment beside it, does.
func (b *builder) deployment(m *v1.Component) error {
	if b.opts.Strategy == "" {
		b.opts.Strategy = Downtime
	}
	if err := b.deployable(m); err != nil {
		return err
	}
	if err := errors.Join(b.chooseIPAM(m)...); err != nil {
		return err
	}
	var err error
	if b.kcm, err = b.minorOf(m); err != nil {
		return fmt.Errorf("%s: %w", m.Manifest, err)
	}
	b.fact("cluster:uid", b.snap.Cluster.UID, "")
	b.ensure(PhasePrepare, "identity and rights of the cloud-controller-manager", b.identity())
	b.deployedConfig(m)
	b.credentialProviders()
	b.add(b.edit(v1.Host{}, m, v1.Step{
		ID: "external/" + KCM + "@" + m.Manifest, Phase: PhaseHandover, Title: "make " + m.Manifest + " external, and wait until its old pods have ended",
		Why: "with the last old pod the cloud loops stop; it is not scaled to none, because it is the controller of its own Deployment", Edits: append(externalEdits(m), b.ipamEdits(m, b.kcm)...), Leases: []string{KCM},
	}))
	object, flags := b.renderCCMDeployment(m)
	b.ensure(PhaseHandover, "from its first lease on it runs the cloud loops; until then nodes are not initialised and load balancers do not change", []map[string]any{object})
	start := &b.steps[len(b.steps)-1]
	start.Component, start.EstimateSeconds, start.Changes = CCM, 30, b.printed(flags)
	b.deployedAPIServers()
	b.kubelets()
	b.add(v1.Step{ID: "verify/handed-over", Phase: PhaseVerify, Kind: v1.StepVerify, Title: "nodes and load balancers are as before", EstimateSeconds: 2})
	return nil
}

// deployable says why a Deployment cannot be migrated; nil when it can.
func (b *builder) deployable(m *v1.Component) error {
	switch {
	case b.opts.Strategy != Downtime:
		return fmt.Errorf("%s runs as %s: whether its old process has ended cannot be proven on a host, so leader migration would not hand over quickly; use --strategy %s", KCM, m.Manifest, Downtime)
	case m.Error != "":
		return fmt.Errorf("%s: %s", m.Manifest, m.Error)
	case m.Flags["cloud-provider"] == "" || m.Flags["cloud-provider"] == "external":
		return fmt.Errorf("%s runs with --cloud-provider=%q: the in-tree provider is not what moves here; if transplant began this migration, go on with: transplant apply; if somebody began it by hand, see: transplant explain CP-007", m.Manifest, m.Flags["cloud-provider"])
	case m.Flags[flagCloudConfig] != "" && !path.IsAbs(m.Flags[flagCloudConfig]):
		return fmt.Errorf("%s runs with --cloud-config=%s, which is no absolute path: what it means depends on the directory in which its image starts", m.Manifest, m.Flags[flagCloudConfig])
	}
	if err := b.withoutConfig(m, m.Manifest); err != nil {
		return err
	}
	for _, w := range b.snap.Workloads {
		if w.Role == v1.RoleCCM && strings.Contains(w.Ref, "/"+Namespace+"/") {
			return fmt.Errorf("%s is there already: remove it, or continue the migration that put it there", w.Ref)
		}
	}
	return nil
}

func externalEdits(m *v1.Component) []v1.Edit {
	edits := []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}}
	if _, ok := m.Flags["cloud-config"]; ok {
		edits = append(edits, v1.Edit{Op: "unsetFlag", Name: "cloud-config"})
	}
	return edits
}

// deployedConfig makes the Secret with the manager's cloud config, where the kube-controller-manager has one. What could fail for what stands in it fails here,
// while the loops still run.
func (b *builder) deployedConfig(m *v1.Component) {
	at := m.Flags[flagCloudConfig]
	if at == "" {
		return
	}
	o := deployedConfigSecret()
	b.add(v1.Step{
		ID: "create/" + Ref(o), Phase: PhasePrepare, Kind: v1.StepEnsureObject, Title: "create " + Ref(o),
		Why: "it is made from what " + m.Manifest + " mounts when the step is carried out, and stands in no plan",
		Ref: Ref(o), Object: mustJSON(o), Derive: DeriveDeployedCloudConfig, Source: m.Manifest, Undo: "delete it, if this migration made it", EstimateSeconds: 0.5,
		Requires: []string{"cluster:uid", b.fact(WorkloadFact(m.Manifest), m.SHA256, strings.Join(m.Command, "\n"))},
		Changes:  []v1.Change{{Field: Ref(o), After: "derived from what " + m.Manifest + " mounts at " + at}},
	})
	b.notes = append(b.notes, "cloud config: what it says is read when the migration begins. A file that it names has to be among the authorities that "+m.Manifest+" takes from its hosts; others are not mounted")
}

func deployedConfigSecret() object {
	return object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(SeedCloudConfig, Namespace)}
}

// deployedAPIServers makes the API servers external, wherever they run. They come when somebody runs the cloud loops again: their
// rollout takes as long as everything before it, and no manager needs it.
func (b *builder) deployedAPIServers() {
	change := func(h v1.Host, c *v1.Component, where string) {
		if c == nil || c.Flags["cloud-provider"] == "" || c.Flags["cloud-provider"] == "external" {
			return
		}
		b.add(b.edit(h, c, v1.Step{
			ID: "external/" + KAS + "@" + where, Phase: PhaseHandover, Title: "make " + KAS + " of " + where + " external",
			Why: "takes the provider out of the API server (labels of persistent volumes); the " + CCM + " finds another one meanwhile", Edits: externalEdits(c),
		}))
	}
	if c := hosted(b.snap, KAS); c != nil {
		change(v1.Host{}, c, c.Manifest)
	}
	for _, h := range b.snap.Hosts {
		if !h.APIOnly {
			change(h, component(h, KAS), h.Name)
		}
	}
}

// renderCCMDeployment puts the cloud-controller-manager next to a kube-controller-manager's Deployment: on its nodes and with as many replicas. Its pods are
// those of a DaemonSet: the program of the image, probes, and flags that follow the kube-controller-manager's.
func (b *builder) renderCCMDeployment(m *v1.Component) (map[string]any, []controlplane.Flag) {
	flags := append([]controlplane.Flag{{Name: "cloud-provider", Value: b.provider.Name}, {Name: "bind-address", Value: "127.0.0.1"}}, b.ccmFlags(m)...)
	hasConfig := m.Flags[flagCloudConfig] != ""
	if hasConfig {
		flags = append(flags, controlplane.Flag{Name: flagCloudConfig, Value: seedCloudConfigDir + "/" + SeedCloudConfigKey})
	}
	given, files := b.environment("{host}")
	env := b.endpointEnv()
	for _, e := range given {
		if strings.Contains(e.Value, "{host}") {
			b.refused = append(b.refused, fmt.Errorf("environment %s with {host} needs a static pod on each host: a Deployment has one environment for all", e.Name))
		}
		env = append(env, object{"name": e.Name, "value": e.Value})
	}
	pod := b.managerPod(flags, env, append(files, trust(m)...), "system-cluster-critical")
	// A node that is not initialised must take it, or nobody initialises it. From a node that is dead it is taken away, unlike the pod of a DaemonSet.
	pod["tolerations"] = slices.DeleteFunc(tolerations(), func(t any) bool { return t.(object)["effect"] == "NoExecute" })
	container := pod["containers"].([]any)[0].(object)
	if hasConfig {
		volumes, _ := pod["volumes"].([]any)
		mounts, _ := container["volumeMounts"].([]any)
		pod["volumes"] = append(volumes, object{"name": SeedCloudConfig, "secret": object{"secretName": SeedCloudConfig}})
		container["volumeMounts"] = append(mounts, object{"name": SeedCloudConfig, "mountPath": seedCloudConfigDir, "readOnly": true})
	}
	port := json.Number(cmp.Or(b.port(), ccmPort))
	// Two replicas never come to one node, where the second would find its port taken.
	container["ports"] = []any{object{"name": "https", "containerPort": port, "hostPort": port, "protocol": "TCP"}}
	for _, w := range b.snap.Workloads {
		if w.Ref == m.Manifest && len(w.NodeSelector) > 0 {
			selector := object{}
			for k, v := range w.NodeSelector {
				selector[k] = v
			}
			pod["nodeSelector"] = selector
		}
	}
	labels := object{"app.kubernetes.io/name": CCM, "app.kubernetes.io/managed-by": "transplant"}
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(CCM, Namespace),
		"spec": object{
			// One at a time on its host port: the next one starts when the last has ended.
			"replicas": replicas(m), "strategy": object{"type": "Recreate"}, "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": pod},
		},
	}, flags
}

func (b *builder) env() []any {
	out := []any{}
	for _, e := range b.opts.Env {
		name, value, _ := strings.Cut(e, "=")
		out = append(out, object{"name": name, "value": value})
	}
	return out
}
