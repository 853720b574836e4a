package journal

import (
	"context"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
)

// RollbackSteps returns the steps of the way back, where one was planned.
func RollbackSteps(doc v1.Journal) []v1.Step {
	if doc.Rollback == nil {
		return nil
	}
	return doc.Rollback.Steps
}

// PlanHosts are the hosts that a migration's steps are on, sorted.
func PlanHosts(doc v1.Journal) []string {
	var out []string
	for _, s := range append(slices.Clone(doc.Plan.Steps), RollbackSteps(doc)...) {
		if s.Host != "" {
			out = append(out, s.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// IsExcluded reports whether a host was excluded from a migration.
func IsExcluded(doc v1.Journal, host string) bool {
	return slices.ContainsFunc(doc.Without, func(h v1.HostOut) bool { return h.Name == host })
}

// Staying are the hosts that were not excluded from a migration.
func Staying(doc v1.Journal, hosts []hostaccess.Host) []hostaccess.Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h hostaccess.Host) bool { return IsExcluded(doc, h.Name()) })
}

// HasChanged reports whether a step of the migration has changed a component on a host. No step of the rollback reaches
// it once the host was excluded.
func HasChanged(doc v1.Journal, host string) bool {
	changed := map[string]bool{}
	for _, rec := range doc.Records {
		// half done, and skipped since
		changed[rec.ID] = rec.Result == v1.StepResultStarted || rec.Result == v1.StepResultDone || rec.AfterSHA256 != ""
	}
	return slices.ContainsFunc(
		doc.Plan.Steps,
		func(s v1.Step) bool { return s.Host == host && s.Component != "" && changed[s.ID] },
	)
}

// Exclude writes down that hosts were left out of the migration.
func (j *Journal) Exclude(ctx context.Context, out []v1.HostOut) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doc.Without = slices.Clone(j.doc.Without)
	for _, host := range out {
		host.By = mask.Cut(host.By, maxName)
		host.Evidence = mask.CutAll(host.Evidence[:min(len(host.Evidence), maxEvidence)], maxNote)
		j.doc.Without = append(j.doc.Without, host)
	}
	return j.write(ctx)
}

// Accept writes down differences that the operator lives with. Of two reasons for the same the last one is kept.
func (j *Journal) Accept(ctx context.Context, accepted []v1.AcceptedDifference) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept, isChanged := slices.Clone(j.doc.Accepted), false
	for _, a := range accepted {
		a.Reason, a.By = mask.Cut(a.Reason, maxNote), mask.Cut(a.By, maxName)
		i := slices.IndexFunc(kept, func(k v1.AcceptedDifference) bool { return k.Difference == a.Difference })
		switch {
		case i < 0:
			kept, isChanged = append(kept, a), true
		case kept[i].Reason != a.Reason:
			kept[i], isChanged = a, true
		}
	}
	if !isChanged {
		return nil
	}
	j.doc.Accepted = kept
	return j.write(ctx)
}
