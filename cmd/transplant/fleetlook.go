package main

import (
	"context"
	"errors"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/mask"
)

// plane is what is asked of a user cluster's control plane for its plan.
type plane interface {
	Gather(ctx context.Context) *v1.Snapshot
	Check(snap *v1.Snapshot) v1.CheckReport
	Plan(snap *v1.Snapshot, part hosted.Part) (*v1.Plan, error)
}

// planes opens control planes, and closes what it opened.
type planes struct {
	open  func(ctx context.Context, o fleet.Object) (plane, error)
	close func()
}

// openPlanes is replaced in tests.
var openPlanes = func(c *connection, f *waving) planes {
	pool := userclusters.New(userclusters.Options{Seed: c.kube})
	return planes{close: pool.Close, open: func(ctx context.Context, o fleet.Object) (plane, error) {
		namespace := o.Cluster.ControlPlaneNamespace()
		user, err := pool.Get(ctx, namespace)
		if err != nil {
			return nil, err
		}
		provider, _ := rules.Lookup(rules.ProviderOf(o.Cluster.Spec.Cloud))
		dial := portForward(c.config, c.kube, namespace)
		if f.direct {
			dial = nil
		}
		return &hosted.Plane{
			Name: o.Cluster.Name, Namespace: namespace, Seed: hosted.Clients{Kube: c.kube, Dynamic: c.dynamic}, User: hosted.Clients(user), Scrape: hosted.NewScraperThrough(hosted.Clients(user), dial),
			Provider: provider.InTree, ToolVersion: version, Options: v1.Options{Image: f.images[provider.InTree], Strategy: o.Cluster.Annotations[kubermaticv1.AnnotationStrategy]},
		}, nil
	}}
}

// member looks into a cluster and keeps what came of it.
func (p planes) member(ctx context.Context, o fleet.Object, m *v1.FleetMember) {
	at, err := p.open(ctx, o)
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
