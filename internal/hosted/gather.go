package hosted

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// Gather looks at both clusters once and changes nothing. What could not be looked at is in Errors of the snapshot. It
// asks the user cluster for rights that the engine needs there; those in the seed show when they are used.
func (p *Plane) Gather(ctx context.Context) *v1.Snapshot {
	snap := snapshot.Gather(ctx, collect.Sources{
		Kube: p.User.Kube, Dynamic: p.User.Dynamic, Seed: p.seed(), ToolVersion: p.ToolVersion, Now: p.clock().Now,
		Progress: p.Progress,
		Scrape: func(ctx context.Context, component, pod, address string) v1.Manager {
			m, err := p.scrape(ctx, component, pod, address)
			if err != nil {
				m.Error = mask.Error(err)
			}
			if errors.Is(err, ErrNoObserver) {
				m.ErrorReason = v1.ErrorReasonNotMadeYet
			}
			return m
		},
	}, collect.Options{LeaseName: p.Options.LeaseName, ObjectRefs: layout.ObjectRefs(), Needs: permission.DefaultNeeds})
	snap.Cluster.Context = p.Name
	return snap
}

// bounded refuses a snapshot that a run should not keep; a limit of 0 is none. Names and labels in it are as long as
// the user cluster makes them.
func bounded(snap *v1.Snapshot, limit int64) error {
	if limit == 0 {
		return nil
	}
	if size := answerlimit.Size(snap); size > limit {
		return fmt.Errorf(
			"the snapshot of %s takes %d MiB of memory, and may take %d: look at what the API server of the user cluster runs",
			snap.Cluster.Context, size>>20, limit>>20,
		)
	}
	return nil
}

func (p *Plane) seed() *collect.Seed {
	return &collect.Seed{
		Kube:         p.Seed.Kube,
		Namespace:    p.Namespace,
		Provider:     p.Provider,
		ConfigSecret: layout.SeedCloudConfig,
		ConfigKey:    layout.SeedCloudConfigKey,
		TokenSecret:  layout.SeedKubeconfig,
		TokenKey:     layout.SeedTokenKey,
	}
}

// ManagerToken is what the token of the cluster's manager says of itself; nil where the seed has none.
func (p *Plane) ManagerToken(ctx context.Context) (*v1.ManagerToken, error) {
	return hosted.ManagerToken(ctx, p.seed())
}

// Check judges a snapshot by the rules that concern hosted control planes. Rules about hosts are skipped with the
// reason.
func (p *Plane) Check(snap *v1.Snapshot) v1.CheckReport {
	return p.CheckPart(snap, Handover)
}

// CheckPart is Check for a part: what is asked before the in-tree provider is removed is not what is asked before the
// handover.
func (p *Plane) CheckPart(snap *v1.Snapshot, part Part) v1.CheckReport {
	o := plan.Choose(snap, p.options(part))
	return check.Run(snap, facts.Options{
		Strategy:      o.Strategy,
		Image:         o.Image,
		LeaseName:     o.LeaseName,
		RenewDeadline: o.RenewDeadline,
		Accept:        p.Accept,
		Part:          string(part),
		Provider:      p.Provider,
	})
}

func (p *Plane) options(part Part) v1.Options {
	o := options.Defaults(p.Options)
	o.Part = string(part)
	return o
}

// Plan makes the plan of a part. It fails with *BlockedError when the checks refuse and with *UnplannedError when there
// is no plan for such a cluster. It makes the same plan for the same snapshot.
func (p *Plane) Plan(snap *v1.Snapshot, part Part) (*v1.Plan, error) {
	report := p.CheckPart(snap, part)
	if report.Summary.Blocked {
		return nil, &BlockedError{Report: report}
	}
	if part == Install && snap.Cluster.Provider == "" { // no flag and no node of a new cluster says what its owner says
		of := *snap
		of.Cluster.Provider, snap = p.Provider, &of
	}
	made, err := plan.Make(snap, p.options(part), report.Findings, snap.TakenAt)
	if err != nil {
		return nil, &UnplannedError{Part: part, Err: err}
	}
	return made, nil
}
