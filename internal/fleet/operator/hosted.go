package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fleet/machines"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/managertoken"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// namedReasons is how many reasons a message about machines names.
const namedReasons = 5

// HostedParts are the Parts of clusters whose control planes the seed hosts.
type HostedParts struct {
	Hosted     *Hosted
	Datacenter Datacenter
}

var _ Parts = HostedParts{}

// Datacenter returns what the seed says of a datacenter, which is nil for nothing. It is an error when that is not
// known: then nothing is begun for a Cluster that names the datacenter. A nil Datacenter knows of none.
type Datacenter func(ctx context.Context, name string) (*rules.Datacenter, error)

// readFor returns what the seed says of the datacenter of a Cluster.
func (d Datacenter) readFor(ctx context.Context, c *kubermaticv1.Cluster) (*rules.Datacenter, error) {
	name := c.Spec.Cloud.DatacenterName
	if d == nil || name == "" {
		return nil, nil
	}
	found, err := d(ctx, name)
	if err != nil {
		return nil, fmt.Errorf(
			"what the seed says of datacenter %q (spec.cloud.dc) is unknown: %w; "+
				"let the operator list seeds.%s, and it goes on by itself",
			name, err, kubermaticv1.GroupName,
		)
	}
	return found, nil
}

// Ensure implements Parts. It is called once a cloud-controller-manager runs every loop.
func (h HostedParts) Ensure(ctx context.Context, t Target) (PartsSeen, error) {
	user, err := h.Hosted.Users.Get(ctx, t.Namespace)
	if err != nil {
		return PartsSeen{}, fmt.Errorf("reaching the user cluster: %w", err)
	}
	minor, err := minorOf(ctx, t.Cluster, user)
	if err != nil {
		return PartsSeen{}, err
	}
	if err := h.renewToken(ctx, t, user); err != nil {
		return PartsSeen{}, err
	}
	wanted, err := h.clusterParts(ctx, t, user, minor)
	if err != nil {
		return PartsSeen{}, err
	}
	result, err := wanted.Ensure(ctx)
	if err != nil { // what one half has done before the other one failed is told as well
		return PartsSeen{Did: result.Did}, fmt.Errorf("bringing the parts around machines about: %w", err)
	}
	seen := state.Parts{
		Ready:    result.Ready,
		CSIReady: result.CSIReady,
		CSI:      result.CSIMessage,
		Waiting:  result.Waiting,
	}
	return PartsSeen{Parts: seen, Detail: result, Did: result.Did}, nil
}

// RenewToken implements Parts.
func (h HostedParts) RenewToken(ctx context.Context, t Target) error {
	user, err := h.Hosted.Users.Get(ctx, t.Namespace)
	if err != nil {
		return fmt.Errorf("reaching the user cluster: %w", err)
	}
	return h.renewToken(ctx, t, user)
}

func (h HostedParts) renewToken(ctx context.Context, t Target, user userclusters.Clients) error {
	renewal := managertoken.Renewal{Kube: user.Kube, Now: time.Now}
	if _, err := renewal.InSeed(ctx, h.Hosted.Seed.Kube, t.Namespace); err != nil {
		return fmt.Errorf("renewing the token of the cloud-controller-manager: %w", err)
	}
	return nil
}

// clusterParts are the parts of a cluster. Its disks bear its name, which is the one in the tags of its instances and
// security groups, too.
func (h HostedParts) clusterParts(ctx context.Context, t Target, user userclusters.Clients,
	minor int) (parts.Parts, error) {
	driver, err := h.wantsDriver(ctx, t.Cluster)
	return parts.Parts{
		Name: t.Name, Namespace: t.Namespace, Seed: parts.Clients(h.Hosted.Seed), User: parts.Clients(user),
		Provider: engineProvider(t), Minor: minor, CCMReady: true, CSI: driver, ClusterName: t.Name,
	}, err
}

func (h HostedParts) wantsDriver(ctx context.Context, c *kubermaticv1.Cluster) (bool, error) {
	if c.Spec.CSIDriverDisabled() { // the seeds are not asked for what the cluster says itself
		return false, nil
	}
	d, err := h.Datacenter.readFor(ctx, c)
	return err == nil && rules.DriverWanted(c, d), err
}

// minorOf is the minor version of a cluster's API server: as the Cluster says, or as the server says where it does not.
func minorOf(ctx context.Context, c *kubermaticv1.Cluster, user userclusters.Clients) (int, error) {
	version := c.Spec.Version
	if v := c.Status.Versions; v != nil && v.Apiserver != "" {
		version = v.Apiserver
	}
	if version == "" {
		var info apiversion.Info
		raw, err := user.Kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(raw, &info)
		}
		if err != nil {
			return 0, fmt.Errorf(
				"asking the user cluster's API server for its version, which the Cluster does not say (spec.version): %w",
				err,
			)
		}
		version = info.GitVersion
	}
	minor := rules.MinorOf(version)
	if minor == 0 {
		return 0, fmt.Errorf("reading the version %q of the cluster: it is none of Kubernetes", version)
	}
	return minor, nil
}

// HostedMachines are the Machines of such clusters.
type HostedMachines struct{ Hosted *Hosted }

var (
	_ Machines = HostedMachines{}
	_ Watcher  = HostedMachines{}
)

// Pass implements Machines.
func (h HostedMachines) Pass(ctx context.Context, t Target, asked MachinesAsked) (state.Machines, string, error) {
	user, err := h.Hosted.Users.Get(ctx, t.Namespace)
	if err != nil {
		return state.Machines{}, "", fmt.Errorf("reaching the user cluster: %w", err)
	}
	looker := machines.Looker{
		Name:     t.Name,
		Store:    machines.Store{Seed: h.Hosted.Seed.Kube, Namespace: t.Namespace},
		Kube:     user.Kube,
		Dynamic:  user.Dynamic,
		CCMReady: asked.CCMReady,
	}
	if result, ok := asked.Parts.Detail.(parts.Result); ok {
		looker.PartsReady, looker.Volumes = result.MachinesReady, result.Volumes
	} else {
		looker.PartsReady = t.Cluster.MigrationCompleted() // they were, when that was written
	}
	if !asked.Wanted {
		seen, err := looker.Look(ctx)
		return machinesOf(seen), "", err
	}
	pass, err := machines.Restarter{
		Looker: looker,
		Policy: machines.Policy{
			Wanted:         true,
			Hold:           asked.Hold,
			MaxUnavailable: t.Cluster.Annotations[kubermaticv1.AnnotationMaxUnavailable],
		},
	}.Pass(
		ctx,
	)
	if err != nil {
		return state.Machines{}, "", err
	}
	out := machinesOf(pass.Observation)
	out.Rolling = pass.Rolling
	if pass.Waiting != "" {
		out.Reasons = append([]string{pass.Waiting}, out.Reasons...)
	}
	if s := pass.Stopped; s != nil {
		out.Regression = fmt.Sprintf("MachineDeployment %s: %s", s.Deployment, s.Reason)
	}
	return out, pass.Did, nil
}

// Watch implements Watcher.
func (h HostedMachines) Watch(ctx context.Context, t Target, changed func()) error {
	user, err := h.Hosted.Users.Get(ctx, t.Namespace)
	if err != nil {
		return fmt.Errorf("reaching the user cluster: %w", err)
	}
	meta, err := h.Hosted.Users.Metadata(ctx, t.Namespace)
	if err != nil {
		return fmt.Errorf("reaching the user cluster: %w", err)
	}
	return machines.Watch(ctx, user.Kube, meta, changed)
}

func machinesOf(o machines.Observation) state.Machines {
	out := state.Machines{
		Total:    o.Total,
		Migrated: o.Done,
		Deleting: o.Deleting,
		Done:     o.Complete,
		Reasons:  append(o.Reasons(), o.Unknown...),
	}
	if n := len(out.Reasons) - namedReasons; n > 0 {
		out.Reasons, out.More = out.Reasons[:namedReasons], n
	}
	return out
}

// FleetRules are the Rules of the webhooks.
type FleetRules struct {
	Hosted *Hosted
	// VSphereCSI is the version of vSphere's CSI driver that clusters get; empty for whichever fits.
	VSphereCSI string
	Datacenter Datacenter
}

var (
	_ Rules     = FleetRules{}
	_ Unjudging = FleetRules{}
)

// IsUnjudged implements Unjudging.
func (f FleetRules) IsUnjudged(ctx context.Context, c *kubermaticv1.Cluster) bool {
	_, err := f.Datacenter.readFor(ctx, c)
	return err != nil
}

// Refusals implements Rules. That a name is under both groups is the operator's to see. As long as a datacenter is
// unknown, it may forbid what the migration would do.
func (f FleetRules) Refusals(ctx context.Context, c *kubermaticv1.Cluster, inTree bool) []string {
	facts, err := f.facts(ctx, c, inTree)
	if err != nil {
		return []string{shownError(err)}
	}
	return rules.Refusals(c, facts)
}

// Repair implements Rules.
func (f FleetRules) Repair(ctx context.Context, group string, c *kubermaticv1.Cluster) (written bool, err error) {
	facts, err := f.facts(ctx, c, true)
	if err != nil {
		return false, err
	}
	addition := rules.Repair(c, facts)
	change := objects.Of(group, c)
	for _, name := range addition.Features {
		change.Feature(name, true)
	}
	for _, key := range addition.Annotations {
		change.Annotate(key, "")
	}
	if addition.UseOctavia {
		change.Spec(true, "cloud", "openstack", "useOctavia")
	}
	_, err = change.Apply(ctx, f.Hosted.Seed.Dynamic, fieldManager)
	if objects.IsStale(err) { // what changed meanwhile is looked at first
		return false, nil
	}
	return err == nil, err
}

func (f FleetRules) facts(ctx context.Context, c *kubermaticv1.Cluster, inTree bool) (rules.Facts, error) {
	dc, err := f.Datacenter.readFor(ctx, c)
	return rules.Facts{
		VSphereCSI: f.VSphereCSI,
		RunsInTree: inTree,
		Driver:     parts.Known,
		Datacenter: dc,
	}, err
}

// Hosted is the Engine of control planes that the seed hosts.
type Hosted struct {
	// Seed is the fenced client of the seed, Users the pool of the user clusters' clients, fenced as well.
	Seed  hosted.Clients
	Users *userclusters.Pool
	// Holder names this operator as the holder of clusters' locks. Locks of other holders whose name begins with
	// HolderPrefix are taken over at once. They belong to a process that has lost the election to this one, and whose
	// writes are refused since.
	Holder, HolderPrefix string
	ToolVersion          string
	// Images are those of cloud-controller-managers by provider, for the ones that are not the official ones.
	Images map[string]string
	// IgnoreObjectives goes on where managers do not keep the objectives of KEP-2395.
	IgnoreObjectives bool
}

var _ Engine = (*Hosted)(nil)

// Plane opens the control plane of a cluster.
func (h *Hosted) Plane(ctx context.Context, t Target) (*hosted.Plane, error) {
	user, err := h.Users.Get(ctx, t.Namespace)
	if err != nil {
		return nil, fmt.Errorf("reaching the user cluster: %w", err)
	}
	p := h.seedOnly(t)
	p.User = hosted.Clients(user)
	p.Scrape = hosted.NewScraper(p.User)
	return p, nil
}

// runMemory bounds what a run keeps of a cluster. A snapshot of 5,000 nodes takes a third of it.
const runMemory = 32 << 20

// seedOnly is the plane for what does not ask the user cluster.
func (h *Hosted) seedOnly(t Target) *hosted.Plane {
	provider := engineProvider(t)
	return &hosted.Plane{
		Name: t.Name, Namespace: t.Namespace, Seed: h.Seed, Holder: h.Holder, ToolVersion: h.ToolVersion, Provider: provider,
		Confirmed: confirmationOf(t.Cluster), Memory: runMemory,
		Ledger: planLedger{client: h.Seed.Dynamic, target: t, version: h.ToolVersion,
			images: func(image string) bool { return h.isOwnImage(provider, image) }},
		Options: v1.Options{Image: h.Images[provider], Strategy: strategyOf(t)},
	}
}

// Run implements Engine.
func (h *Hosted) Run(
	ctx context.Context,
	t Target,
	part state.Part,
	back bool,
	tell func(step.Event),
	stop <-chan struct{},
) error {
	p, err := h.Plane(ctx, t)
	if err != nil {
		return err
	}
	p.Ended = h.mayTake
	// The way back is the remedy, and an Install ends what its nodes have waited for.
	if !h.IgnoreObjectives && !back && part != state.Install {
		p.Objectives = objectives.NewWatch(time.Now())
	}
	if part == state.Install && t.Cluster.Spec.Features[kubermaticv1.FeatureCCMClusterName] {
		p.Options.ClusterName = t.Name // a cluster that ran in tree keeps the name that its load balancers carry
	}
	err = runPart(ctx, p, part, back, tell, stop)
	if unknown, is := errors.AsType[*hosted.UnknownPlanError](err); is {
		return &unapprovedError{message: approveBegun(t, part, unknown), err: unknown}
	}
	return err
}

// unapprovedError is an UnknownPlanError that says what to do about it.
type unapprovedError struct {
	message string
	err     error
}

func (e *unapprovedError) Error() string { return e.message }

func (e *unapprovedError) Unwrap() error { return e.err }

func runPart(
	ctx context.Context,
	p *hosted.Plane,
	part state.Part,
	back bool,
	tell func(step.Event),
	stop <-chan struct{},
) error {
	if back {
		return p.Rollback(ctx, tell, stop)
	}
	return p.Run(ctx, hosted.Part(part), tell, stop)
}

// mayTake reports whether the holder of a lock is an operator that lost its election to this one.
func (h *Hosted) mayTake(holder string) bool {
	return h.HolderPrefix != "" && strings.HasPrefix(holder, h.HolderPrefix) && holder != h.Holder
}

// Journal implements Engine.
func (h *Hosted) Journal(ctx context.Context, t Target) (state.Journal, error) {
	p := h.seedOnly(t)
	var out state.Journal
	for _, part := range []struct {
		name  hosted.Part
		stage *state.Stage
	}{{hosted.Handover, &out.Handover}, {hosted.Finish, &out.Finish}} {
		s, begun, err := p.StatusOf(ctx, part.name)
		if err != nil {
			return out, fmt.Errorf("reading the journal of the %s: %w", part.name, err)
		}
		if s.State == "unknown" {
			return out, fmt.Errorf("reading the journal of the %s: %s", part.name, strings.Join(s.NotRead, "; "))
		}
		*part.stage = stageOf(s)
		if part.name == hosted.Handover {
			out.Install = begun == hosted.Install
		}
	}
	back, err := p.GoesBack(ctx)
	if err != nil {
		return out, err
	}
	if back { // the operator ended between its note and the journal, or another client has written another phase since
		out.Handover = state.RollingBack
	}
	return out, nil
}

// stageOf is how far a part is. A journal in which no step was begun is that of a plan only.
func stageOf(s v1.Status) state.Stage {
	switch s.Phase {
	case v1.StateApplied:
		return state.Done
	case v1.StateRollingBack:
		return state.RollingBack
	case v1.StateRolledBack:
		return state.RolledBack
	case v1.StateApplying:
		if s.StepsDone > 0 || len(s.Current) > 0 {
			return state.Begun
		}
	}
	return state.NotBegun
}

// Owners implements Engine.
func (h *Hosted) Owners(ctx context.Context, t Target) (state.Owners, error) {
	p, err := h.Plane(ctx, t)
	if err != nil {
		return state.Owners{}, err
	}
	found, err := p.Owners(ctx)
	if err != nil {
		return state.Owners{}, fmt.Errorf("looking who runs the cloud loops: %w", err)
	}
	return ownersOf(found), nil
}

func ownersOf(found hosted.Owners) state.Owners {
	out := state.Owners{Unsure: found.Unknown}
	for _, loop := range hosted.LoopNames() {
		owner, has := found.Loops[loop]
		if !has {
			continue
		}
		if owner.ByLease {
			out.ByLease = append(out.ByLease, loop)
		}
		switch {
		case len(owner.Also) > 0:
			out.Twice = append(out.Twice, loop)
		case owner.Component == "":
			out.Unowned = append(out.Unowned, loop)
		case owner.Component == component.KCM:
			out.InTree = append(out.InTree, loop)
		default:
			out.External = append(out.External, loop)
		}
	}
	return out
}

// Reach implements Engine.
func (h *Hosted) Reach(ctx context.Context, t Target) error {
	user, err := h.Users.Get(ctx, t.Namespace)
	if err != nil {
		return err
	}
	if _, err := user.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return fmt.Errorf("asking the user cluster's API server whether it is ready: %w", err)
	}
	return nil
}

// Close implements Engine.
func (h *Hosted) Close(t Target) { h.Users.Forget(t.Namespace) }

// engineProvider is the provider as --cloud-provider names it; empty for what controller-manager was started with.
func engineProvider(t Target) string {
	provider, _ := rules.Lookup(rules.ProviderOf(t.Cluster.Spec.Cloud))
	return provider.InTree
}

func strategyOf(t Target) string { return t.Cluster.Annotations[kubermaticv1.AnnotationStrategy] }
