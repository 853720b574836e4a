package invariant

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// isHosted reports whether the plan is for a control plane that another cluster hosts.
func (r *planView) isHosted() bool { return r.Cluster.Seed != "" }

// seedOneOwner holds a hosted control plane's manager back until the in-tree loops are proven off, or respect the
// migration lease.
func seedOneOwner(r *planView) error {
	first, ok := r.first()
	if !r.isHosted() || !ok {
		return nil
	}
	before := r.Steps[:first]
	if r.Options.Part == v1.PartInstall {
		return r.nothingInTree()
	}
	if r.Strategy == planstep.LeaderMigration {
		if !slices.ContainsFunc(before, learnsMigrationLease) {
			return fmt.Errorf("%s comes before %s has learned the migration lease", r.Steps[first].ID, component.KCM)
		}
		return nil
	}
	off := slices.IndexFunc(before, func(s v1.Step) bool {
		return s.Component == component.KCM && s.Kind == v1.StepEditWorkload && loopsOff(s)
	})
	if off < 0 {
		return fmt.Errorf("%s comes before the cloud loops are removed from %s", r.Steps[first].ID, component.KCM)
	}
	if !slices.ContainsFunc(before[off:], func(s v1.Step) bool {
		return s.Kind == v1.StepVerify && s.Component == component.KCM && s.Ref == before[off].Ref &&
			slices.Contains(s.Leases, component.KCM)
	}) {
		return fmt.Errorf("%s comes before anybody has looked whether the cloud loops have ended", r.Steps[first].ID)
	}
	return nil
}

// learnsMigrationLease reports whether a step makes the manager in tree respect the migration lease.
func learnsMigrationLease(s v1.Step) bool {
	return s.Component == component.KCM && s.Kind == v1.StepEditWorkload &&
		planstep.SetsFlag(s, "enable-leader-migration", "true") &&
		slices.Contains(s.Leases, component.KCM)
}

// nothingInTree holds a manager back that is installed as the first one where the snapshot has another owner of the
// loops.
func (r *planView) nothingInTree() error {
	for _, s := range r.Steps {
		if s.Kind == v1.StepEditWorkload {
			return fmt.Errorf("step %s changes %s, which was external from the start", s.ID, s.Ref)
		}
	}
	if r.snap == nil {
		return nil
	}
	for _, c := range r.snap.Hosted {
		if p := c.Flags["cloud-provider"]; c.Name == component.KCM && p != "" && p != "external" {
			return fmt.Errorf("%s runs the in-tree provider %s", c.Manifest, p)
		}
	}
	return nil
}

// loopsOff reports whether a step switches every cloud loop off by --controllers.
func loopsOff(s v1.Step) bool {
	e, ok := planstep.LastEdit(s, "controllers")
	if !ok || e.Op != v1.EditSetFlag {
		return false
	}
	for _, l := range controllernames.CloudLoops {
		if !flagvalue.IsLoopDisabled(e.Value, l) {
			return false
		}
	}
	return true
}

// seedKeepsProvider holds the provider in the control plane until the part of the migration that comes when the
// machines are done.
func seedKeepsProvider(r *planView) error {
	if !r.isHosted() {
		return nil
	}
	for i, s := range r.Steps {
		e, ok := planstep.LastEdit(s, "cloud-provider")
		if !ok || s.Component != component.KCM && s.Component != component.KAS {
			continue
		}
		if r.Options.Part != v1.PartFinish {
			return fmt.Errorf("step %s changes --cloud-provider to %q", s.ID, e.Value)
		}
		if i == 0 || r.Steps[0].Kind != v1.StepVerify ||
			len(r.Steps[0].Expect) == 0 && r.Strategy == planstep.LeaderMigration {
			return fmt.Errorf("step %s comes before anybody has looked who owns the loops", s.ID)
		}
	}
	return nil
}

// seedStays holds every change of the seed within the namespace of the cluster, and credentials out of the plan.
func seedStays(r *planView) error {
	if !r.isHosted() {
		return nil
	}
	for _, s := range r.Steps {
		parts := strings.Split(s.Ref, "/")
		if s.Host != "" {
			return fmt.Errorf("step %s is on host %s: a hosted control plane has none", s.ID, s.Host)
		}
		if s.Kind == v1.StepEditWorkload || s.Component == component.CCM && s.Kind == v1.StepEnsureObject {
			if len(parts) != 3 || parts[1] != r.Cluster.Seed {
				return fmt.Errorf("step %s changes %s, which is not in namespace %s of the seed", s.ID, s.Ref, r.Cluster.Seed)
			}
		}
		if s.Kind == v1.StepEnsureObject && parts[0] == "Secret" &&
			(strings.Contains(s.Object, `"data"`) || strings.Contains(s.Object, `"stringData"`)) {
			return fmt.Errorf("step %s has the content of %s", s.ID, s.Ref)
		}
		if slices.Contains([]v1.StepKind{v1.StepEditWorkload}, s.Kind) && !slices.Contains(s.Requires, "seed:uid") {
			return fmt.Errorf("step %s does not require the uid of the seed's namespace", s.ID)
		}
	}
	return nil
}
