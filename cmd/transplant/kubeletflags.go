package main

import (
	"fmt"

	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// kubeletFlags are the options about how many nodes change at a time and how they are emptied.
func kubeletFlags(fl *pflag.FlagSet, o *v1.Options) {
	fl.StringVar(&o.MaxUnavailable, "max-unavailable", "", "how many nodes may be not Ready or under change at a time while kubelets change: N, or N% of all nodes (default 1)")
	fl.StringVar(&o.DrainTimeout, "drain-timeout", "", "how long the pods of a node may take to leave it (default 15m)")
	fl.BoolVar(&o.ForceUnmanaged, "force-unmanaged", false, "let a drain evict pods that no controller brings back")
}

// canaryFlags are the options about the first worker.
func canaryFlags(fl *pflag.FlagSet, o *v1.Options) {
	fl.StringVar(&o.Soak, "soak", "", "how long the first worker is watched before another one changes (default 10s)")
	fl.BoolVar(&o.PauseAfterCanary, "pause-after-canary", false, "stop behind the first worker; the same command goes on with the others")
}

// overKubelets puts what was given for this run in the place of what a migration was begun with: a node that died since must not end it for good.
func overKubelets(p *v1.Plan, given v1.Options) error {
	o := &p.Options
	if given.MaxUnavailable != "" {
		o.MaxUnavailable = given.MaxUnavailable
	}
	if given.DrainTimeout != "" {
		o.DrainTimeout = given.DrainTimeout
	}
	if given.Soak != "" {
		o.Soak = given.Soak
	}
	o.ForceUnmanaged = o.ForceUnmanaged || given.ForceUnmanaged
	if err := options.Validate(*o); err != nil {
		return fmt.Errorf("these options cannot be used: %w", err)
	}
	return nil
}

// behindCanary is the step behind which an apply that goes on stops, where the plan wants a pause there and it was not reached yet.
func behindCanary(doc v1.Journal) string {
	canary := planstep.Canary(&doc.Plan)
	if !doc.Plan.Options.PauseAfterCanary || canary == "" {
		return ""
	}
	for _, r := range doc.Records {
		if r.ID == canary && (r.Result == "done" || r.Result == "already-done") {
			return ""
		}
	}
	return canary
}
