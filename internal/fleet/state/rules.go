package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

const (
	offTooLate = "the feature externalCloudProvider was switched off after the migration had started, which has no effect; switch it on again, or take the " +
		"handover back with transplant rollback"
	tryAgain = "to try again: kubectl annotate cluster NAME " + kubermaticv1.AnnotationHold + "=retry, then the same with " + kubermaticv1.AnnotationHold + "-"
)

func (j *judge) latched() (verdict, bool) {
	if j.Cluster.Status.Conditions[kubermaticv1.ConditionCSIKubeletMigrationCompleted].Status != corev1.ConditionTrue {
		return verdict{}, false
	}
	// the original's controllers run next to, and know nothing of it: perhaps no manager owns the loops now
	if j.Journal.Known && j.Journal.Handover == Begun {
		return verdict{}, false
	}
	if j.Cluster.DeletionTimestamp == nil && !j.Cluster.Spec.Pause && !j.isHibernated() {
		j.work.Machines = j.limits.Audit > 0 && j.alarm.isDue(j.Machines.Seen, j.limits.Audit)
		j.work.Token = j.limits.Renew > 0 && j.alarm.isDue(j.Token, j.limits.Renew)
	}
	message := kubermaticv1.MessageMigrationSuccess
	switch {
	case !j.wantsExternal():
		message += "; the feature externalCloudProvider was switched off since, which takes nothing back"
	case j.Machines.Known && !j.Machines.Done:
		message += fmt.Sprintf("; %d of %d machines are not external any more: see %s",
			j.Machines.Total-j.Machines.Migrated, j.Machines.Total, kubermaticv1.ConditionMachines)
	}
	return verdict{kubermaticv1.PhaseCompleted, message}, true
}

func (j *judge) off() (verdict, bool) {
	if j.wantsExternal() {
		return verdict{}, false
	}
	notNeeded := verdict{kubermaticv1.PhaseNotNeeded, "the feature externalCloudProvider is off"}
	if !j.isAnnotated() && !slices.Contains(touched, j.prior) {
		return notNeeded, true
	}
	if !j.Journal.Known {
		return j.unread()
	}
	if !j.hasStarted() {
		j.work.Stop = true
		return notNeeded, true
	}
	if v, ok := j.paused(); ok {
		return v, true
	}
	if j.isHalfway() || j.Journal.Handover == RollingBack {
		j.notes = append(j.notes, offTooLate)
		return verdict{}, false
	}
	return verdict{kubermaticv1.PhaseBlocked, offTooLate}, true
}

// withoutPlane waits while nothing is known of the Deployments of the control plane. The next answer may say that the
// operator may not read them, or that the control plane is scaled to zero. Where the operator has no rights, a person
// has to give them.
func (j *judge) withoutPlane() (verdict, bool) {
	switch {
	case j.Plane.Known:
		return verdict{}, false
	case j.Plane.Refused == "":
		return j.keepPhase(kubermaticv1.PhaseQueued, "the Deployments of the seed are being read")
	case slices.Contains(touched, j.prior):
		return verdict{j.prior, j.Plane.Refused}, true
	}
	return verdict{kubermaticv1.PhaseBlocked, j.Plane.Refused}, true
}

// touched are the phases in which, or behind which, a control plane may have been changed.
var touched = []string{
	kubermaticv1.PhaseHandover,
	kubermaticv1.PhaseComponents,
	kubermaticv1.PhaseMachines,
	kubermaticv1.PhaseFinish,
	kubermaticv1.PhaseFailed,
	kubermaticv1.PhaseHeld,
	kubermaticv1.PhaseBlocked,
}

// external leaves clusters alone that were made external and belong to another program. A cluster whose enabling the
// mutating webhook did not see runs an in-tree provider, and is migrated.
func (j *judge) external() (verdict, bool) {
	changed := slices.Contains(touched, j.prior)
	switch {
	case j.isAnnotated():
		return verdict{}, false
	case !j.wasCreatedExternal(), j.Journal.Known && j.Journal.Handover != NotBegun, !j.Journal.Known && changed:
		return verdict{}, false
	case !j.Installs:
		return verdict{kubermaticv1.PhaseNotNeeded, notInstalled}, true
	case j.Plane.Foreign != "":
		return verdict{kubermaticv1.PhaseNotNeeded, fmt.Sprintf(foreignManager, j.Plane.Foreign)}, true
	}
	return verdict{}, false
}

const (
	notInstalled   = "the cluster has no in-tree cloud provider, and transplant-operator installs no cloud-controller-manager for its provider"
	foreignManager = "the cluster has no in-tree cloud provider, and Deployment %s, which transplant-operator did not make, runs its cloud-controller-manager; " +
		"the cluster is left to the program that made it"
)

func (j *judge) unread() (verdict, bool) {
	if j.Journal.Known {
		return verdict{}, false
	}
	seen := Seen{At: j.Journal.At}
	j.work.Journal = j.alarm.isDue(seen, j.limits.Look)
	message := "it is being read how far the migration is"
	if j.Journal.Error != "" {
		message = "how far the migration is cannot be read from the seed: " + j.Journal.Error
	}
	return j.keepPhase(kubermaticv1.PhaseQueued, message)
}

func (j *judge) isHibernated() bool {
	kas, kcm := j.Plane.Apiserver, j.Plane.ControllerManager
	return j.Plane.Known &&
		(kas != nil && kas.Desired == 0 || kcm != nil && kcm.Desired == 0 && !j.isHalfway() && !j.Run.Active)
}

func (j *judge) paused() (verdict, bool) {
	var why string
	switch {
	case j.Cluster.Spec.Pause:
		why = "spec.pause is set"
		if j.Cluster.Spec.PauseReason != "" {
			why += ": " + j.Cluster.Spec.PauseReason
		}
	case j.isHibernated():
		why = "the cluster is hibernated: its control plane is scaled to zero"
	default:
		return verdict{}, false
	}
	j.work.Stop = true
	return verdict{kubermaticv1.PhaseHeld, j.warned(why)}, true
}

func (j *judge) goingBack() (verdict, bool) {
	if j.Journal.Handover != RollingBack {
		return verdict{}, false
	}
	j.run(Handover, true)
	// no operator has started it here, or it may not go on
	if j.Run.Outcome == Blocked && (!j.Run.Active || j.Run.Number == 0) {
		return verdict{kubermaticv1.PhaseBlocked, j.Run.Message}, true
	}
	return verdict{kubermaticv1.PhaseFailed, j.told("the handover is being taken back")}, true
}

func (j *judge) wentBack() (verdict, bool) {
	released := slices.Contains(freshlyReleased, j.prior) && !j.wasRolledBackByHand()
	if j.Journal.Handover != RolledBack || released {
		return verdict{}, false
	}
	return verdict{
		kubermaticv1.PhaseFailed,
		j.because("the handover was taken back, and the control plane is as before") + "; " + tryAgain,
	}, true
}

// wasRolledBackByHand reports whether an administrator rolled back a handover of the operator while the cluster was
// blocked. The operator forgets what it takes back itself.
func (j *judge) wasRolledBackByHand() bool {
	noted := j.Cluster.Status.Conditions[kubermaticv1.ConditionPlan]
	begun := slices.ContainsFunc(strings.Fields(noted.Message), func(word string) bool {
		return strings.HasPrefix(word, string(Handover)+"=")
	})
	return j.prior == kubermaticv1.PhaseBlocked && noted.Status == corev1.ConditionTrue && begun
}

// freshlyReleased are the phases from which a cluster that was rolled back is tried again: a user held it or switched
// the feature off since.
var freshlyReleased = []string{
	kubermaticv1.PhaseHeld,
	kubermaticv1.PhaseQueued,
	kubermaticv1.PhaseBlocked,
	kubermaticv1.PhaseNotNeeded,
}

// judgeAgain is when a Cluster that was refused is judged again although it has not changed. What the seed says of its
// datacenter may have.
const judgeAgain = time.Minute

func (j *judge) refused() (verdict, bool) {
	var reasons []string
	deleted := j.Cluster.DeletionTimestamp != nil
	if deleted {
		reasons = append(reasons, "the Cluster is being deleted")
	}
	if len(j.Groups) > 1 {
		reasons = append(
			reasons,
			fmt.Sprintf(
				"there are Clusters of this name under %s, for one control plane: to delete one may delete that; see Two groups in docs/explanation/fleet-operator.md",
				strings.Join(j.Groups, " and "),
			),
		)
	}
	reasons = append(reasons, j.Refusals...)
	if len(reasons) == 0 {
		return verdict{}, false
	}
	if j.isHalfway() {
		j.notes = append(j.notes, reasons...)
		return verdict{}, false
	}
	j.work.Stop = true
	if deleted {
		return verdict{kubermaticv1.PhaseHeld, strings.Join(reasons, "; ")}, true
	}
	if len(j.Refusals) > 0 {
		j.alarm.in(judgeAgain)
	}
	if j.Unjudged && len(j.Groups) <= 1 && slices.Contains(touched, j.prior) {
		return verdict{j.prior, strings.Join(reasons, "; ")}, true
	}
	return verdict{kubermaticv1.PhaseBlocked, strings.Join(reasons, "; ")}, true
}

func (j *judge) judgeFailure() (verdict, bool) {
	if !j.hasExhaustedRetries() && (j.prior != kubermaticv1.PhaseFailed || j.wasDoneByHand()) {
		return verdict{}, false
	}
	j.work.Journal = j.alarm.isDue(Seen{At: j.Journal.At}, j.limits.MaxRetry)
	message := "a step failed for good"
	if j.Journal.Handover == Begun {
		j.work.Owners = j.alarm.isDue(j.Owners.Seen, j.limits.Look)
		if j.mayGoBack() {
			j.run(Handover, true)
			return verdict{
				kubermaticv1.PhaseFailed,
				j.told(j.because("the handover failed before the cloud-controller-manager ran a loop, and is being taken back")),
			}, true
		}
		message = "the handover failed for good, and it is being looked whether a cloud-controller-manager runs a loop; if none does, it is taken back"
		if len(j.Owners.External)+len(j.Owners.Twice) > 0 && !j.Owners.At.Before(j.Run.Ended) {
			message = "the handover failed for good, and is not taken back because a cloud-controller-manager runs " +
				strings.Join(append(slices.Clone(j.Owners.Twice), j.Owners.External...), ", ")
		} else if j.Run.Outcome == NoWayBack {
			message = "the handover failed for good, and cannot be taken back"
		} else if len(j.Owners.Unsure) > 0 {
			message += "; so far, " + strings.Join(j.Owners.Unsure, "; ")
		}
	}
	return verdict{kubermaticv1.PhaseFailed, j.because(message) + "; " + tryAgain}, true
}

// wasDoneByHand reports whether what failed was done since, by hand.
func (j *judge) wasDoneByHand() bool {
	return j.Journal.Handover == Done && j.Journal.Finish != Begun
}

// mayGoBack reports whether it was observed after the failure that no cloud-controller-manager runs a loop.
func (j *judge) mayGoBack() bool {
	o := j.Owners
	return o.Known && o.Error == "" && len(o.Unsure) == 0 && len(o.External)+len(o.Twice) == 0 &&
		!o.At.Before(j.Run.Ended) &&
		j.Run.Outcome != NoWayBack
}

// held keeps a migration from beginning. One that was begun is held only after it has failed, which is how it is tried
// again.
func (j *judge) held() (verdict, bool) {
	who, ok := j.Cluster.Annotations[kubermaticv1.AnnotationHold]
	intervened := !j.Run.Active &&
		(j.prior == kubermaticv1.PhaseFailed || j.prior == kubermaticv1.PhaseHeld || j.hasExhaustedRetries())
	if !ok || j.hasStarted() && !intervened {
		return verdict{}, false
	}
	j.work.Stop = true
	why := "held by the annotation " + kubermaticv1.AnnotationHold
	if who != "" {
		why += ": " + who
	}
	return verdict{kubermaticv1.PhaseHeld, j.warned(why)}, true
}

// warned adds that a handover must not be left in its middle.
func (j *judge) warned(why string) string {
	if j.Journal.Handover != Begun {
		return why
	}
	return why + ". The handover is not finished, so perhaps no manager runs the cloud loops: do not leave it like this"
}

// hasExhaustedRetries reports whether a part was tried as often as it may be.
func (j *judge) hasExhaustedRetries() bool {
	return j.limits.MaxFailures > 0 && j.Run.Failures >= j.limits.MaxFailures && !j.Run.Active &&
		j.Run.Outcome != Succeeded
}
