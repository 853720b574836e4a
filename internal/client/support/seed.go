package support

import (
	"context"
	"errors"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/bundle"
	"github.com/transplant-dev/transplant/internal/client/hostedrun"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/timeline"
)

// OfHosted gathers a bundle of a control plane that a seed hosts. Its pods, events and Leases are those of its
// namespace in the seed. The nodes are the cluster's.
func OfHosted(ctx context.Context, m *hostedrun.Migration, o bundle.Options) (*bundle.Bundle, error) {
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	seed, user := m.Plane.Seed.Kube, m.Plane.User.Kube
	if _, err := seed.Discovery().ServerVersion(); err != nil {
		return nil, errors.Join(errors.New("reaching the seed's API server: name its kubeconfig with --seed-kubeconfig"), err)
	}
	var doc *v1.Journal
	found, _, journalErr := m.Plane.Journal(limited, m.Part)
	if journalErr == nil {
		doc = &found
	} else if !errors.Is(journalErr, journal.ErrNoJournal) && found.Run != "" {
		doc, journalErr = &found, nil // its steps could not be worded
	}
	cluster := v1.Cluster{Name: m.Plane.Name, Seed: m.Plane.Namespace}
	if doc != nil {
		cluster = doc.Plan.Cluster
	}
	b := newBundle(cluster, doc, o)
	b.Note("The cloud config and the token of a hosted control plane are in Secrets: what check says of them is unknown.")
	b.Add(limited, versions(user, seed))
	addJournal(limited, b, doc, journalErr)
	b.Add(limited, bundle.Document{
		Name: "status.json", What: "what transplant status says",
		Read: func(ctx context.Context) (any, error) { return m.Status(ctx), nil },
	})
	b.Add(limited, bundle.Document{
		Name: "timeline.json", What: "what transplant timeline says",
		Read: func(ctx context.Context) (any, error) {
			board := m.NewBoard(ctx, m.Plane).Board
			board.Look(ctx)
			return timeline.Build(timeline.Input{Facts: board.Facts()}), nil
		},
	})
	addControlPlane(limited, b, controlPlane{kube: seed, namespace: m.Plane.Namespace, nodesOf: user})
	b.Add(limited, bundle.Document{
		Name: "cluster-leases.json", What: "Leases of namespace " + component.Namespace + " of the cluster",
		Read: func(ctx context.Context) (any, error) { return bundle.Leases(ctx, user, component.Namespace) },
	})
	var snap *v1.Snapshot
	b.Add(limited, bundle.Document{
		Name: "snapshot.json", What: "what the checks are asked of",
		Read: func(ctx context.Context) (any, error) {
			snap = m.Gather(ctx)
			noteErrors(b, snap)
			return snap, nil
		},
	})
	b.Add(limited, bundle.Document{
		Name: "check.json", What: "what transplant check says of the snapshot",
		Read: func(context.Context) (any, error) {
			if snap == nil {
				return nil, errors.New("there is no snapshot to judge")
			}
			return m.Plane.CheckPart(snap, m.Part), nil
		},
	})
	return b, context.Cause(ctx)
}
