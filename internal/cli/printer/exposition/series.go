package exposition

import (
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/probe"
	"github.com/transplant-dev/transplant/internal/status"
)

// Values of labels, of which each has a series: what ends becomes 0, and does not vanish.
var (
	states = []string{
		v1.StateNotStarted, v1.StateApplying, v1.StateStalled, v1.StatePaused, v1.StateFailed, v1.StateStopped,
		v1.StateApplied, v1.StateRollingBack, v1.StateRolledBack, v1.StateUnknown,
	}
	nodeStates = []string{v1.NodeBlocked, v1.NodeWorking, v1.NodeBegun, v1.NodePending, v1.NodeDone, v1.NodeOut}
	levels     = []string{"error", "warning", "info"}
	managers   = []string{component.KCM, component.CCM}
)

// sectionResults are the results that a phase of a plan may have as a label. It has one series, with the newest.
var sectionResults = []v1.StepResult{v1.StepResultStarted, v1.StepResultFailed, v1.StepResultDone}

// unknownManager is the manager of a loop whose lease is held by a process that is not known to be one of the two.
const unknownManager = "unknown"

// addReading adds what is known of the status itself. A file that is no longer written keeps its last series, and only
// their timestamp shows it.
func (to collection) addReading(s v1.Status) {
	to.addGauge(
		"status_timestamp_seconds",
		"When the status was read, in seconds since 1970, by the clock of the API server.",
		float64(s.Time.Unix()),
	)
	to.addGauge(
		"read_errors",
		"Kinds of objects that could not be read: the other series may lack what they say.",
		float64(len(s.NotRead)),
	)
	blockers := countBy(levels, s.Health, func(b v1.Blocker) string { return b.Level })
	to.addGauges("blockers", "Things that stand in the way or have to be known, by level.", "level", blockers)
}

// addState adds how the migration stands. Where none is under way or done, the operator's series are left out.
func (to collection) addState(s v1.Status, part hosted.Part) {
	in := map[string]float64{}
	for _, state := range states {
		in[state] = oneIf(state == s.State)
	}
	to.addGauges("state", "1 for the state that the migration is in, 0 for all others.", "state", in)
	phase := phaseOf(s, part)
	if phase == "" {
		return
	}
	to.addGauges(
		"phase",
		"1 for the phase that a cluster is in; a cluster has one series.",
		"phase",
		map[string]float64{phase: 1},
	)
	to.addFlag(
		"stuck",
		"1 when the phase of a cluster takes longer than it may; clusters that need no migration have no series.",
		isStuck(s),
	)
}

// addRun adds how far a run is.
func (to collection) addRun(s v1.Status) {
	to.addGauge("steps_done", "Steps of the migration, or of its rollback, that are done.", float64(s.StepsDone))
	to.addGauge("steps_total", "Steps of the migration, or of its rollback.", float64(s.StepsTotal))
	nodes := countBy(nodeStates, s.Nodes, func(n v1.NodeStatus) string { return n.State })
	to.addGauges("nodes", "Hosts and nodes that steps are about, by state.", "state", nodes)
	if at := lastProgress(s); !at.IsZero() {
		to.addGauge(
			"progress_timestamp_seconds",
			"When the newest step under way was started, or the migration ended, in seconds since 1970; none between steps.",
			float64(at.Unix()),
		)
	}
	to.addFlag("pause_requested", "1 when a user or the run itself has asked for a pause.", s.Paused != nil)
	to.addFlag("last_error", "1 when the last step that was tried ended with an error.", s.LastError != "")
	to.addFlag(
		"untrusted",
		"1 when the journal is not what a migration writes: no command goes on with it.",
		s.Untrusted != "",
	)
}

// addPlan adds what the plan was made with, and how long its phases take. IDs of steps are no labels: they hold names
// of hosts.
func (to collection) addPlan(s v1.Status) {
	findings := to.addVector("finding", "1 for a finding that did not pass when the plan was made.", "code", "level")
	for _, c := range check.All() {
		if slices.ContainsFunc(s.Findings, func(f v1.PlanFinding) bool { return f.Code == c.Code }) {
			findings.WithLabelValues(c.Code, c.Level).Set(1)
		}
	}
	times := to.addVector(
		"plan_phase_duration_seconds",
		"Seconds for which a phase of the plan was executed, without pauses and stops; none for a phase that was not begun.",
		"phase",
		"result",
	)
	for _, of := range s.SectionTimes {
		if slices.Contains(planstep.Phases, of.Section) && slices.Contains(sectionResults, of.Result) {
			times.WithLabelValues(of.Section, string(of.Result)).Set(of.Seconds)
		}
	}
}

// addLock adds who is alive. Without a lock, or the right to read it, there are no series.
func (to collection) addLock(l *v1.LockStatus) {
	if l == nil {
		return
	}
	to.addGauge(
		"lock_age_seconds",
		"Seconds since the process that executes the migration renewed its lock, when the status was read.",
		l.AgeSeconds,
	)
	to.addFlag(
		"lock_expired",
		"1 when the lock was not renewed for longer than it lasts: its holder has ended, is frozen, or does not reach the API server.",
		l.Expired,
	)
}

// addOwners adds which manager may run which loop. The managers' own series have another name: under theirs each owner
// would count twice, and the alert on two owners would fire.
func (to collection) addOwners(s v1.Status, part hosted.Part) {
	owners := to.addVector(
		"loop_owner",
		"1 for the manager that owns a loop, as far as the API shows it; all are 0 where no manager may run it.",
		"name",
		"manager",
	)
	for loop, owner := range s.Owners {
		if !wording.LoopNames[loop] {
			continue // the steps of a journal may name anything
		}
		by, _, _ := strings.Cut(owner, "@")
		isKnown := by == status.NoOwner
		for _, manager := range managers {
			owners.WithLabelValues(loop, manager).Set(oneIf(by == manager))
			isKnown = isKnown || by == manager
		}
		owners.WithLabelValues(loop, unknownManager).Set(oneIf(!isKnown))
	}
	if part == "" || len(s.OwnersFrom) == 0 {
		return // leases show one owner at most: a 0 would deny what was not asked
	}
	two := countBy([]v1.BlockerCode{v1.BlockerTwoOwners}, s.Health, func(b v1.Blocker) v1.BlockerCode { return b.Code })
	to.addGauge(
		"second_owners",
		"Managers that run a loop which another one runs, too; none where managers were not asked.",
		two[v1.BlockerTwoOwners],
	)
}

// addProbes adds for how long clients had no answer, by kind of path: names of paths are those of Services and hosts.
// Where no probe runs there are no series, since nothing is known then.
func (to collection) addProbes(totals *v1.ProbeTotals) {
	if totals = probe.KnownTotals(totals); totals == nil {
		return
	}
	if totals.BudgetSeconds != nil {
		to.addGauge(
			"probe_budget_seconds",
			"The longest outage that a path may have, as the run was told; none where it was not.",
			*totals.BudgetSeconds,
		)
	}
	paths := to.addVector("probe_paths", "Paths of clients that were probed, by kind.", "kind")
	outages := to.addVector(
		"probe_outage_seconds",
		"Seconds without an answer over the probed paths of a kind: the longest outage of one, and all outages of all.",
		"kind",
		"span",
	)
	for _, of := range totals.Kinds {
		paths.WithLabelValues(of.Kind).Set(float64(of.Paths))
		outages.WithLabelValues(of.Kind, "longest").Set(of.LongestSeconds)
		outages.WithLabelValues(of.Kind, "total").Set(of.TotalSeconds)
	}
}

// countBy returns how many things have each value of a label. One with another value is left out: values are of a
// list, so that a cluster cannot add to it.
func countBy[T any, V ~string](values []V, things []T, valueOf func(T) V) map[V]float64 {
	out := map[V]float64{}
	for _, v := range values {
		out[v] = 0
	}
	for _, thing := range things {
		v := valueOf(thing)
		if _, isListed := out[v]; isListed {
			out[v]++
		}
	}
	return out
}

// lastProgress is when the newest step under way was started, or the run ended; zero where a status does not say.
func lastProgress(s v1.Status) time.Time {
	if s.State == v1.StateApplied || s.State == v1.StateRolledBack {
		return s.Started.Add(time.Duration(s.ElapsedSeconds * float64(time.Second)))
	}
	if len(s.Current) == 0 {
		return time.Time{}
	}
	newest := s.Current[0].SinceSeconds
	for _, step := range s.Current {
		newest = min(newest, step.SinceSeconds)
	}
	return s.Time.Add(-time.Duration(newest * float64(time.Second)))
}
