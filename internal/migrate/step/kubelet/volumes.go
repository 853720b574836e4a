package kubelet

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// mayDrain reports whether the node of a step is drained, or would be if it had a volume that changes its mounter. It
// is cordoned for either, so that no volume comes meanwhile.
func mayDrain(e *step.Env, s v1.Step, rec v1.StepRecord) bool {
	return s.Drain || rec.Before != "" || leftBefore(e, s) != "" || changesMounter(e, s)
}

// changesMounter reports whether a kubelet leaves the volumes of an in-tree plugin to CSI by a step, or takes them back
// from it.
func changesMounter(e *step.Env, s v1.Step) bool {
	if s.Restore != "" {
		s, _ = e.StepByID(s.Restore) // one that is not known has no edits
	}
	for _, provider := range cloudprovider.Providers() {
		for _, p := range provider.Plugins {
			on := slices.ContainsFunc(s.Edits, func(edit v1.Edit) bool { return turnsOn(edit, p.MigrationGate) })
			if on && !wasOn(s, p.MigrationGate) {
				return true
			}
		}
	}
	return false
}

// turnsOn reports whether an edit gives a kubelet the gate of a plugin's CSI migration, or that of all plugins.
func turnsOn(e v1.Edit, gate string) bool {
	switch {
	case e.Op == v1.EditSetGate:
		return (e.Name == gate || e.Name == flagvalue.GateCSIMigration) && e.Value == flagvalue.GateOn
	case e.Op == v1.EditSetFlag && e.Name == flagvalue.FlagFeatureGates:
		gates := flagvalue.ParseGates(e.Value)
		return gates[gate] || gates[flagvalue.GateCSIMigration]
	}
	return false
}

// wasOn reports whether the flags that a step changes had a gate on before.
func wasOn(s v1.Step, gate string) bool {
	return slices.ContainsFunc(s.Changes, func(c v1.Change) bool {
		return strings.HasPrefix(c.Field, "--"+flagvalue.FlagFeatureGates) && flagvalue.ParseGates(c.Before)[gate]
	})
}
