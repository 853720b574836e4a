package draft

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// ChooseStrategy returns the strategy for a snapshot where none was asked for, and why.
func ChooseStrategy(snap *v1.Snapshot, o v1.Options) (strategy, why string) {
	if o.ReplaceHosts {
		return planstep.LeaderMigration, "hosts are replaced one by one"
	}
	if m := clusterview.FindHosted(
		snap,
		component.KCM,
	); m != nil && snap.Cluster.Seed != "" && m.Replicas != nil &&
		*m.Replicas > 1 {
		return planstep.LeaderMigration, fmt.Sprintf("%s has %d replicas", m.Manifest, *m.Replicas)
	} else if m != nil {
		return planstep.Downtime, component.KCM + " runs as " + m.Manifest
	}
	n := 0
	for _, h := range snap.Hosts {
		if clusterview.FindComponent(h, component.KCM) != nil {
			n++
		}
	}
	if n == 1 {
		return planstep.Downtime, "one control-plane host: there is no other manager to take the loops over under a lease"
	}
	return planstep.LeaderMigration, fmt.Sprintf("%d control-plane hosts", n)
}

// ResolveStrategy takes leader migration wherever two hosts can hand over and both managers know it.
func (d *Draft) ResolveStrategy() []error {
	var why []string
	if len(d.Hosts) < 2 {
		why = append(
			why,
			fmt.Sprintf("only one control-plane host (%s) is known, and leader migration needs a second one to take over: "+
				"name every control-plane host with --host-access", d.Hosts[0].Name),
		)
	}
	if d.KCMMinor < program.FirstLeaderMigration {
		why = append(
			why,
			fmt.Sprintf(
				"%s of 1.%d has no leader migration, which came with 1.%d",
				component.KCM,
				d.KCMMinor,
				program.FirstLeaderMigration,
			),
		)
	}
	if d.Program.Image != "" && !d.Program.LeaderMigration {
		why = append(
			why,
			fmt.Sprintf(
				"the manager in image %s has no leader migration: it would take the flags and run the loops next to the in-tree manager",
				d.Program.Image,
			),
		)
	}
	switch {
	case d.Options.Strategy == "" && len(why) == 0:
		d.Options.Strategy = planstep.LeaderMigration
	case d.Options.Strategy == "":
		d.Options.Strategy = planstep.Downtime
	case d.Options.Strategy == planstep.LeaderMigration:
		var errs []error
		for _, w := range why {
			errs = append(
				errs,
				fmt.Errorf(
					"%s; or plan with --strategy=%s, which leaves the loops without a manager for a while",
					w,
					planstep.Downtime,
				),
			)
		}
		return errs
	}
	return nil
}
