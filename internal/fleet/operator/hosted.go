package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

const inTreeManager = "kube-controller-manager"

// Hosted is the Engine of control planes that the seed hosts.
type Hosted struct {
	// Seed is the fenced client of the seed, Users the pool of the user clusters' clients, fenced as well.
	Seed  hosted.Clients
	Users *userclusters.Pool
	// Holder names this operator as the holder of clusters' locks. Locks of other holders whose name begins with HolderPrefix are taken over at once: they
	// are those of a process that has lost the election which this one has won, and whose writes are refused since.
	Holder, HolderPrefix string
	ToolVersion          string
	// Images are those of cloud-controller-managers by provider, for the ones that are not the official ones.
	Images map[string]string
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

// seedOnly is the plane for what does not ask the user cluster.
func (h *Hosted) seedOnly(t Target) *hosted.Plane {
	provider := engineProvider(t)
	return &hosted.Plane{
		Name: t.Name, Namespace: t.Namespace, Seed: h.Seed, Holder: h.Holder, ToolVersion: h.ToolVersion, Provider: provider,
		Confirmed: confirmationOf(t.Cluster),
		Ledger: planLedger{client: h.Seed.Dynamic, target: t, version: h.ToolVersion,
			images: func(image string) bool { return h.isOwnImage(provider, image) }},
		Options: v1.Options{Image: h.Images[provider], Strategy: strategyOf(t)},
	}
}

// Run implements Engine.
func (h *Hosted) Run(ctx context.Context, t Target, part state.Part, back bool, tell func(step.Event), stop <-chan struct{}) error {
	p, err := h.Plane(ctx, t)
	if err != nil {
		return err
	}
	p.Ended = h.mayTake
	if part == state.Install && t.Cluster.Spec.Features[kubermaticv1.FeatureCCMClusterName] {
		p.Options.ClusterName = t.Name // a cluster that ran in tree keeps the name that its load balancers carry
	}
	err = carryOut(ctx, p, part, back, tell, stop)
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

func carryOut(ctx context.Context, p *hosted.Plane, part state.Part, back bool, tell func(step.Event), stop <-chan struct{}) error {
	if back {
		return p.Rollback(ctx, tell, stop)
	}
	return p.Run(ctx, hosted.Part(part), tell, stop)
}

// mayTake tells that the holder of a lock is an operator that lost its election to this one.
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
	if back { // the operator ended between its note and the journal, or somebody has written another phase since
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
			out.Nobody = append(out.Nobody, loop)
		case owner.Component == inTreeManager:
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
