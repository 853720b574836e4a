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

// young is until what age a node's instance may be missing in a cloud's answers though it exists.
const young = 2 * time.Minute

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

func ready(node *corev1.Node) bool {
	status, _ := readiness(node)
	return status == corev1.ConditionTrue
}

// tainted tells whether a node has the taint, as the API server tells taints apart: by key and effect.
func tainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isShutdownTaint) }

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

func answerOf(state cloud.InstanceState) answer {
	switch {
	case errors.Is(state.Err, cloudprovider.InstanceNotFound):
		return gone
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
	times     int    // the answer has been the same
	busy      bool   // it is being asked for or written
	announced bool   // an event has said that it is being deleted
	refused   string // the last failure of its deletion that was told
	warned    bool   // an event has said that asking for it fails
	delayed   bool   // an event has said that its deletion is
	removed   bool   // the API server has accepted its deletion
}

// wanted tells whether a node is to be asked for now. One that is being deleted is not: it waits for finalizers, and there is nothing left to judge.
func (w *watched) wanted(node *corev1.Node, now time.Time) bool {
	return !w.busy && !w.removed && node.DeletionTimestamp == nil && !now.Before(w.due)
}

// answered notes an answer and when to ask again: an interval later, which doubles up to a limit while the answer is the same and waiting costs little: an
// instance that is shut down seldom goes away. Errors are asked about again at the next tick, and so are running instances if listing them costs nothing more.
func (w *watched) answered(a answer, now time.Time, period, limit time.Duration, lists bool) {
	if a == w.answer && !w.asked.IsZero() {
		w.times++
	} else {
		w.times, w.interval = 1, 0
	}
	if a != unknown {
		w.warned = false
	}
	if a == running || a == shutdown {
		w.delayed = false // there is an instance after all
	}
	w.answer, w.asked = a, now
	calm := a == shutdown || a == foreign || a == running && !lists
	if !calm || w.interval == 0 {
		w.interval = period
	} else {
		w.interval = min(2*w.interval, max(limit, period))
	}
	w.due = now.Add(w.interval) // now is when the tick began: the next one comes a little later than a period, never earlier
}

// verdict is what is to happen to a node without instance.
type verdict int

const (
	remove verdict = iota
	confirm
	keep
)

// judgeGone judges about a node whose instance is gone. A node that was not Ready before the lease was adopted has its grace; one that is young is asked
// for again.
func judgeGone(node *corev1.Node, times int, now, adoptedAt time.Time, grace time.Duration) (v verdict, until time.Time) {
	_, since := readiness(node)
	if until = adoptedAt.Add(grace); since.Before(adoptedAt) && now.Before(until) {
		return keep, until
	}
	if now.Sub(node.CreationTimestamp.Time) < young && times < 2 {
		return confirm, time.Time{}
	}
	return remove, time.Time{}
}
