package rollout

import (
	"context"
	"errors"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Plane is what is asked of a user cluster's control plane for its plan.
type Plane interface {
	Gather(ctx context.Context) *v1.Snapshot
	Check(snap *v1.Snapshot) v1.CheckReport
	Plan(snap *v1.Snapshot, part hosted.Part) (*v1.Plan, error)
}

// Planes opens control planes, and closes what it opened.
type Planes struct {
	Open  func(ctx context.Context, o fleet.Object) (Plane, error)
	Close func()
}

// OpenPlanes is replaced in tests.
var OpenPlanes = func(c *client.Client, f *Options) Planes {
	pool := userclusters.New(userclusters.Options{Seed: c.Kube})
	return Planes{Close: pool.Close, Open: func(ctx context.Context, o fleet.Object) (Plane, error) {
		namespace := o.Cluster.ControlPlaneNamespace()
		user, err := pool.Get(ctx, namespace)
		if err != nil {
			return nil, err
		}
		provider, _ := rules.Lookup(rules.ProviderOf(o.Cluster.Spec.Cloud))
		dial := client.PortForward(c.Config, c.Kube, namespace)
		if f.Direct {
			dial = nil
		}
		return &hosted.Plane{
			Name:        o.Cluster.Name,
			Namespace:   namespace,
			Seed:        hosted.Clients{Kube: c.Kube, Dynamic: c.Dynamic},
			User:        hosted.Clients(user),
			Scrape:      hosted.NewScraperThrough(hosted.Clients(user), dial),
			Provider:    provider.InTree,
			ToolVersion: client.Version,
			Options: v1.Options{
				Image:    f.Images[provider.InTree],
				Strategy: o.Cluster.Annotations[kubermaticv1.AnnotationStrategy],
			},
		}, nil
	}}
}

// member looks into a cluster and keeps what came of it.
func (p Planes) member(ctx context.Context, o fleet.Object, m *v1.FleetMember) {
	at, err := p.Open(ctx, o)
	if err != nil {
		m.Error = mask.Error(err)
		return
	}
	snap := at.Gather(ctx)
	m.Report = trimmed(at.Check(snap))
	var blocked *hosted.BlockedError
	m.Plan, err = at.Plan(snap, hosted.Handover)
	switch {
	case errors.As(err, &blocked):
		m.Report = trimmed(blocked.Report)
	case err != nil:
		m.Error = mask.Error(err)
	}
}
