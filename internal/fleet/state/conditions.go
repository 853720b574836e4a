package state

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/component"
)

// Owned are the types of the conditions that only this program writes.
func Owned() []kubermaticv1.ClusterConditionType {
	return []kubermaticv1.ClusterConditionType{
		kubermaticv1.ConditionMigration,
		kubermaticv1.ConditionCSIKubeletMigrationCompleted,
		kubermaticv1.ConditionLoopsOff,
		kubermaticv1.ConditionCCMReady,
		kubermaticv1.ConditionCSIReady,
		kubermaticv1.ConditionMachines,
		kubermaticv1.ConditionStuck,
	}
}

// debounce is how many looks may fail, one after the other, before a condition becomes Unknown.
const debounce = 3

type conditionMap = map[kubermaticv1.ClusterConditionType]kubermaticv1.ClusterCondition

// conditionSet are the conditions of a cluster as they are being decided, by what was observed.
type conditionSet struct {
	conditionMap
	*Observation
	limits Limits
}

// conditions are all conditions as they should be in the phase.
func (j *judge) conditions(d Decision) conditionMap {
	set := conditionSet{conditionMap{}, &j.Observation, j.limits}
	phase := status(d.Phase == kubermaticv1.PhaseCompleted || d.Phase == kubermaticv1.PhaseNotNeeded)
	set.setCondition(kubermaticv1.ConditionMigration, phase, d.Phase, d.Message)
	if d.Phase == kubermaticv1.PhaseNotNeeded {
		return set.conditionMap
	}
	migrated := kubermaticv1.ConditionCSIKubeletMigrationCompleted
	if d.Phase == kubermaticv1.PhaseCompleted {
		set.setCondition(
			migrated,
			corev1.ConditionTrue,
			kubermaticv1.ReasonMigrationSuccess,
			kubermaticv1.MessageMigrationSuccess,
		)
	} else {
		set.setCondition(
			migrated,
			corev1.ConditionFalse,
			kubermaticv1.ReasonMigrationInProgress,
			kubermaticv1.MessageMigrationInProgress,
		)
	}
	set.owners()
	set.csi()
	set.machinesMigrated()
	if left := set.stuck(d.Phase); left > 0 {
		j.alarm.in(left)
	}
	return set.conditionMap
}

// setCondition writes a condition, with the time of its transition. For ConditionMigration a change of phase is one.
func (set *conditionSet) setCondition(
	t kubermaticv1.ClusterConditionType,
	s corev1.ConditionStatus,
	reason, message string,
) {
	now := metav1.NewTime(set.Now.Truncate(time.Second))
	if message = shorten(message); message == "" { // a merge patch cannot tell an empty one from one that is left as it is
		message = reason
	}
	was, ok := set.Cluster.Status.Conditions[t]
	if last := lastKnown(was); s == corev1.ConditionUnknown && last != corev1.ConditionUnknown {
		message = shorten(wasBefore + string(last) + "; " + message)
	}
	if ok && was.Status == s && was.Reason == reason && was.Message == message && !was.LastTransitionTime.IsZero() {
		set.conditionMap[t] = was
		return
	}
	c := kubermaticv1.ClusterCondition{
		Status:             s,
		Reason:             reason,
		Message:            message,
		KubermaticVersion:  set.limits.Version,
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	}
	same := ok && was.Status == s && !was.LastTransitionTime.IsZero()
	if same && (t != kubermaticv1.ConditionMigration || was.Reason == reason) {
		c.LastTransitionTime = was.LastTransitionTime
	}
	set.conditionMap[t] = c
}

// wasBefore begins the message of a condition that has become Unknown, and says what it was until then.
const wasBefore = "was "

// lastKnown is the status of a condition at the last look that saw something; Unknown when there was none. It is kept
// in the condition, so that an operator that starts meanwhile does not take for news what was told before.
func lastKnown(c kubermaticv1.ClusterCondition) corev1.ConditionStatus {
	if c.Status != corev1.ConditionUnknown && c.Status != "" {
		return c.Status
	}
	for _, s := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		if strings.HasPrefix(c.Message, wasBefore+string(s)+"; ") {
			return s
		}
	}
	return corev1.ConditionUnknown
}

// retain leaves a condition as it is, if it is there.
func (set *conditionSet) retain(t kubermaticv1.ClusterConditionType) {
	if was, ok := set.Cluster.Status.Conditions[t]; ok {
		set.conditionMap[t] = was
	}
}

// handleUnseen settles conditions about what the last look did not see: they stay as they are for some looks that fail,
// and become Unknown then. False where it was seen.
func (set *conditionSet) handleUnseen(s Seen, conditions ...kubermaticv1.ClusterConditionType) bool {
	keep := !hasAnswer(s) || s.Error != "" && s.Failures < debounce
	if !keep && s.Error == "" {
		return false
	}
	for _, t := range conditions {
		if keep {
			set.retain(t)
		} else {
			set.setCondition(t, corev1.ConditionUnknown, ReasonUnknown, s.Error)
		}
	}
	return true
}

func (set *conditionSet) owners() {
	loops, ccm := kubermaticv1.ConditionLoopsOff, kubermaticv1.ConditionCCMReady
	o := set.Owners
	if set.handleUnseen(o.Seen, loops, ccm) {
		return
	}
	switch {
	case len(o.Twice) > 0:
		set.setCondition(loops, corev1.ConditionFalse, ReasonTwoOwners, o.sentence())
	case len(o.InTree) > 0:
		set.setCondition(loops, corev1.ConditionFalse, ReasonWaiting, o.sentence())
	case len(o.Unsure) > 0:
		set.setCondition(loops, corev1.ConditionUnknown, ReasonUnknown, strings.Join(o.Unsure, "; "))
	default:
		set.setCondition(loops, corev1.ConditionTrue, ReasonObserved, "no kube-controller-manager runs a cloud loop"+o.unseen())
	}
	if o.AllExternal() {
		set.setCondition(
			ccm,
			corev1.ConditionTrue,
			ReasonObserved,
			"a cloud-controller-manager runs "+strings.Join(o.External, ", ")+o.unseen(),
		)
	} else {
		set.setCondition(ccm, corev1.ConditionFalse, ReasonWaiting, o.sentence())
	}
}

// hasAnswer reports whether there is an answer, good or bad.
func hasAnswer(s Seen) bool { return !s.At.IsZero() && (s.Known || s.Error != "") }

func (set *conditionSet) csi() {
	t, p := kubermaticv1.ConditionCSIReady, set.Parts
	switch {
	case set.handleUnseen(p.Seen, t):
	case set.Cluster.Spec.CSIDriverDisabled():
		set.setCondition(t, status(p.CSIReady), ReasonNotWanted, p.CSI)
	case p.CSIReady:
		set.setCondition(t, corev1.ConditionTrue, ReasonObserved, p.CSI)
	default:
		set.setCondition(t, corev1.ConditionFalse, ReasonWaiting, p.CSI)
	}
}

func (set *conditionSet) machinesMigrated() {
	t, m := kubermaticv1.ConditionMachines, set.Machines
	condition := set.Cluster.Status.Conditions[kubermaticv1.ConditionCSIKubeletMigrationCompleted]
	completed := condition.Status == corev1.ConditionTrue
	switch {
	case set.handleUnseen(m.Seen, t):
	case m.Regression != "":
		set.setCondition(t, corev1.ConditionFalse, ReasonRegression, m.Regression)
	case m.Done:
		set.setCondition(t, corev1.ConditionTrue, ReasonObserved, m.sentence())
	case completed:
		set.setCondition(t, corev1.ConditionFalse, ReasonNotExternal, m.sentence())
	default:
		set.setCondition(t, corev1.ConditionFalse, ReasonWaiting, m.sentence())
	}
}

// stuck says whether the phase takes longer than it may. A phase that is just beginning has all of its time. It returns
// how much is left.
func (set *conditionSet) stuck(phase string) (left time.Duration) {
	limit, migration := set.limits.phaseLimit(phase), set.conditionMap[kubermaticv1.ConditionMigration]
	since := migration.LastTransitionTime.Time
	if phase == kubermaticv1.PhaseMachines && set.Machines.Moved.After(since) {
		since = set.Machines.Moved
	}
	taken := set.Now.Sub(since)
	switch {
	case phase == kubermaticv1.PhaseMachines && set.Machines.Regression != "":
		set.setCondition(kubermaticv1.ConditionStuck, corev1.ConditionTrue, ReasonRegression, migration.Message)
		return 0
	case set.Run.Active && set.Run.Paused != "":
		set.setCondition(kubermaticv1.ConditionStuck, corev1.ConditionTrue, ReasonPaused, migration.Message)
		return 0
	case limit > 0 && taken >= limit:
		set.setCondition(
			kubermaticv1.ConditionStuck,
			corev1.ConditionTrue,
			ReasonTooLong,
			fmt.Sprintf("%s takes longer than %s: %s", phase, limit, migration.Message),
		)
		return 0
	}
	set.setCondition(kubermaticv1.ConditionStuck, corev1.ConditionFalse, ReasonInTime, "the phase takes no longer than it may")
	return limit - taken
}

// phaseLimit is how long a phase may take; 0 is for ever.
func (l Limits) phaseLimit(phase string) time.Duration {
	return map[string]time.Duration{
		kubermaticv1.PhaseQueued:     l.StuckQueued,
		kubermaticv1.PhaseBlocked:    l.StuckBlocked,
		kubermaticv1.PhaseHandover:   l.StuckHandover,
		kubermaticv1.PhaseComponents: l.StuckComponents,
		kubermaticv1.PhaseMachines:   l.StuckMachines,
		kubermaticv1.PhaseFinish:     l.StuckFinish,
	}[phase]
}

func status(is bool) corev1.ConditionStatus {
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// maxMessage is how many bytes a message may have: it is written at every change, for each of many clusters.
const maxMessage = 1024

// shorten cuts a message between two characters.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage - len("...")
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "..."
}

func joinNotes(message string, notes []string) string {
	return strings.Join(append([]string{message}, notes...), "; ")
}

// sentence says who runs which loop.
func (o Owners) sentence() string {
	var out []string
	for _, l := range []struct {
		loops []string
		by    string
	}{{o.Twice, "two managers"}, {o.InTree, component.KCM}, {o.External, "the cloud-controller-manager"}, {o.Unowned, "nobody"}} {
		if len(l.loops) > 0 {
			out = append(out, l.by+" runs "+strings.Join(l.loops, ", "))
		}
	}
	return strings.Join(append(out, o.Unsure...), "; ") + o.unseen()
}

// unseen says what was not observed but concluded.
func (o Owners) unseen() string {
	if len(o.ByLease) == 0 {
		return ""
	}
	return " (of " + strings.Join(o.ByLease, ", ") + " by the lease and the flags: the manager does not say what it runs)"
}

// sentence counts the machines and says what is wrong with the others.
func (m Machines) sentence() string {
	out := fmt.Sprintf("%d of %d machines are external", m.Migrated, m.Total)
	if m.Deleting > 0 {
		out += fmt.Sprintf(", %d are being deleted", m.Deleting)
	}
	if len(m.Reasons) > 0 {
		out += ": " + strings.Join(m.Reasons, "; ")
	}
	if m.More > 0 {
		out += fmt.Sprintf("; and %d more", m.More)
	}
	return out
}
