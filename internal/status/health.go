package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// Levels of a Blocker, the worst first.
const (
	levelError   = "error"
	levelWarning = "warning"
	levelInfo    = "info"
)

// Impacts of a Blocker.
const (
	onMigration     = "migration"
	onNodes         = "nodes"
	onControlPlane  = "control plane"
	onLoops         = "cloud loops"
	onLoadBalancers = "load balancers"
)

const (
	// lockIsLate is after how many renewals that did not come a word is said of it.
	lockIsLate = 3
	// podIsLate is how long a pod of the control plane may be unready before it is worth a word: a restart takes that
	// long.
	podIsLate = 90 * time.Second
	// recent is how long an event counts as something that is so now.
	recent = 10 * time.Minute
	// namesAtMost is how many names are in a sentence.
	namesAtMost = 3
)

// health is what stands in the way of a run, the worst first.
func health(f Facts, s v1.Status) []v1.Blocker {
	out := slices.Concat(
		lockHealth(s), standstill(f, s), runHealth(f, s), nodeHealth(f), podHealth(f), leaseHealth(f, s), eventHealth(f),
		f.Health,
	)
	if d := f.skew(); d != 0 && s.Lock != nil {
		out = append(out, v1.Blocker{
			Code: v1.BlockerClockOff, Level: levelInfo, Impact: onMigration,
			Message: fmt.Sprintf(
				"the clock of %s differs from the API server's by %s; times of the run are corrected by that",
				cmp.Or(s.Lock.Host, s.Lock.Holder),
				d.Abs(),
			),
		})
	}
	levels := []string{levelError, levelWarning, levelInfo}
	slices.SortStableFunc(out, func(a, b v1.Blocker) int {
		return cmp.Or(
			cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)),
			cmp.Compare(age(b), age(a)),
			strings.Compare(a.Message, b.Message),
		)
	})
	if s.Untrusted != "" { // all else here is said of a journal that may be made up
		return slices.Insert(out, 0, v1.Blocker{
			Code: v1.BlockerJournalUntrusted, Level: levelError, Impact: onMigration, Message: s.Untrusted,
		})
	}
	return out
}

func age(b v1.Blocker) float64 {
	if b.SinceSeconds == nil {
		return 0
	}
	return *b.SinceSeconds
}

func since(d time.Duration) *float64 {
	s := roundSeconds(max(0, d))
	return &s
}

func lockHealth(s v1.Status) []v1.Blocker {
	if s.Lock == nil || s.Lock.AgeSeconds < lockIsLate*lock.Renewal.Seconds() {
		return nil
	}
	b := v1.Blocker{
		Code:         v1.BlockerLockSilent,
		Level:        levelWarning,
		Impact:       onMigration,
		SinceSeconds: &s.Lock.AgeSeconds,
		Message: fmt.Sprintf(
			"%s has not renewed its lock for %.0fs; it does so every %.0fs",
			s.Lock.Holder,
			s.Lock.AgeSeconds,
			lock.Renewal.Seconds(),
		),
	}
	if s.Lock.Expired {
		b.Code, b.Level = v1.BlockerLockExpired, levelError
		b.Message = fmt.Sprintf(
			"%s has not renewed its lock for %.0fs: it has ended, is frozen or cannot reach the API server",
			s.Lock.Holder,
			s.Lock.AgeSeconds,
		)
	}
	return []v1.Blocker{b}
}

func runHealth(f Facts, s v1.Status) []v1.Blocker {
	var out []v1.Blocker
	if s.State == v1.StateFailed {
		out = append(out, v1.Blocker{
			Code: v1.BlockerRunFailed, Level: levelError, Impact: onMigration,
			Message: "the run ended with an error, and no process executes it",
		})
	}
	if f.Journal != nil {
		for _, h := range f.Journal.Without {
			out = append(out, v1.Blocker{
				Code:         v1.BlockerHostExcluded,
				Level:        levelWarning,
				Impact:       onNodes,
				SinceSeconds: since(f.since(h.At)),
				Message: fmt.Sprintf(
					"host %s was excluded from the run by %s: before it comes back, run kubeadm reset on it, or delete its machine",
					h.Name,
					cmp.Or(h.By, "an unknown user"),
				),
			})
		}
	}
	if s.State != v1.StateApplying && s.State != v1.StateRollingBack {
		return out
	}
	for _, step := range f.steps() {
		at := slices.IndexFunc(s.Current, func(c v1.StepStatus) bool { return c.ID == step.ID })
		if at < 0 || !f.isSlowStep(step, s.Current[at].SinceSeconds) {
			continue
		}
		took := s.Current[at].SinceSeconds
		out = append(out, v1.Blocker{
			Code:         v1.BlockerStepSlow,
			Level:        levelWarning,
			Impact:       onMigration,
			SinceSeconds: &took,
			Message:      fmt.Sprintf("step %s takes far longer than the %.0fs of the plan", step.ID, f.estimateOf(step)),
		})
	}
	return out
}

// standstill says why a run does not go on, and which loops stand still after it.
func standstill(f Facts, s v1.Status) []v1.Blocker {
	var out []v1.Blocker
	if s.State == v1.StateStopped && s.StoppedBehind == "" {
		out = append(out, v1.Blocker{
			Code: v1.BlockerRunStopped, Level: levelWarning, Impact: onMigration,
			Message: "no process executes the run: the last command was interrupted or killed",
		})
	}
	if loops := withoutOwner(s); loops != "" {
		message := "no manager holds the lease of " + loops
		if f.Owners != nil {
			message = "no manager says that it runs " + loops
		}
		out = append(out, v1.Blocker{
			Code: v1.BlockerLoopWithoutOwner, Level: levelError, Impact: onLoops, Message: message,
		})
	}
	if s.Paused != nil && f.isRunning() {
		b := v1.Blocker{
			Code: v1.BlockerPaused, Level: levelWarning, Impact: onMigration, Message: pause.Describe(*s.Paused),
		}
		if s.State == v1.StateApplying || s.State == v1.StateRollingBack {
			b.Message = "the run waits after this step: it is " + b.Message
		}
		if !s.Paused.At.IsZero() {
			b.SinceSeconds = since(f.Now.Sub(s.Paused.At))
		}
		out = append(out, b)
	}
	return out
}

// withoutOwner are the loops that no manager may run though the run is over; empty where there are none. In its middle
// a loop changes hands.
func withoutOwner(s v1.Status) string {
	if s.State != v1.StateApplied && s.State != v1.StateRolledBack {
		return ""
	}
	var loops []string
	for _, loop := range slices.Sorted(maps.Keys(s.Owners)) {
		if s.Owners[loop] == NoOwner {
			loops = append(loops, loop)
		}
	}
	return strings.Join(loops, ", ")
}

func nodeHealth(f Facts) []v1.Blocker {
	var names []string
	longest := time.Duration(0)
	for name, node := range f.Nodes {
		if why, at := unready(node); why != "" {
			names = append(names, name)
			if !at.IsZero() {
				longest = max(longest, f.Now.Sub(at))
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []v1.Blocker{{
		Code: v1.BlockerNodeNotReady, Level: levelWarning, Impact: onNodes, SinceSeconds: since(longest),
		Message: fmt.Sprintf("%d of %d nodes not Ready: %s", len(names), len(f.Nodes), english.FirstOf(namesAtMost, names)),
	}}
}

func podHealth(f Facts) []v1.Blocker {
	var out []v1.Blocker
	for _, p := range f.Pods {
		at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if at < 0 || p.Status.Conditions[at].Status == corev1.ConditionTrue || p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		took := f.Now.Sub(p.Status.Conditions[at].LastTransitionTime.Time)
		isStuck := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && c.State.Waiting.Reason != ""
		})
		if took < podIsLate && !isStuck {
			continue
		}
		message := "pod " + p.Namespace + "/" + p.Name + " is not Ready"
		facts := podreason.Facts{
			Pod:    p,
			Events: eventsOf(f, p),
			Node:   f.Nodes[p.Spec.NodeName],
			Now:    f.Now,
		}
		if why, is := podreason.Of(facts); is {
			message = why.String()
		}
		out = append(out, v1.Blocker{
			Code:         v1.BlockerPodNotReady,
			Level:        levelWarning,
			Impact:       onControlPlane,
			SinceSeconds: since(took),
			Message:      message,
		})
	}
	return out
}

// eventsOf are the events about a pod.
func eventsOf(f Facts, p *corev1.Pod) []corev1.Event {
	var out []corev1.Event
	for _, e := range f.Events {
		if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.UID == podreason.UID(p) {
			out = append(out, *e)
		}
	}
	return out
}

// leaseHealth names a lease that is not renewed: the loops under it stand still.
func leaseHealth(f Facts, s v1.Status) []v1.Blocker {
	var out []v1.Blocker
	for _, l := range leases(f) {
		if !l.Expired {
			continue
		}
		took := l.AgeSeconds
		b := v1.Blocker{
			Code:         v1.BlockerLeaseExpired,
			Level:        levelWarning,
			Impact:       onLoops,
			SinceSeconds: &took,
			Message:      fmt.Sprintf("lease %s of %s has expired: no manager leads under it", l.Name, l.Holder),
		}
		if f.Journal == nil || s.State == v1.StateRolledBack || s.State == v1.StateApplied {
			b.Level = levelInfo // it may be left over
		}
		out = append(out, b)
	}
	return out
}

// eventHealth are the warnings about nodes and load balancers of the last minutes, the newest of each object and
// reason.
func eventHealth(f Facts) []v1.Blocker {
	type key struct{ kind, namespace, name, reason string }
	newest := map[key]*corev1.Event{}
	for _, e := range f.Events {
		o := e.InvolvedObject
		if e.Type != corev1.EventTypeWarning || o.Kind != "Service" && o.Kind != "Node" || f.Now.Sub(EventTime(e)) > recent {
			continue
		}
		if f.Journal != nil && EventTime(e).Before(f.Journal.Started) {
			continue
		}
		k := key{o.Kind, o.Namespace, o.Name, e.Reason}
		if old := newest[k]; old == nil || EventTime(old).Before(EventTime(e)) {
			newest[k] = e
		}
	}
	byReason := map[[2]string][]*corev1.Event{}
	for k, e := range newest {
		reason := [2]string{k.kind, k.reason}
		byReason[reason] = append(byReason[reason], e)
	}
	var out []v1.Blocker
	for _, events := range byReason {
		out = append(out, eventBlockers(f, events)...)
	}
	return out
}

// eventBlockers are the blockers of events of one kind of object and one reason. Many objects with one trouble are one
// blocker: eight nodes that an outage of the cloud keeps would else hide all the rest.
func eventBlockers(f Facts, events []*corev1.Event) []v1.Blocker {
	code, impact := v1.BlockerNodeWarning, onNodes
	if events[0].InvolvedObject.Kind == "Service" {
		code, impact = v1.BlockerServiceWarning, onLoadBalancers
	}
	slices.SortFunc(events, func(a, b *corev1.Event) int {
		return cmp.Or(EventTime(b).Compare(EventTime(a)), strings.Compare(ObjectName(a), ObjectName(b)))
	})
	of := ""
	if len(events) > namesAtMost {
		of = english.Count(len(events), events[0].InvolvedObject.Kind) + ", last "
		events = events[:1]
	}
	var out []v1.Blocker
	for _, e := range events {
		out = append(out, v1.Blocker{
			Code:         code,
			Level:        levelWarning,
			Impact:       impact,
			SinceSeconds: since(f.Now.Sub(EventTime(e))),
			Message:      fmt.Sprintf("%s%s: %s: %s", of, ObjectName(e), e.Reason, strings.TrimSpace(e.Message)),
		})
	}
	return out
}

// EventTime is when an event was seen last.
func EventTime(e *corev1.Event) time.Time {
	if at := podreason.EventTime(e); !at.IsZero() {
		return at
	}
	return e.CreationTimestamp.Time
}

// ObjectName is what an event is about, Kind/namespace/name or Kind/name.
func ObjectName(e *corev1.Event) string {
	o := e.InvolvedObject
	if o.Namespace == "" || o.Kind == "Node" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}
