// Package podreason decides why a pod does not run or is not Ready, and what an administrator does about it. It says so
// in one sentence: the object, its state, the reason that the kubelet or the scheduler gives, and what to do next.
//
//	PodScheduled False          Unschedulable      what the scheduler says
//	not seen by its kubelet     Pending            since when, and the node's condition
//	container waits             ErrImagePull, ...  message, or the newest event that fits
//	container ended             CrashLoopBackOff   exit code, and the line that it logged last
//	container runs, not Ready   Running            the probe that fails, or a readiness gate
//	deleted                     Terminating        finalizers, and the node's condition
//
// Names and texts are those of the clients that write pods, events and logs. Each is masked, cut and kept in its line.
package podreason

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/shell"
	"github.com/transplant-dev/transplant/internal/visible"
)

const (
	// longestName and longestReason bound, in bytes, what is said of one name and of one reason.
	longestName, longestReason = 256, 320
	// unnoticed is for how long a kubelet may not have noticed a pod before that is worth a word.
	unnoticed = 5 * time.Second
)

// Reason is why a pod does not run or is not Ready.
type Reason struct {
	// Object is "pod kube-system/x on node y".
	Object string
	// State is what kubectl would show, such as "ImagePullBackOff of image z".
	State string
	// Why is the reason in the words of the kubelet or the scheduler; empty where they give none.
	Why string
	// Next is what an administrator does; empty where waiting is all.
	Next string

	// lacksEvents and lacksLog report whether these would say more.
	lacksEvents, lacksLog bool
	// container is the one that the log is of; current says that it has not been started again.
	container string
	current   bool
}

// String is the sentence without its full stop; empty for no reason.
func (r Reason) String() string {
	if r.State == "" {
		return ""
	}
	out := r.Object + ": " + r.State
	if r.Why != "" {
		out += " (" + r.Why + ")"
	}
	if r.Next != "" {
		out += "; " + r.Next
	}
	return out
}

// Facts are what is known of a pod.
type Facts struct {
	Pod *corev1.Pod
	// Events may be of other pods and in any order.
	Events []corev1.Event
	// LastLine is the last line of the log of the container that ended last; empty when it was not read.
	LastLine string
	// Node is the pod's; nil when it was not read.
	Node *corev1.Node
	Now  time.Time
}

// Of returns why a pod does not run or is not Ready; false where it is Ready.
func Of(f Facts) (Reason, bool) {
	p := f.Pod
	r := Reason{Object: nameOf(p)}
	switch {
	case p.DeletionTimestamp != nil:
		terminating(f, &r)
	case isReady(p):
		return Reason{}, false
	case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
		explainEnded(f, &r)
	case p.Spec.NodeName == "" && len(p.Status.ContainerStatuses) == 0 || isFalse(p, corev1.PodScheduled):
		unscheduled(f, &r)
	default:
		containers(f, &r)
	}
	return r, true
}

// nameOf is how a pod is called.
func nameOf(p *corev1.Pod) string {
	out := "pod " + name(p.Namespace) + "/" + name(p.Name)
	if p.Spec.NodeName != "" {
		out += " on node " + name(p.Spec.NodeName)
	}
	return out
}

// name is a name that another client wrote. It may be of any length and hold anything.
func name(s string) string { return visible.Line(visible.Cut(s, longestName)) }

// shortenText is a text that another client wrote, in one line. Its end says more than its middle: what failed comes
// last.
func shortenText(s string) string {
	s = visible.Line(strings.TrimSpace(mask.Cut(strings.TrimSpace(s), 8*longestReason)))
	if len(s) <= longestReason {
		return s
	}
	const beginning = longestReason / 4
	from := len(s) - (longestReason - beginning)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return visible.Cut(s, beginning) + " " + s[from:]
}

func isReady(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func isFalse(p *corev1.Pod, kind corev1.PodConditionType) bool {
	c := condition(p, kind)
	return c != nil && c.Status == corev1.ConditionFalse
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

func terminating(f Facts, r *Reason) {
	r.State = "Terminating since " + timeOfDay(f.Pod.DeletionTimestamp.Time)
	var why []string
	if len(f.Pod.Finalizers) > 0 {
		why = append(why, "it keeps the finalizers "+name(english.FirstOf(3, f.Pod.Finalizers)))
		r.Next = "find out which controller removes them"
	} else if f.Now.Sub(f.Pod.DeletionTimestamp.Time) > time.Minute {
		r.Next = "look at the kubelet of its node, which ends it"
	}
	if state := NodeState(f.Node); state != "" {
		why = append(why, state)
	}
	r.Why = strings.Join(why, ", ")
}

func explainEnded(f Facts, r *Reason) {
	r.State = cmp.Or(name(f.Pod.Status.Reason), string(f.Pod.Status.Phase))
	r.Why = shortenText(f.Pod.Status.Message)
	for _, s := range slices.Concat(f.Pod.Status.InitContainerStatuses, f.Pod.Status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && (t.ExitCode != 0 || r.Why == "") {
			described(f, r, s, t)
			return
		}
	}
}

func unscheduled(f Facts, r *Reason) {
	r.State = "Pending, not scheduled"
	if c := condition(f.Pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		r.State, r.Why = cmp.Or(name(c.Reason), r.State), shortenText(c.Message)
	}
	if r.Why == "" {
		r.Why, r.lacksEvents = newest(f, "FailedScheduling"), true
	}
	r.Next = "make room, or change what its nodes must have: kubectl -n " + quoteName(f.Pod.Namespace) + " describe pod " +
		quoteName(f.Pod.Name)
}

// quoteName is a name as a word of a command.
func quoteName(s string) string { return shell.Quote(visible.Cut(s, longestName)) }

// timeOfDay is a time that stays the same as time passes: a sentence with an age would be another one at each look.
func timeOfDay(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// changing is what differs between two sentences about one cause. These are back-off times, the number of restarts, and
// whether the kubelet tries to pull an image or waits to try again.
var changing = regexp.MustCompile(
	`ErrImagePull|ImagePullBackOff|[Bb]ack-?off [0-9][0-9a-z.]*|Back-off pulling image|[0-9]+ restarts?|[0-9]+\.[0-9]+m?s`,
)

// Cause is a sentence without what changes while its cause stays, to compare it with another one.
func Cause(sentence string) string { return changing.ReplaceAllString(sentence, "~") }

// restarts says how often a container was started again.
func restarts(n int32) string {
	if n == 0 {
		return ""
	}
	return ", " + english.Count(int(n), "restart")
}

// logs is the command that shows the log of a container.
func logs(p *corev1.Pod, container string, previous bool) string {
	flag := ""
	if previous {
		flag = "--previous "
	}
	return fmt.Sprintf("see kubectl -n %s logs %s%s -c %s", quoteName(p.Namespace), flag, quoteName(p.Name), quoteName(container))
}
