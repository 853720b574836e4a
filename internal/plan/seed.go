package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// seedLeaderMigration is the first minor of which a hosted kube-controller-manager gets leader migration: before it a gate is needed as well.
const seedLeaderMigration = 22

// migrationVolume is the volume of the leader migration configs.
const migrationVolume = "transplant-leader-migration"

// inSeed tells that the control plane runs in another cluster.
func (b *builder) inSeed() bool { return b.snap.Cluster.Seed != "" }

// seed plans a part for a control plane whose Deployments another cluster runs.
//
// In the first part the kube-controller-manager keeps its cloud provider, for the volumes of machines that are not replaced yet; it loses the cloud loops by
// --controllers. In the second part, when the machines are done, the provider goes.
func (b *builder) seed() error {
	m := hosted(b.snap, KCM)
	if m == nil {
		return fmt.Errorf("namespace %s of the seed has no Deployment of %s: hosted control planes are read from there", b.snap.Cluster.Seed, KCM)
	}
	if err := b.seedReady(m); err != nil {
		return err
	}
	b.fact("cluster:uid", b.snap.Cluster.UID, "")
	b.fact("seed:uid", b.snap.Cluster.SeedUID, "")
	if b.opts.Part == v1.PartInstall {
		b.opts.Strategy = Downtime // there is no loop that could change hands
		b.seedInstall(m)
		return nil
	}
	if b.opts.Part == v1.PartFinish {
		b.opts.Strategy = Downtime // nothing is handed over any longer
		b.seedFinish(m)
		return nil
	}
	b.opts.Part = v1.PartHandover
	if err := b.seedStrategy(m); err != nil {
		return err
	}
	b.seedPrepare(m)
	if b.opts.Strategy == LeaderMigration {
		b.seedLearn(m)
		b.seedManager(m)
		b.seedLoopsOff(m)
	} else {
		b.seedLoopsOff(m)
		b.seedManager(m)
	}
	b.seedVerify(PhaseVerify, "verify/handed-over", owners(CCM))
	if b.opts.Strategy == LeaderMigration {
		b.seedForget()
	}
	return nil
}

// seedReady says what keeps a hosted control plane from being planned for.
func (b *builder) seedReady(m *v1.Component) error {
	var errs []error
	n, err := b.minorOf(m)
	b.kcm = n
	switch {
	case m.Error != "":
		return fmt.Errorf("%s: %s", m.Manifest, m.Error)
	case err != nil:
		return fmt.Errorf("%s: %w", m.Manifest, err)
	case b.opts.Part == v1.PartInstall:
		return b.seedInstallable(m)
	case b.provider.Name == "":
		return fmt.Errorf("%s names no in-tree provider (--cloud-provider=%q): nothing has to move here", m.Manifest, m.Flags["cloud-provider"])
	case m.Replicas != nil && *m.Replicas == 0:
		errs = append(errs, fmt.Errorf("%s has no replicas: wake the control plane up first", m.Manifest))
	case n < catalogue.Oldest || n > b.provider.LastInTree:
		errs = append(errs, fmt.Errorf("%s is of 1.%d: plans are made for 1.%d to 1.%d, the last one with the in-tree provider %s", m.Manifest, n, catalogue.Oldest, b.provider.LastInTree, b.provider.Name))
	}
	if m.Flags["leader-elect"] == "false" {
		errs = append(errs, fmt.Errorf("%s runs with --leader-elect=false: nothing keeps an old pod from acting beside a new one; take the flag out first", m.Manifest))
	}
	if m.Flags["cidr-allocator-type"] == cloudAllocator {
		errs = append(errs, fmt.Errorf("%s takes pod CIDRs from the cloud (--cidr-allocator-type=%s), which no manager without the in-tree provider can: that is not migrated in a seed yet; give out pod CIDRs from --cluster-cidr first",
			m.Manifest, cloudAllocator))
	}
	if b.opts.NodeIPAM == v1.IPAMMove {
		errs = append(errs, fmt.Errorf("--node-ipam=%s is not done for a control plane in a seed: %s keeps its provider until its machines are replaced, and gives out pod CIDRs until then and after; leave the option out",
			v1.IPAMMove, m.Manifest))
	}
	if b.opts.Part != v1.PartFinish {
		errs = append(errs, b.seedBefore(m))
	}
	return errors.Join(errs...)
}

// seedBefore says what keeps the loops from being handed over, beside what keeps any part from being planned.
func (b *builder) seedBefore(m *v1.Component) error {
	if b.provider.Name == providerAzure && b.program.nodeManager != "" {
		b.notes = append(b.notes, "not done: Azure's nodes are initialised by the "+NodeManager+", one on each node of the migrated cluster, and neither this plan nor the operator installs it; nodes that join without it keep their taint")
	}
	if b.opts.Part != v1.PartInstall {
		if err := b.withoutConfig(m, m.Manifest); err != nil {
			return err
		}
	} else if b.seedConfigPath(m) == "" && !b.seedConfigGiven(m) {
		return fmt.Errorf("%s mounts no cloud config: make Secret %s with key %s in namespace %s", m.Manifest, SeedCloudConfig, SeedCloudConfigKey, b.snap.Cluster.Seed)
	}
	if c := m.CloudConfig; c != nil && c.Error != "" {
		return fmt.Errorf("the cloud config of %s could not be read or turned into the external provider's: %s", m.Manifest, c.Error)
	}
	return nil
}

// seedStrategy chooses the strategy, and says why the one that was asked for cannot be.
func (b *builder) seedStrategy(m *v1.Component) error {
	why := ""
	switch {
	case b.kcm < seedLeaderMigration:
		why = fmt.Sprintf("%s of 1.%d has no leader migration that is on by default, which came with 1.%d", KCM, b.kcm, seedLeaderMigration)
	case !b.program.leaderMigration:
		why = fmt.Sprintf("the manager in image %s has no leader migration: it would take the flags and run the loops beside the in-tree manager", b.program.image)
	case len(b.seedLoops()) < len(b.seedExpected()):
		why = fmt.Sprintf("%s has some of the cloud loops switched off: whether a pod respects the migration lease is not to be seen of what runs", m.Manifest)
	}
	switch {
	case b.opts.Strategy == "":
		b.opts.Strategy, _ = ChooseStrategy(b.snap, b.opts)
		if b.opts.Strategy == LeaderMigration && why != "" {
			b.opts.Strategy = Downtime
			b.notes = append(b.notes, "strategy downtime, although there are several replicas: "+why)
		}
	case b.opts.Strategy == LeaderMigration && why != "":
		return fmt.Errorf("%s; or plan with --strategy=%s, which leaves the loops without a manager for a while", why, Downtime)
	}
	return nil
}

// seedLoops are the loops that run in a pod of kube-controller-manager now, as the pods say; by its flags as long as no pod could be asked, which is so until
// the account is made by which they are asked. A plan that is shown before that is the one that is carried out behind it.
func (b *builder) seedLoops() []string {
	asked := slices.ContainsFunc(b.snap.Managers, func(m v1.Manager) bool { return m.Component == KCM && m.Error == "" })
	byFlags := !asked && catalogue.ShowsLoops(KCM, b.kcm)
	var out []string
	for _, l := range movedLoops {
		if byFlags && !disabled(hosted(b.snap, KCM).Flags["controllers"], l) {
			out = append(out, string(l))
		}
		for _, m := range b.snap.Managers {
			if m.Component == KCM && slices.Contains(m.Loops, string(l)) && !slices.Contains(out, string(l)) {
				out = append(out, string(l))
			}
		}
	}
	return out
}

// seedExpected are the loops that a manager of this cluster runs.
func (b *builder) seedExpected() []string {
	m := hosted(b.snap, KCM)
	return ExpectedLoops(b.provider.Name, m.Flags, m.CloudConfig)
}

// ExpectedLoops are the cloud loops that somebody has to run in a cluster of a provider, given the flags of one of its managers and its cloud config, nil if that
// is not known: the route loop only where routes are the cloud's, the service loop only where the provider has load balancers. --controllers is not asked: what it
// takes out of one manager may be taken out for the other one. A provider that is not known has everything.
func ExpectedLoops(provider string, flags map[string]string, config *v1.CloudConfig) []string {
	known, ok := catalogue.Lookup(provider)
	var out []string
	for _, l := range movedLoops {
		switch l {
		case controllernames.Route:
			if flags["allocate-node-cidrs"] != "true" || flags["configure-cloud-routes"] == "false" || ok && !cloudRoutes(known, config) {
				continue
			}
		case controllernames.Service:
			if ok && !known.LoadBalancers {
				continue
			}
		default: // every provider has a node lifecycle loop
		}
		out = append(out, string(l))
	}
	return out
}

// ConfigDecides tells that which loops ExpectedLoops names depends on the cloud config.
func ConfigDecides(provider string, flags map[string]string) bool {
	return provider == providerOpenStack && slices.Contains(ExpectedLoops(provider, flags, nil), string(controllernames.Route))
}

// ShowsLoops tells whether the manager in an image says on /metrics which loops it runs. One whose version the image does not tell is taken for one that does:
// what it runs is not known then, and never concluded.
func ShowsLoops(component, provider, image string) bool {
	if component != CCM {
		minor := libraryMinor(image)
		return minor == 0 || catalogue.ShowsLoops(component, minor)
	}
	p, err := programOf(provider, image)
	return err != nil || p.showsLoops
}

// MovedLoops are the loops that a migration moves from one manager to the other, by their names in metrics.
func MovedLoops() []string {
	out := make([]string, 0, len(movedLoops))
	for _, l := range movedLoops {
		out = append(out, string(l))
	}
	return out
}

// SwitchedOff tells that a --controllers list keeps a cloud loop from running, whatever dialect it is written in.
func SwitchedOff(controllers, loop string) bool {
	return disabled(controllers, controllernames.Loop(loop))
}

// seedExpect gives the loops that this cluster has the owners that are wanted; nil where the managers do not say what they run.
func (b *builder) seedExpect(in map[string]string) map[string]string {
	if !b.observable() {
		return nil
	}
	out := map[string]string{}
	for _, l := range b.seedExpected() {
		out[l] = in[l]
	}
	return out
}

// nowhere are all moved loops, none of which a component may run.
func (b *builder) nowhere(component string) map[string]string {
	if !catalogue.ShowsLoops(KCM, b.kcm) {
		return nil
	}
	return owners(v1.NotIn(component))
}

func (b *builder) seedName(kind, name string) string {
	return kind + "/" + b.snap.Cluster.Seed + "/" + name
}

func (b *builder) seedMeta(name string) object { return meta(name, b.snap.Cluster.Seed) }

// seedPrepare makes what changes nothing yet: rights in the migrated cluster, credentials and configuration in the seed. All that could fail for what stands
// in them fails here, while the loops still run.
func (b *builder) seedPrepare(m *v1.Component) {
	b.ensure(PhasePrepare, "reads the managers' /metrics with a token that may do nothing else", observerObjects())
	if b.opts.Strategy == LeaderMigration {
		b.ensure(PhasePrepare, "the built-in role does not cover the migration lease: without this no cloud loop runs, and nothing says so", migrationObjects(b.opts.LeaseName))
	}
	b.ensure(PhasePrepare, "identity and rights of the cloud-controller-manager", b.identity())
	b.seedSecret(SeedKubeconfig, DeriveSeedKubeconfig, m, "server and authority of "+m.Manifest+"'s kubeconfig, a token of "+AccountRef+" for 365 days")
	if at := b.seedConfigPath(m); at != "" {
		changed := "derived from what " + m.Manifest + " mounts at " + at
		if m.CloudConfig != nil && len(m.CloudConfig.DerivedChanges) > 0 {
			changed += ": " + strings.Join(m.CloudConfig.DerivedChanges, "; ")
		}
		b.seedSecret(SeedCloudConfig, DeriveSeedCloudConfig, m, changed)
	}
	if b.opts.Strategy == LeaderMigration {
		b.seedConfigs()
	}
}

func (b *builder) seedSecret(name, derivation string, m *v1.Component, after string) {
	o := object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": b.seedMeta(name)}
	b.add(v1.Step{
		ID: "create/" + Ref(o), Phase: PhasePrepare, Kind: v1.StepEnsureObject, Title: "create " + Ref(o) + " in the seed", Why: "it is made from what is there when the step is carried out, and stands in no plan",
		Ref: Ref(o), Object: mustJSON(o), Derive: derivation, Source: m.Manifest, Requires: []string{"cluster:uid", "seed:uid"}, Undo: "delete it, if this migration made it", EstimateSeconds: 0.5,
		Changes: []v1.Change{{Field: Ref(o), After: after}},
	})
}

// seedConfigs are both leader migration configs, in one ConfigMap.
func (b *builder) seedConfigs() {
	data := object{}
	for _, file := range []struct {
		comp  controllernames.Component
		minor int
		key   string
	}{{controllernames.KubeControllerManager, b.kcm, seedMigrationKCM}, {controllernames.CloudControllerManager, b.program.minor, seedMigrationCCM}} {
		content, err := migrationconfig.Render(file.comp, file.minor, b.loops(), b.opts.LeaseName)
		if err != nil {
			b.refused = append(b.refused, fmt.Errorf("rendering the leader migration config of %s: %w", file.comp, err))
			return
		}
		data[file.key] = string(content)
	}
	b.ensure(PhasePrepare, "names of the loops in the dialect of each manager: one file for both would make two owners", []object{
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": b.seedMeta(SeedMigration), "data": data},
	})
}

// seedEdit completes a step that edits a Deployment in the seed.
func (b *builder) seedEdit(c *v1.Component, s v1.Step) {
	s.Kind, s.Component, s.Ref = v1.StepEditWorkload, c.Name, c.Manifest
	s.Requires = append(s.Requires, "cluster:uid", "seed:uid", b.fact(SeedFact(c), c.SHA256, strings.Join(c.Command, "\n")))
	s.Changes = changes(s.Edits, c.Flags)
	for _, e := range s.Edits {
		switch e.Op {
		case opMount:
			s.Changes = append(s.Changes, v1.Change{Field: "mount " + e.Path, After: "ConfigMap " + e.Value})
		case opUnmount:
			s.Changes = append(s.Changes, v1.Change{Field: "mount of volume " + e.Name, Before: "mounted"})
		}
	}
	s.Undo, s.EstimateSeconds = "put the arguments back as the record has them", 45
	b.add(s)
	for _, e := range s.Edits {
		switch e.Op {
		case "setFlag":
			c.Flags = withFlags(c.Flags, map[string]string{e.Name: e.Value})
		case "unsetFlag":
			c.Flags = withFlags(c.Flags, nil)
			delete(c.Flags, e.Name)
		}
	}
}

// SeedFact is the ID of the fact that a component in the seed runs with the command that it had.
func SeedFact(c *v1.Component) string { return "command:" + c.Manifest + "/" + c.Name }

// seedLearn lets the kube-controller-manager run the cloud loops under the migration lease.
func (b *builder) seedLearn(m *v1.Component) {
	now := *m
	b.seedEdit(&now, v1.Step{
		ID: "leader-migration/" + KCM + "@" + m.Manifest, Phase: PhaseMigration, Title: "let " + m.Manifest + " run the cloud loops under the migration lease",
		Why:    "old and new pods are kept apart by the lease that they have in common; from then on the loops can change hands by the migration lease",
		Leases: []string{KCM}, Expect: b.seedExpect(owners(KCM)), Edits: []v1.Edit{
			{Op: opMount, Name: migrationVolume, Value: SeedMigration, Path: seedMigrationDir},
			{Op: "setFlag", Name: "enable-leader-migration", Value: "true"},
			{Op: "setFlag", Name: "leader-migration-config", Value: seedMigrationDir + "/" + seedMigrationKCM},
		},
	})
}

// seedLoopsOff takes the cloud loops out of the kube-controller-manager and has it proven.
func (b *builder) seedLoopsOff(m *v1.Component) {
	list := m.Flags["controllers"]
	for _, l := range movedLoops {
		list = without(list, controllernames.Name(controllernames.KubeControllerManager, b.kcm, l), l)
	}
	s := v1.Step{
		ID: "loops-off/" + KCM + "@" + m.Manifest, Phase: PhaseHandover, Title: "take the cloud loops out of " + m.Manifest + ", and wait until its old pods have ended",
		Why:    "with the last old pod the loops stop, and nobody runs them until the " + CCM + " does; the cloud provider stays for the volumes of machines that are not replaced yet",
		Leases: []string{KCM}, Expect: b.nowhere(KCM), Edits: []v1.Edit{{Op: "setFlag", Name: "controllers", Value: list}},
	}
	if b.opts.Strategy == LeaderMigration {
		s.Why = "the " + CCM + " is ready: when the pod that holds the migration lease has ended, its lease is released; the cloud provider stays for the volumes of machines that are not replaced yet"
		s.Leases, s.Successors = []string{KCM, b.opts.LeaseName}, []string{CCM}
		s.Edits = append(s.Edits, v1.Edit{Op: "unsetFlag", Name: "enable-leader-migration"}, v1.Edit{Op: "unsetFlag", Name: "leader-migration-config"}, v1.Edit{Op: opUnmount, Name: migrationVolume})
		s.Expect = withFlags(b.nowhere(KCM), b.seedExpect(owners(CCM)))
	}
	now := *m
	now.Flags = withFlags(map[string]string{}, m.Flags)
	if b.opts.Strategy == LeaderMigration {
		now.Flags["enable-leader-migration"], now.Flags["leader-migration-config"] = "true", seedMigrationDir+"/"+seedMigrationKCM
	}
	b.seedEdit(&now, s)
	b.add(v1.Step{
		ID: "verify/loops-off", Phase: PhaseHandover, Kind: v1.StepVerify, Title: "no pod of " + m.Manifest + " runs a cloud loop, none of its old pods is left, and its lease is held by one of the new ones",
		Ref: m.Manifest, Component: KCM, Leases: []string{KCM, b.opts.LeaseName}, Expect: b.nowhere(KCM), EstimateSeconds: 2,
	})
}

// seedManager starts the cloud-controller-manager in the seed.
func (b *builder) seedManager(m *v1.Component) {
	o := b.renderSeedManager(m)
	why := "the loops are proven off: from its first lease on it runs them"
	expect := b.seedExpect(owners(CCM))
	if b.opts.Strategy == LeaderMigration {
		why, expect = "the next owner runs, has its main lease and reaches the cloud before the old one gives up", b.seedExpect(owners(""))
	}
	if b.opts.Part == v1.PartInstall {
		why = m.Manifest + " is external, so that no loop runs yet: from its first lease on the " + CCM + " runs them"
	}
	container := o["spec"].(object)["template"].(object)["spec"].(object)["containers"].([]any)[0].(object)
	s := v1.Step{
		ID: "start/" + CCM, Phase: PhaseHandover, Kind: v1.StepEnsureObject, Component: CCM, Title: "start " + CCM + " in the seed", Why: why, Ref: Ref(o), Object: mustJSON(o),
		Derive: DeriveSeedManager, Source: m.Manifest, Requires: []string{"cluster:uid", "seed:uid"}, Undo: "delete it, if this migration made it", EstimateSeconds: 30, Expect: expect,
		Changes: []v1.Change{{Field: "image", After: b.opts.Image}, {Field: "environment, volumes and nodes", After: "those of " + m.Manifest + ", when the step is carried out"}},
	}
	for _, a := range container["args"].([]any) {
		name, value, _ := strings.Cut(fmt.Sprint(a), "=")
		s.Changes = append(s.Changes, v1.Change{Field: name, After: value})
	}
	b.add(s)
}

// seedDeployment is the name of the cloud-controller-manager's Deployment in the seed, as Kubermatic has it.
func seedDeployment(provider string) string { return provider + "-" + CCM }

// seedManagerRef is the Deployment of the cloud-controller-manager: the one that is there, else the one that the plan makes.
func (b *builder) seedManagerRef() string {
	if c := hosted(b.snap, CCM); c != nil && b.opts.Part == v1.PartFinish {
		return c.Manifest
	}
	return b.seedName("Deployment", seedDeployment(b.provider.Name))
}

func (b *builder) renderSeedManager(m *v1.Component) object {
	port := ccmPort
	if b.provider.Name == providerAzure {
		port = azurePort
	}
	flags := []controlplane.Flag{
		{Name: "cloud-provider", Value: b.provider.Name}, {Name: "kubeconfig", Value: seedKubeconfigDir + "/" + SeedKubeconfigKey},
		{Name: "authentication-kubeconfig", Value: seedKubeconfigDir + "/" + SeedKubeconfigKey}, {Name: "authorization-kubeconfig", Value: seedKubeconfigDir + "/" + SeedKubeconfigKey},
	}
	volumes := []any{object{"name": SeedKubeconfig, "secret": object{"secretName": SeedKubeconfig}}}
	mounts := []any{object{"name": SeedKubeconfig, "mountPath": seedKubeconfigDir, "readOnly": true}}
	if b.seedConfigPath(m) != "" || b.seedConfigGiven(m) {
		flags = append(flags, controlplane.Flag{Name: flagCloudConfig, Value: seedCloudConfigDir + "/" + SeedCloudConfigKey})
		volumes = append(volumes, object{"name": SeedCloudConfig, "secret": object{"secretName": SeedCloudConfig}})
		mounts = append(mounts, object{"name": SeedCloudConfig, "mountPath": seedCloudConfigDir, "readOnly": true})
	}
	if address := m.Flags["bind-address"]; address != "" {
		flags = append(flags, controlplane.Flag{Name: "bind-address", Value: address})
	}
	flags = append(flags, controlplane.Flag{Name: "leader-elect", Value: "true"}, controlplane.Flag{Name: "leader-elect-retry-period", Value: ccmRetryPeriod})
	if b.opts.Strategy == LeaderMigration {
		flags = append(flags, controlplane.Flag{Name: "enable-leader-migration", Value: "true"}, controlplane.Flag{Name: "leader-migration-config", Value: seedMigrationDir + "/" + seedMigrationCCM})
		volumes = append(volumes, object{"name": migrationVolume, "configMap": object{"name": SeedMigration}})
		mounts = append(mounts, object{"name": migrationVolume, "mountPath": seedMigrationDir, "readOnly": true})
	}
	flags = append(flags, controlplane.Flag{Name: "use-service-account-credentials", Value: "false"})
	flags = append(flags, b.carry(m)...)
	for _, more := range []controlplane.Flag{{Name: "controllers", Value: b.ccmControllers("")}, {Name: gatesFlag, Value: b.ccmGates()}, {Name: "secure-port", Value: port}} {
		if more.Value != "" {
			flags = append(flags, more)
		}
	}
	var args []any
	for _, f := range flags {
		args = append(args, "--"+f.Name+"="+f.Value)
	}
	container := object{
		"name": CCM, "image": b.opts.Image, "imagePullPolicy": "IfNotPresent", "args": args, "volumeMounts": mounts,
		"resources":     object{"requests": object{"cpu": "50m", "memory": "64Mi"}},
		"livenessProbe": seedProbe("/healthz", port, 10, 8), "startupProbe": seedProbe("/healthz", port, 2, 60),
	}
	if b.program.command != "" {
		container["command"] = []any{b.program.command}
	}
	if b.program.readyPath != "" {
		container["readinessProbe"] = seedProbe(b.program.readyPath, port, 5, 3)
	}
	if env := b.env(); len(env) > 0 {
		container["env"] = env
	}
	name := seedDeployment(b.provider.Name)
	labels := object{"app": name, "app.kubernetes.io/name": CCM, "app.kubernetes.io/managed-by": "transplant"}
	pod := object{"containers": []any{container}, "volumes": volumes}
	if b.program.ours {
		pod["terminationGracePeriodSeconds"] = 30
	}
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": b.seedMeta(name),
		"spec": object{
			"replicas": replicas(m), "selector": object{"matchLabels": object{"app": name}},
			// The old pod ends before the next one starts: a release of its leases is not waited for beside it.
			"strategy": object{"type": "Recreate"}, "template": object{"metadata": object{"labels": labels}, "spec": pod},
		},
	}
}

func seedProbe(path, port string, period, failures int) object {
	n := 0
	if _, err := fmt.Sscan(port, &n); err != nil {
		n = 10258
	}
	return object{"httpGet": object{"path": path, "port": n, "scheme": "HTTPS"}, "periodSeconds": period, "timeoutSeconds": 15, "failureThreshold": failures}
}

func (b *builder) seedVerify(phase, id string, expect map[string]string) {
	b.add(v1.Step{
		ID: id, Phase: phase, Kind: v1.StepVerify, Title: "each loop has one owner, nodes and load balancers are as before", Ref: b.seedManagerRef(), Component: CCM, Leases: []string{CCM}, Successors: []string{CCM},
		Expect: b.seedExpect(expect), EstimateSeconds: 2,
	})
}

// seedForget switches leader migration off in the cloud-controller-manager, when no in-tree manager is left that wants the lease.
func (b *builder) seedForget() {
	ref := b.seedName("Deployment", seedDeployment(b.provider.Name))
	b.add(v1.Step{
		ID: "finish/" + CCM, Phase: PhaseFinish, Kind: v1.StepEditWorkload, Component: CCM, Ref: ref, Title: "switch leader migration off in " + ref,
		Why: "no in-tree manager is left that could want the migration lease", Leases: []string{CCM, b.opts.LeaseName}, Successors: []string{CCM}, Requires: []string{"cluster:uid", "seed:uid"},
		Edits:   []v1.Edit{{Op: "unsetFlag", Name: "enable-leader-migration"}, {Op: "unsetFlag", Name: "leader-migration-config"}, {Op: opUnmount, Name: migrationVolume}},
		Changes: []v1.Change{{Field: "--enable-leader-migration", Before: "true"}, {Field: "--leader-migration-config", Before: seedMigrationDir + "/" + seedMigrationCCM}},
		Undo:    "put the arguments back as the record has them", EstimateSeconds: 30, Expect: b.seedExpect(owners(CCM)),
	})
	b.deleteObject(PhaseFinish, "delete/", b.seedName("ConfigMap", SeedMigration), "no manager reads it any longer")
	b.deleteObject(PhaseFinish, "delete/", "Lease/"+Namespace+"/"+b.opts.LeaseName, "nobody respects it any longer")
	for _, o := range migrationObjects(b.opts.LeaseName) {
		b.deleteObject(PhaseFinish, "delete/", Ref(o), "the lease that it grants is gone")
	}
	b.seedVerify(PhaseFinish, "verify/finished", owners(CCM))
}

// seedFinish takes the in-tree provider out of the control plane.
func (b *builder) seedFinish(m *v1.Component) {
	b.add(v1.Step{
		ID: "verify/owner", Phase: PhaseVerify, Kind: v1.StepVerify, Title: "the " + CCM + " runs every cloud loop", Ref: b.seedManagerRef(), Component: CCM, Leases: []string{CCM}, Successors: []string{CCM},
		Expect: b.seedExpect(owners(CCM)), EstimateSeconds: 1,
	})
	if m.Flags["cloud-provider"] == b.provider.Name {
		edits := externalEdits(m)
		edits = append(edits, gateEdits(m.Flags[gatesFlag], KCM, b.kcm, b.unregistered(m))...)
		now := *m
		b.seedEdit(&now, v1.Step{
			ID: "external/" + KCM + "@" + m.Manifest, Phase: PhaseFinish, Title: "make " + m.Manifest + " external", Why: "no machine is left whose volumes the in-tree plugins attach",
			Leases: []string{KCM}, Edits: edits, Expect: b.seedExpect(owners(CCM)),
		})
	}
	if c := hosted(b.snap, KAS); c != nil {
		if edits := b.apiEdits(c); len(edits) > 0 {
			now := *c
			b.seedEdit(&now, v1.Step{
				ID: "external/" + KAS + "@" + c.Manifest, Phase: PhaseFinish, Title: "make " + c.Manifest + " external", Why: "takes the provider out of the API server (labels of persistent volumes)", Edits: edits,
			})
			if c.Replicas == nil || *c.Replicas < 2 {
				b.notes = append(b.notes, c.Manifest+" has one replica: unless its new pod is ready before the old one ends, the managers lose their leases while it is away, and the loops start again when it is back; "+
					"nobody else can act meanwhile")
			}
		}
	}
	b.seedVerify(PhaseFinish, "verify/finished", owners(CCM))
}

// unregistered takes the in-tree volume plugins out, where the version has gates for that.
func (b *builder) unregistered(m *v1.Component) []gateChange {
	set := readGates(m.Flags[gatesFlag])
	var out []gateChange
	for _, p := range b.provider.Plugins {
		if g := catalogue.GateFor(KCM, p.UnregisterGate, b.kcm); g.Known && !g.Default && !set[p.UnregisterGate] {
			out = append(out, gateChange{p.UnregisterGate, gateOn})
		}
	}
	return append(out, inTreeAgain(m.Flags[gatesFlag], gateNoProviders)...)
}

// seedEffects say what a plan for a hosted control plane changes and what it does not.
func (b *builder) seedEffects() []string {
	out := append([]string{fmt.Sprintf("load balancers: %d kept, 0 recreated, 0 address changes", len(b.snap.Services)), fmt.Sprintf("nodes: %d kept, 0 provider ids changed", len(b.snap.Nodes))}, b.members()...)
	if recreatedWhy := recreated(b.snap, b.opts); recreatedWhy != "" {
		out[0] = fmt.Sprintf("load balancers: %d recreated: %s", len(b.snap.Services), recreatedWhy)
	}
	switch {
	case b.opts.Part == v1.PartInstall:
		out = append(out, "not changed: "+KCM+" and "+KAS+", which were external from the start")
	case b.opts.Part == v1.PartFinish:
		out = append(out, "there is no way back from this part: machines with external kubelets need a "+CCM)
	case b.opts.Strategy == Downtime:
		out = append(out, fmt.Sprintf("gap: from the end of the last old pod of %s to the first lease of the %s nobody runs the loops %s: load balancers, routes and nodes stay as they are, a node that joins keeps its taint, and a Service waits for its address",
			KCM, CCM, strings.Join(b.seedExpected(), ", ")))
		out = append(out, b.seedUnfenced())
	default:
		out = append(out, b.seedUnfenced())
	}
	if b.opts.Part == v1.PartHandover {
		out = append(out, "not changed: machines, their kubelets and volumes; "+KCM+" and "+KAS+" keep the in-tree provider until the machines are done")
	}
	if !b.observable() {
		out = append(out, fmt.Sprintf("not observed: which manager runs a loop is not said on /metrics by %s 1.%d or by the manager in image %s; each step waits for its pods and their leases", KCM, b.kcm, b.opts.Image))
	}
	return append(append(out, b.balancerNote()...), b.notes...)
}

// seedUnfenced says what nobody can promise of the in-tree manager.
func (b *builder) seedUnfenced() string {
	deadline := "10s"
	if m := hosted(b.snap, KCM); m != nil && m.Flags["leader-elect-renew-deadline"] != "" {
		deadline = m.Flags["leader-elect-renew-deadline"]
	}
	return fmt.Sprintf("not promised: the in-tree manager is not fenced. If it is paused and resumed it can still write to the cloud for one renew deadline, %s. Its leases are released only when its pod was seen to end, "+
		"so a planned handover does not open that window", deadline)
}

// Operations of edits on what a workload mounts.
const (
	opMount   = "mountConfigMap"
	opUnmount = "unmount"
)
