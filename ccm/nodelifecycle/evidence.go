package nodelifecycle

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// confirmAfter is how far apart two looks are at least that count as two.
const confirmAfter = 2 * time.Second

// ShutdownTaint is what a node has whose instance is shut down.
var ShutdownTaint = &corev1.Taint{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}

// readiness is a node's condition, Unknown if it has none, and since when.
func readiness(node *corev1.Node) (status corev1.ConditionStatus, since time.Time) {
	_, condition := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	if condition == nil {
		return corev1.ConditionUnknown, node.CreationTimestamp.Time
	}
	return condition.Status, condition.LastTransitionTime.Time
}

func isNodeReady(node *corev1.Node) bool {
	status, _ := readiness(node)
	return status == corev1.ConditionTrue
}

// hasShutdownTaint reports whether a node has the taint, as the API server tells taints apart: by key and effect.
func hasShutdownTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isShutdownTaint)
}

func isShutdownTaint(taint corev1.Taint) bool { return ShutdownTaint.MatchTaint(&taint) }

// taintsWith returns a node's taints with the shutdown taint or without it.
func taintsWith(node *corev1.Node, with bool) []corev1.Taint {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), isShutdownTaint)
	if with {
		taints = append(taints, *ShutdownTaint)
	}
	return taints
}

// signature is what of a node makes it worth asking for it at once when it changes. Heartbeats are no part of it.
type signature struct {
	uid           types.UID
	providerID    string
	status        corev1.ConditionStatus
	since         int64
	unschedulable bool
}

func signatureOf(node *corev1.Node) signature {
	status, since := readiness(node)
	return signature{node.UID, node.Spec.ProviderID, status, since.UnixNano(), node.Spec.Unschedulable}
}

// answer is what the cloud says of a node, as far as this controller can use it.
type answer int

const (
	unknown answer = iota // an error
	foreign               // the provider does not look after it
	running
	shutdown
	gone
)

// answerOf reads a state. An error is no answer, also one that says "not found". For the interface and upstream an
// instance is gone only if the provider says that it does not exist, without an error. A provider that finds it and
// then does not, contradicts itself.
func answerOf(state cloud.InstanceState) answer {
	switch {
	case errors.Is(state.Err, cloudprovider.ImplementedElsewhere), errors.Is(state.Err, cloudprovider.NotImplemented):
		return foreign
	case state.Err != nil:
		return unknown
	case !state.Exists:
		return gone
	case state.Shutdown:
		return shutdown
	}
	return running
}

// watched is what is remembered of a node that is not Ready, from one tick to the next.
type watched struct {
	signature signature
	asked     time.Time // zero: never
	due       time.Time
	interval  time.Duration
	answer    answer
	times     int       // the answer has been the same
	first     time.Time // when the answer was first the same
	busy      bool      // it is being asked for or written
	announced bool      // an event has said that it is being deleted
	refused   string    // the last failure of its deletion that was told
	warned    bool      // an event has said that asking for it fails
	delayed   bool      // an event has said that its deletion is
	removed   bool      // the API server has accepted its deletion

	// What follows is of the last answer, where that is gone.
	node       *corev1.Node // as it was when it was asked for
	evidence   *evidence    // of the pass
	terminated bool         // the cloud describes the instance still, as terminated
	counted    bool         // its deletion counts towards the limits
	held       holdReason   // why it is not deleted
	heldTold   time.Time    // when an event has said so
}

// shouldAsk reports whether a node is to be asked for now. One that is being deleted is not: it waits for finalizers,
// and there is nothing left to judge.
func (w *watched) shouldAsk(node *corev1.Node, now time.Time) bool {
	return !w.busy && !w.removed && node.DeletionTimestamp == nil && !now.Before(w.due)
}

// recordAnswer notes an answer and when to ask again. The interval doubles up to a limit while the answer is the same
// and waiting costs little. An instance that is shut down seldom goes away. Where the provider lists instances, one
// call asks for all: then errors and running instances are asked about again at the next tick.
func (w *watched) recordAnswer(a answer, now time.Time, period, limit time.Duration, lists bool) {
	if a == w.answer && !w.asked.IsZero() {
		w.times++
	} else {
		w.times, w.first, w.interval = 1, now, 0
	}
	if a != unknown {
		w.warned = false
	}
	if a == running || a == shutdown {
		w.delayed = false // there is an instance after all
	}
	w.answer, w.asked = a, now
	calm := a == shutdown || a == foreign || (a == running || a == unknown) && !lists
	if !calm || w.interval == 0 {
		w.interval = period
	} else {
		w.interval = min(2*w.interval, max(limit, period))
	}
	// now is when the tick began: the next one comes a little later than a period, never earlier
	w.due = now.Add(w.interval)
}

// awaitsRetry reports whether asking for the node has failed and is not due again yet.
func (w *watched) awaitsRetry(now time.Time) bool {
	return w.answer == unknown && w.times > 0 && !w.busy && now.Before(w.due)
}

// forgetAnswer has a node judged from the beginning: it is not what the answer was about.
func (w *watched) forgetAnswer() { w.answer, w.times = unknown, 0 }

// isGone reports whether a node has no instance by the last answer, and is there still.
func (w *watched) isGone() bool { return w.answer == gone && !w.removed }

// isConfirmed reports whether two looks have found no instance. Cloud APIs are eventually consistent, and an answer may
// be of a moment.
func (w *watched) isConfirmed() bool { return w.times > 1 && w.asked.Sub(w.first) >= confirmAfter }

// isExempt reports whether a node without instance is deleted whatever becomes of others: an operator has said so.
func (w *watched) isExempt(now time.Time) bool { return w.isConfirmed() && isReleased(w.node, now) }

// turn orders what is asked for in a tick.
func (w *watched) turn() int {
	switch {
	case w.asked.IsZero():
		return 0
	case w.answer == gone && !w.isConfirmed():
		return 1
	}
	return 2
}

// graceEnd returns until when a node without instance is kept because it was not Ready before the lease was adopted.
func graceEnd(node *corev1.Node, adoptedAt time.Time, grace time.Duration) time.Time {
	if _, since := readiness(node); !since.Before(adoptedAt) {
		return time.Time{}
	}
	return adoptedAt.Add(grace)
}
