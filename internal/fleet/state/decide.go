package state

import (
	"strings"
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// judge looks at one observation by all rules.
type judge struct {
	Observation
	limits Limits
	// prior is the phase that was last written, and since is when the cluster entered it.
	prior string
	since time.Time
	work  Work
	alarm alarm
	// notes are what is wrong with the Cluster although its migration is carried on.
	notes []string
}

// verdict is a phase and what is waited for in it.
type verdict struct{ phase, message string }

// rule gives the verdict, or leaves it to the next one.
type rule func(*judge) (verdict, bool)

// rules are asked in this order, and the first verdict counts.
var rules = []rule{
	(*judge).latched,      // a cluster that was completed stays so
	(*judge).off,          // the feature is off: not needed, or switched off too late
	(*judge).withoutPlane, // nothing is decided about a control plane that was not read
	(*judge).external,     // the feature was never off
	(*judge).unread,       // nothing is decided before the journals are read
	(*judge).paused,       // a person, or the absence of the control plane, stops even a handover
	(*judge).goingBack,    // a rollback goes on to its end
	(*judge).held,         // a person does not want it to begin, or intervenes after a failure
	(*judge).wentBack,     // what was rolled back stays so until an administrator intervenes
	(*judge).refused,      // the object is not one that may be migrated
	(*judge).judgeFailure, // failed stays failed until an administrator intervenes
	(*judge).handover,     // the cloud loops change hands
	(*judge).components,   // what makes machines learns that they are external
	(*judge).machines,     // they are replaced
	(*judge).finish,       // what was kept for old ones goes
}

// Decide says how the cluster's migration stands and what is to be done next.
func Decide(o Observation, limits Limits) Decision {
	before := o.Cluster.Status.Conditions
	j := &judge{Observation: o, limits: limits, alarm: alarm{now: o.Now, rarest: limits.MaxRetry}}
	if c, ok := before[kubermaticv1.ConditionMigration]; ok {
		j.prior, j.since = c.Reason, c.LastTransitionTime.Time
	}
	// by the journal: a run that has only told of a step may not have written down that it was begun
	unconfirm := j.isConfirmationUsed()
	if o.Run.Active && o.Run.Number > 0 { // the journal that was read before it began says less
		j.noteBegun(o.Run.Part)
	}
	v := j.decide()
	j.complement(v)
	j.work.Unconfirm = unconfirm
	d := Decision{Phase: v.phase, Message: shorten(joinNotes(v.message, j.notes)), Work: j.work}
	d.Conditions = j.conditions(d)
	d.Events = events(before, d.Conditions)
	d.Wake = j.alarm.wake
	return d
}

// isConfirmationUsed reports whether the plan that a person confirmed was begun, so that the annotation has to go. As
// long as the journal holds another plan, the annotation may be what approves of it.
func (j *judge) isConfirmationUsed() bool {
	confirmation, confirmed := j.Cluster.Annotations[kubermaticv1.AnnotationPlan]
	if !confirmed || !j.hasStarted() {
		return false
	}
	sum, _, _ := strings.Cut(confirmation, " ")
	noted := j.Cluster.Status.Conditions[kubermaticv1.ConditionPlan].Message
	return j.Journal.Handover == Done || sum == "" || strings.Contains(noted, "="+sum+".")
}

func (j *judge) decide() verdict {
	for _, r := range rules {
		if v, ok := r(j); ok {
			return v
		}
	}
	j.work, j.alarm.wake = Work{}, 0
	return verdict{kubermaticv1.PhaseCompleted, "the control plane and all machines are external"}
}

// complement adds the work that follows from a phase alone.
func (j *judge) complement(v verdict) {
	switch v.phase {
	case kubermaticv1.PhaseQueued,
		kubermaticv1.PhaseHandover,
		kubermaticv1.PhaseComponents,
		kubermaticv1.PhaseMachines,
		kubermaticv1.PhaseFinish:
		j.work.Annotate = !j.isAnnotated() && !j.wasCreatedExternal() && j.wantsExternal() && len(j.Refusals) == 0
	case kubermaticv1.PhaseNotNeeded, kubermaticv1.PhaseHeld:
		// a run that was told to stop finishes its step through these connections
		j.work.Close, j.work.Forget = !j.Run.Active, true
	case kubermaticv1.PhaseCompleted:
		j.work.Close = !j.Run.Active
	}
}

func (j *judge) noteBegun(p Part) {
	j.Journal.Known = true
	switch {
	case p == Finish:
		j.Journal.Handover, j.Journal.Finish = Done, Begun
	case !j.Run.Back:
		j.Journal.Handover, j.Journal.Install = Begun, p == Install
	}
}

func (j *judge) wantsExternal() bool {
	return j.Cluster.Spec.Features[kubermaticv1.FeatureExternalCloudProvider]
}

func (j *judge) isAnnotated() bool {
	_, ok := j.Cluster.Annotations[kubermaticv1.CCMMigrationNeeded]
	return ok
}

// isHalfway reports whether a part was begun and is not done.
func (j *judge) isHalfway() bool { return j.Journal.Handover == Begun || j.Journal.Finish == Begun }

// hasStarted reports whether something in the control plane was changed and has not been rolled back.
func (j *judge) hasStarted() bool {
	return j.Journal.Handover != NotBegun && j.Journal.Handover != RolledBack
}

// wasCreatedExternal reports whether the cluster was external from the start: there is nothing to migrate, and its
// cloud-controller-manager is installed. Once something was begun, its journal says so; before that, the flags of
// kube-controller-manager do.
func (j *judge) wasCreatedExternal() bool {
	if j.Journal.Known && j.Journal.Handover != NotBegun {
		return j.Journal.Install
	}
	return j.Plane.Known && j.Plane.InTree == "" && !j.isAnnotated()
}

// keepPhase is the verdict for what is not known: the phase stays.
func (j *judge) keepPhase(fallback, message string) (verdict, bool) {
	if j.prior == "" {
		return verdict{fallback, message}, true
	}
	return verdict{j.prior, message}, true
}

// alarm is when the next decision is asked for.
type alarm struct {
	now    time.Time
	rarest time.Duration // between two looks that fail
	wake   time.Duration // 0 for none
}

// in asks for another decision after d at the latest.
func (a *alarm) in(d time.Duration) {
	d = max(d, time.Second)
	if a.wake == 0 || d < a.wake {
		a.wake = d
	}
}

// isDue reports whether something that was seen then has to be looked at again; if not yet, it is asked for later.
// Looks that fail become rarer.
func (a *alarm) isDue(s Seen, every time.Duration) bool {
	if s.At.IsZero() {
		return true
	}
	next := s.At.Add(backoff(every, s.Failures+1, max(every, a.rarest)))
	if !a.now.Before(next) {
		a.in(every)
		return true
	}
	a.in(next.Sub(a.now))
	return false
}

// backoff is the wait after the n-th try of a kind: twice as long each time.
func backoff(first time.Duration, n int, limit time.Duration) time.Duration {
	d := first
	for range n - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
