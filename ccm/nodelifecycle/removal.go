package nodelifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// holdReason is why a node without instance is not deleted; "" is none.
type holdReason string

const (
	// overLimit is that there are more of them than may be deleted.
	overLimit holdReason = "limit"
	// noInstanceFound is that the cloud finds none of the instances that it was asked for.
	noInstanceFound holdReason = "no_instance"
	// ownInstanceGone is that it does not find the one that this manager runs on.
	ownInstanceGone holdReason = "own_instance"
	// terminatedOverLimit is that the cloud calls more instances terminated than may be deleted for that.
	terminatedOverLimit holdReason = "terminated"
	// restarted is that the manager took over from one of its kind a moment ago, and does not know what that one deleted.
	restarted holdReason = "restart"
)

var holdReasons = []holdReason{overLimit, noInstanceFound, ownInstanceGone, terminatedOverLimit, restarted}

// ReleaseAnnotation is on a Node that an operator allows to be deleted while deletions are held. Its value is when
// that was said, as RFC 3339; it is valid for an hour. A node with it is deleted only if the cloud has no instance for
// it, so it may be on all nodes.
const ReleaseAnnotation = "transplant.dev/node-deletion-released"

const (
	// releaseFor is for how long the annotation is valid.
	releaseFor = time.Hour
	// releaseSkew is by how much the clock of the operator may be fast.
	releaseSkew = 5 * time.Minute
	// tellHeldEvery is how often an event says that a node is held. Events live for an hour by default.
	tellHeldEvery = 30 * time.Minute
	// witnessesPerPass is how many Ready nodes are asked for in a pass besides the manager's own.
	witnessesPerPass = 3
)

// isReleased reports whether an operator has said within the last hour that a node may be deleted.
func isReleased(node *corev1.Node, now time.Time) bool {
	said, err := time.Parse(time.RFC3339, node.Annotations[ReleaseAnnotation])
	return err == nil && now.Before(said.Add(releaseFor)) && now.After(said.Add(-releaseSkew))
}

// evidence is what the answers of one pass say about the cloud that gives them. Without it, credentials of another
// account look like the end of all instances. The controller's lock guards it.
type evidence struct {
	open       int  // questions without an answer
	found      int  // instances that the cloud knows, terminated ones too
	missed     int  // instances that it does not know, or that asking for failed
	ownPending bool // the manager's own instance was asked for, and there is no answer
	ownGone    bool
	ownUnknown bool // which instance is the manager's own is not known: those of Ready nodes stand in for it
	witnesses  int  // Ready nodes that were asked for and have not answered yet
	ended      int  // those of them whose instance the cloud does not know or describes as terminated
	lives      bool // the instance of one of them does exist
}

// addAnswer adds an answer.
func (e *evidence) addAnswer(q question, own bool, a answer, terminated bool) {
	e.open--
	if q.witness {
		e.witnesses--
		e.lives = e.lives || a == running || a == shutdown
		if a == gone {
			e.ended++
		}
	}
	if own {
		e.ownPending, e.ownGone = false, a == gone
	}
	switch {
	case a == running, a == shutdown, a == gone && terminated:
		e.found++
	case a == gone, a == unknown:
		e.missed++
	}
}

// giveUp is for a question that is not asked.
func (e *evidence) giveUp(q question, own bool) {
	e.open--
	if q.witness {
		e.witnesses--
	}
	if own {
		e.ownPending = false
	}
}

// judgeAnswers returns why the answers of the pass prove nothing, and whether enough of them are there to say so. One
// that hangs is not waited for: the next pass is made without it.
func (e *evidence) judgeAnswers() (doubt holdReason, settled bool) {
	doubt, settled = e.judgeOwn()
	switch {
	case doubt != "" || !settled:
		return doubt, settled
	case e.found > 0:
		return "", true
	case e.open > 0:
		return "", false
	case e.missed > 1: // of a single one there is nothing to compare it with
		return noInstanceFound, true
	}
	return "", true
}

// judgeOwn is judge by the manager's own instance alone.
func (e *evidence) judgeOwn() (doubt holdReason, settled bool) {
	if e.ownGone {
		return ownInstanceGone, true
	}
	return "", !e.ownPending
}

// judgeTerminated is judge for instances that the cloud describes as terminated, which it must know. They are false if
// the manager's own instance is one of them, since it runs. A manager that does not know its own has those of Ready
// nodes: they run as well, and one that exists is enough.
func (e *evidence) judgeTerminated() (doubt holdReason, settled bool) {
	switch {
	case !e.ownUnknown:
		return e.judgeOwn()
	case e.lives:
		return "", true
	case e.witnesses > 0:
		return "", false
	case e.ended > 0:
		return noInstanceFound, true
	}
	return "", true
}

// noteOwnNode says when the manager's own node is not known, once until it is. The caller has the lock.
func (c *Controller) noteOwnNode(calls context.Context) {
	isUnknown := c.own == "" && c.known > 0
	if isUnknown && !c.toldNoOwn {
		klog.FromContext(calls).Error(nil, "Which node runs this manager is not known, so that the cloud is not asked for "+
			"its own instance before nodes are deleted; Ready nodes are asked for instead. "+
			"Set NODE_NAME from spec.nodeName, unless it runs outside of its cluster", "host", c.host.Name)
	}
	c.toldNoOwn = isUnknown
}

// schemeOf is the part of a provider ID that says which cloud it is of.
func schemeOf(node *corev1.Node) string {
	scheme, _, _ := strings.Cut(node.Spec.ProviderID, "://")
	return scheme
}

// pickWitnesses returns nodes whose instances must exist, if some of those that are due may be deleted after this pass.
// These are the manager's own, and a few others that are Ready, other ones each time. They are of the same cloud: a
// node elsewhere that has joined the cluster says nothing. The caller has the lock.
//
// The manager's own is asked for in every pass in which that costs no extra call. A first read may find an instance
// that is terminated, whose node is deleted at once. Where the own is not known, the others are.
func (c *Controller) pickWitnesses(all, due []*corev1.Node) []*corev1.Node {
	confirming, asked := map[string]bool{}, map[string]bool{}
	for _, node := range due {
		asked[schemeOf(node)] = true
		if w := c.watched[node.Name]; w.answer == gone && !w.terminated {
			confirming[schemeOf(node)] = true
		}
	}
	isOf := func(schemes map[string]bool, node *corev1.Node) bool { return schemes[schemeOf(node)] || schemes[""] }
	var able, picked []*corev1.Node
	for _, node := range all {
		switch {
		case !isNodeReady(node), c.witnesses[node.Name]:
		case node.Name == c.own:
			if isOf(confirming, node) || c.reader.Size() > 1 && isOf(asked, node) {
				picked = append(picked, node)
			}
		case isOf(confirming, node), c.own == "" && c.reader.Size() > 1 && isOf(asked, node):
			able = append(able, node)
		}
	}
	slices.SortFunc(able, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range min(witnessesPerPass, len(able)) {
		picked = append(picked, able[(c.turn+i)%len(able)])
	}
	c.turn += witnessesPerPass
	return picked
}

// tally is how many nodes have no instance, and how many may be deleted for it within the window.
type tally struct {
	nodes          int // that there are, and that were deleted within the window
	missing, limit int // of those that the cloud does not know
	// terminated is of those that it describes as terminated, which the limit above does not count.
	terminated, terminatedLimit int
	// earned is which part of the limits may be used by now, from 0 to 1.
	earned float64
}

// allowed returns how much of a limit may be used by now. It is one node from the start. A failover in a small cluster
// does not keep the Node of an instance that has ended. A wrong answer about many is held all the same.
func (t *tally) allowed(limit int) int { return min(limit, max(1, int(float64(limit)*t.earned))) }

// earnedBy returns which part of the limits may be used at a time. A manager that took over from one of its kind does
// not know what that one deleted. It may have deleted all that the limits allow. Its own allowance grows over the
// window, so that managers that crash one after the other delete no more than one that lives. The caller has the lock.
func (c *Controller) earnedBy(now time.Time) float64 {
	lived, window := now.Sub(c.began), c.options.DeletionWindow
	if !c.inherited || lived >= window {
		return 1
	}
	return max(float64(lived)/float64(window), 0)
}

// setLimits computes the limits.
func (t *tally) setLimits(o Options) {
	t.limit = max(o.DeletionLimit, t.nodes*o.DeletionLimitPercent/100)
	percent := max(o.DeletionLimitPercent, o.TerminatedLimitPercent)
	t.terminatedLimit = max(o.DeletionLimit, t.nodes*percent/100)
	if percent < 100 && t.nodes > 1 {
		t.terminatedLimit = min(t.terminatedLimit, t.nodes-1) // that all have ended at once is not believed
	}
}

// exceeds returns why a number of nodes is not deleted: it is over its limit, or over what may be used of it by now.
func (t *tally) exceeds(count, limit int, over holdReason) holdReason {
	switch {
	case count > limit:
		return over
	case count > t.allowed(limit):
		return restarted
	}
	return ""
}

// decide returns the nodes to delete after answers of a pass, which are busy from then on, and notes why the others are
// held. All nodes without an instance that still exist count, even after one read only. So do those that were deleted
// within the window.
func (c *Controller) decide(calls context.Context, pass *evidence) (removals []*corev1.Node) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	count := c.countMissing(now)
	for _, name := range slices.Sorted(maps.Keys(c.watched)) {
		w := c.watched[name]
		if !w.isGone() || w.busy || w.evidence != pass || now.Before(c.graceEnd(w.node)) {
			continue
		}
		exempt := w.isExempt(now)
		if !exempt && !c.mayDelete(w, count) {
			continue
		}
		w.busy, w.counted = true, !exempt
		removals = append(removals, w.node)
	}
	c.noteHolds(calls, count)
	return removals
}

// countMissing returns how many nodes count towards the limits. None of the others is held. A name counts once, however
// often a kubelet registers its Node again. The caller has the lock.
func (c *Controller) countMissing(now time.Time) tally {
	isOld := func(_ string, at time.Time) bool { return now.Sub(at) >= c.options.DeletionWindow }
	maps.DeleteFunc(c.recent, isOld)
	maps.DeleteFunc(c.recentTerminated, isOld)
	missing, terminated := sets.KeySet(c.recent), sets.KeySet(c.recentTerminated)
	count := tally{nodes: c.known + c.countRemoved(missing.Union(terminated)), earned: c.earnedBy(now)}
	count.setLimits(c.options)
	for name, w := range c.watched {
		switch {
		case !w.isGone() || w.isExempt(now):
			w.held = ""
		case w.terminated:
			terminated.Insert(name)
		default:
			missing.Insert(name)
		}
	}
	count.missing, count.terminated = len(missing), len(terminated)
	return count
}

// countRemoved returns how many of the names of deleted nodes no node has now.
func (c *Controller) countRemoved(names sets.Set[string]) (removed int) {
	for name := range names {
		if _, err := c.nodes.Get(name); err != nil {
			removed++
		}
	}
	return removed
}

// mayDelete reports whether a node is to be deleted after the answers of its pass, and notes why not if it is held. The
// caller has the lock.
func (c *Controller) mayDelete(w *watched, count tally) bool {
	if w.terminated {
		return c.mayDeleteTerminated(w, count)
	}
	doubt, settled := w.evidence.judgeAnswers()
	if !settled || !w.isConfirmed() {
		return false
	}
	if doubt == "" && c.options.DeletionLimitPercent < 100 {
		doubt = count.exceeds(count.missing, count.limit, overLimit)
	}
	w.held = doubt
	return doubt == ""
}

// mayDeleteTerminated is mayDelete for a node whose instance the cloud describes as terminated. One look is enough.
func (c *Controller) mayDeleteTerminated(w *watched, count tally) bool {
	doubt, settled := w.evidence.judgeTerminated()
	if !settled {
		return false
	}
	isOff := max(c.options.DeletionLimitPercent, c.options.TerminatedLimitPercent) >= 100
	if doubt == "" && !isOff {
		doubt = count.exceeds(count.terminated, count.terminatedLimit, terminatedOverLimit)
	}
	w.held = doubt
	return doubt == ""
}

// noteHolds tells about the nodes that are held. The caller has the lock.
func (c *Controller) noteHolds(calls context.Context, of tally) {
	count := map[holdReason]int{}
	for _, w := range c.watched {
		if w.held != "" {
			count[w.held]++
		}
	}
	for _, why := range holdReasons {
		held.WithLabelValues(string(why)).Set(float64(count[why]))
		switch began, ended := count[why] > 0 && c.holds[why] == 0, count[why] == 0 && c.holds[why] > 0; {
		case began:
			holds.WithLabelValues(string(why)).Inc()
			klog.FromContext(calls).Info("Holding the deletion of nodes that have no instance", "reason", why,
				"held", count[why], "withoutInstance", of.missing, "limit", of.limit,
				"terminated", of.terminated, "terminatedLimit", of.terminatedLimit, "nodes", c.known)
		case ended:
			klog.FromContext(calls).Info("Holding the deletion of nodes no longer", "reason", why)
		}
	}
	c.holds = count
	now := c.clock.Now()
	for _, name := range slices.Sorted(maps.Keys(c.watched)) {
		w := c.watched[name]
		told := !w.heldTold.IsZero() && now.Sub(w.heldTold) < tellHeldEvery
		if w.held == "" || told || !c.warnings.Allow() {
			continue
		}
		w.heldTold = now
		c.recorder.Event(reference(w.node), corev1.EventTypeWarning, NodeDeletionHeld, c.explainHold(w, of))
	}
}

// explainHold is what an operator reads of a node that is held.
func (c *Controller) explainHold(w *watched, of tally) string {
	name, why := w.node.Name, ""
	switch w.held {
	case overLimit:
		why = fmt.Sprintf("%d of %d nodes have none or were deleted for it within %s, and the limit is %d "+
			"(--node-deletion-limit)", of.missing, of.nodes, c.options.DeletionWindow, of.limit)
	case terminatedOverLimit:
		why = fmt.Sprintf("it calls the instances of %d of %d nodes terminated (within %s), and the limit is %d "+
			"(--node-deletion-limit-terminated-percent). Check that the manager talks to the right endpoint of the "+
			"cloud", of.terminated, of.nodes, c.options.DeletionWindow, of.terminatedLimit)
	case restarted:
		why = fmt.Sprintf("this manager took over less than %s ago (--node-deletion-window) and does not know how many "+
			"nodes were deleted before. What it may delete grows until %s", c.options.DeletionWindow,
			c.began.Add(c.options.DeletionWindow).UTC().Format(time.RFC3339))
	case noInstanceFound:
		why = "it finds none of the other instances either that it was asked for. " +
			"Check the account and the region of the manager's credentials"
	case ownInstanceGone:
		why = fmt.Sprintf("it does not find that of node %s either, which runs this manager. "+
			"Check the account and the region of its credentials", c.own)
	}
	if said, ok := w.node.Annotations[ReleaseAnnotation]; ok {
		why += fmt.Sprintf(". The annotation %s=%.40q is not a time of the last hour", ReleaseAnnotation, said)
	}
	return fmt.Sprintf("The cloud provider has no instance for node %s, but the node is not deleted: %s. "+
		"To delete it: kubectl delete node %s. To let all go that have no instance: "+
		"kubectl annotate nodes --all --overwrite %s=$(date -u +%%FT%%TZ)", name, why, name, ReleaseAnnotation)
}
