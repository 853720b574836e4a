package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan"
)

// budgetWait bounds the wait for nodes to come back before another one is changed; budgetInterval is how often they are looked at.
const (
	budgetWait     = 15 * time.Minute
	budgetInterval = 5 * time.Second
)

// budget counts the nodes that are under change, and knows whether one of a batch went wrong.
type budget struct {
	mu     sync.Mutex
	held   map[string]bool
	failed bool
}

func (b *budget) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = false
}

func (b *budget) fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = true
}

// holding are the nodes under change, and whether a step of the batch went wrong.
func (b *budget) holding() (map[string]bool, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]bool{}
	for n := range b.held {
		out[n] = true
	}
	return out, b.failed
}

// busy tells that nodes are under change.
func (b *budget) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held) > 0
}

// take holds a node if no more than most nodes are then not Ready or under change. before are those that were held when the nodes were looked at: what ended
// since counts as well, because the look does not show how it ended. owed is a node that this migration has changed and that is down already, or has to be taken
// back: it uses its place whatever the others do, and to wait for them would keep it down.
func (b *budget) take(node string, most int, before map[string]bool, notReady []string, owed bool) (why string, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		return "", true
	}
	busy := map[string]bool{}
	for n := range b.held {
		busy[n] = true
	}
	for n := range before {
		busy[n] = true
	}
	for _, n := range notReady {
		busy[n] = true
	}
	delete(busy, node)
	if len(busy)+1 > most && !owed {
		return fmt.Sprintf("at most %s may be not Ready or under change at a time, and %s", countOf(most, "node"), busyNodes(busy, notReady)), false
	}
	if b.held == nil {
		b.held = map[string]bool{}
	}
	b.held[node] = true
	return "", false
}

func (b *budget) give(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, node)
}

// busyNodes names the nodes that use the budget up.
func busyNodes(busy map[string]bool, notReady []string) string {
	down := map[string]bool{}
	for _, n := range notReady {
		down[n] = true
	}
	var dead, working []string
	for n := range busy {
		if down[n] {
			dead = append(dead, n)
		} else {
			working = append(working, n)
		}
	}
	sort.Strings(dead)
	sort.Strings(working)
	var parts []string
	if len(dead) > 0 {
		parts = append(parts, firstOf(dead)+is(len(dead))+"not Ready")
	}
	if len(working) > 0 {
		parts = append(parts, firstOf(working)+is(len(working))+"under change")
	}
	return strings.Join(parts, ", ")
}

func is(n int) string {
	if n == 1 {
		return " is "
	}
	return " are "
}

func firstOf(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// admit waits until one more node may be changed, and tells for what. A node that is not Ready itself is not touched either, unless it was this migration
// that changed it: what it was like before could not be told from what the change does to it.
func (e *Engine) admit(ctx context.Context, s v1.Step, touched bool) (release func(), err error) {
	node, ok := e.NodeNames[s.Host]
	if !ok || node == "" {
		return nil, fmt.Errorf("host %s has no Node that is known, so that nobody can see whether its kubelet comes back: look at kubectl get nodes", s.Host)
	}
	told, beside := "", false
	look := func(ctx context.Context) (bool, error) {
		before := e.budget.busy()
		ok, err := e.mayChange(ctx, s, node, touched, &told)
		beside = before || e.budget.busy()
		return ok, err
	}
	err = e.poll(ctx, budgetWait, budgetInterval, look)
	for errors.Is(err, errWaited) && beside { // other steps of the batch, each of which ends by itself, and may have done so right after the last look
		err = e.poll(ctx, budgetWait, budgetInterval, look)
	}
	if errors.Is(err, errWaited) {
		changed := "Nothing was changed"
		if touched {
			changed = "Nothing more was changed"
		}
		return nil, &WaitError{Waited: budgetWait, Reason: told + ". " + changed + " on host " + s.Host +
			"; bring these nodes back, or allow more with --max-unavailable, and run the same command again"}
	}
	if err != nil {
		return nil, err
	}
	return func() { e.budget.give(node) }, nil
}

// mayChange takes a node's place in the budget if there is one, and tells what it waits for when that has changed.
func (e *Engine) mayChange(ctx context.Context, s v1.Step, node string, touched bool, told *string) (bool, error) {
	select {
	case <-e.stopping:
		return false, ErrInterrupted
	default:
	}
	before, failed := e.budget.holding()
	if failed {
		return false, errLeft
	}
	nodes, err := e.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if Transient(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("looking which nodes are Ready: %w", err)
	}
	notReady := slices.DeleteFunc(notReadyNodes(nodes.Items), e.nodeIsOut) // one that was taken out of the migration serves nobody
	rec := e.journal.Record(s.ID)
	owed := touched && slices.Contains(notReady, node) || rec.Undo != nil && rec.Undo.Ended == nil
	why, left := e.budget.take(node, plan.Budget(e.plan.Options, len(nodes.Items)), before, notReady, owed)
	if left {
		return false, errLeft
	}
	if why == "" && !touched && slices.Contains(notReady, node) {
		e.budget.give(node)
		why = "node " + node + " is not Ready before anything was changed there"
	}
	if why != "" && why != *told {
		*told = why
		e.tell(s, "progress", "waiting: "+why)
	}
	return why == "", nil
}

func notReadyNodes(nodes []corev1.Node) []string {
	var out []string
	for i := range nodes {
		if status, _ := readiness(&nodes[i]); status != corev1.ConditionTrue {
			out = append(out, nodes[i].Name)
		}
	}
	return out
}

// readiness is the status of a node's condition Ready, and when its kubelet last said so.
func readiness(n *corev1.Node) (corev1.ConditionStatus, metav1.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status, c.LastHeartbeatTime
		}
	}
	return corev1.ConditionUnknown, metav1.Time{}
}
