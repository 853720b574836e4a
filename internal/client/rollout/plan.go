package rollout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

// Options are the flags that make waves.
type Options struct {
	Selection
	Options        v1.FleetOptions
	Soak, Patience time.Duration
	Images         map[string]string
	Parallel       int
	Direct         bool
}

// Settle are the options as they count, judged before anything is read.
func (f *Options) Settle() (v1.FleetOptions, error) {
	o := f.Options
	o.SoakSeconds, o.PatienceSeconds = f.Soak.Seconds(), f.Patience.Seconds()
	o.Selector, o.Providers, o.Names = f.Selector, f.Providers, f.Names
	if err := errors.Join(fleet.CheckOptions(o), rules.CheckImages("image", f.Images)); err != nil {
		return o, exitcode.With(exitcode.Error, "%w", err)
	}
	_, err := f.Labels()
	return o, err
}

// MakePlan reads the fleet and makes waves.
func MakePlan(ctx context.Context, c *client.Client, f *Options) (*v1.FleetPlan, []fleet.Object, error) {
	o, err := f.Settle()
	if err != nil {
		return nil, nil, err
	}
	seed, err := ConnectSeed(c)
	if err != nil {
		return nil, nil, err
	}
	rows, objects, notRead, err := ReadFleet(ctx, c, &f.Selection)
	if err != nil {
		return nil, nil, err
	}
	waves, left, err := fleet.Waves(rows, fleet.Refused(objects, rules.Facts{RunsInTree: true, Driver: parts.Known}), o)
	if err != nil {
		return nil, nil, exitcode.With(exitcode.Error, "%w", err)
	}
	return &v1.FleetPlan{
		TypeMeta:    v1.Type(v1.KindFleetPlan),
		Created:     ServerTime(c),
		ToolVersion: client.Version,
		Seed:        seed,
		Options:     o,
		Waves:       waves,
		Left:        left,
		NotRead:     notRead,
	}, objects, nil
}

// BlockedMembers are the clusters that would be started and that the checks refuse, or that could not be read: unknown
// blocks like a failure.
func BlockedMembers(p *v1.FleetPlan) []string {
	var out []string
	for _, w := range p.Waves {
		for _, m := range w.Clusters {
			if m.Error != "" || m.Report != nil && m.Report.Summary.Blocked {
				out = append(out, m.Name)
			}
		}
	}
	return out
}

// InspectMembers runs the checks and makes the plan of every cluster that is to be started, so many at a time.
func InspectMembers(ctx context.Context, c *client.Client, p *v1.FleetPlan, objects []fleet.Object, f *Options) {
	byKey := map[fleet.Key]fleet.Object{}
	for _, o := range objects {
		byKey[o.Key()] = o
	}
	var todo []*v1.FleetMember
	for i := range p.Waves {
		for j := range p.Waves[i].Clusters {
			if m := &p.Waves[i].Clusters[j]; m.Do != "" {
				todo = append(todo, m)
			}
		}
	}
	if len(todo) == 0 {
		return
	}
	c.Narrate("looking into %s", english.Count(len(todo), "cluster"))
	open := OpenPlanes(c, f)
	defer open.Close()
	places := make(chan struct{}, max(1, f.Parallel))
	var wg sync.WaitGroup
	for _, m := range todo {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			open.member(ctx, byKey[fleet.Key{Group: m.Group, Name: m.Name}], m)
		})
	}
	wg.Wait()
}

// trimmed is a report without what passed and what was skipped: of many clusters that would be too much to read.
func trimmed(r v1.CheckReport) *v1.CheckReport {
	r.Findings = slices.DeleteFunc(
		slices.Clone(r.Findings),
		func(f v1.Finding) bool { return f.Outcome == v1.Pass || f.Outcome == v1.Skip },
	)
	return &r
}
