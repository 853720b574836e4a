package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/options"
)

// BudgetWait bounds the wait for nodes to come back before another one is changed; budgetInterval is how often they are
// looked at.
const (
	BudgetWait     = 15 * time.Minute
	budgetInterval = 5 * time.Second
)

// Admit waits until one more node may be changed, and tells for what. A node that is not Ready itself is not touched
// either, unless this migration changed it. Its old faults could not be distinguished from effects of the change.
func Admit(ctx context.Context, e *step.Env, s v1.Step, touched bool) (release func(), err error) {
	node, ok := e.NodeNames[s.Host]
	if !ok || node == "" {
		return nil, fmt.Errorf(
			"host %s has no known Node, so transplant cannot see whether its kubelet comes back: look at kubectl get nodes",
			s.Host,
		)
	}
	told, waits := "", false
	look := func(ctx context.Context) (bool, error) {
		before := e.NodeBudget.Busy()
		ok, err := mayChange(ctx, e, s, node, touched, &told)
		waits = before || e.NodeBudget.Busy()
		return ok, err
	}
	err = e.Poll(ctx, BudgetWait, budgetInterval, look)
	// other steps of the batch, each of which ends by itself, and may have done so right after the last look
	for errors.Is(err, step.ErrTimedOut) && waits {
		err = e.Poll(ctx, BudgetWait, budgetInterval, look)
	}
	if errors.Is(err, step.ErrTimedOut) {
		changed := "Nothing was changed"
		if touched {
			changed = "Nothing more was changed"
		}
		return nil, &step.WaitError{Waited: BudgetWait, Reason: told + ". " + changed + " on host " + s.Host +
			"; bring these nodes back, or allow more with --max-unavailable, and run the same command again"}
	}
	if err != nil {
		return nil, err
	}
	return func() { e.NodeBudget.Give(node) }, nil
}

// mayChange takes a node's place in the budget if there is one, and tells what it waits for when that has changed.
func mayChange(ctx context.Context, e *step.Env, s v1.Step, node string, touched bool, told *string) (bool, error) {
	select {
	case <-e.Stopping:
		return false, step.ErrInterrupted
	default:
	}
	before, failed := e.NodeBudget.Holding()
	if failed {
		return false, step.ErrNotBegun
	}
	nodes, err := e.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if retry.IsTransient(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("looking which nodes are Ready: %w", err)
	}
	// one that was excluded from the migration serves no pod
	notReady := slices.DeleteFunc(notReadyNodes(nodes.Items), e.IsNodeExcluded)
	rec := e.Journal.Record(s.ID)
	owed := touched && slices.Contains(notReady, node) || rec.Undo != nil && rec.Undo.Ended == nil
	why, left := e.NodeBudget.Take(node, options.MaxUnavailable(e.Plan.Options, len(nodes.Items)), before, notReady, owed)
	if left {
		return false, step.ErrNotBegun
	}
	if why == "" && !touched && slices.Contains(notReady, node) {
		e.NodeBudget.Give(node)
		why = "node " + node + " is not Ready before anything was changed there"
	}
	if why != "" && why != *told {
		*told = why
		e.Report(s, step.EventProgress, step.WaitingPrefix+why)
	}
	return why == "", nil
}

func notReadyNodes(nodes []corev1.Node) []string {
	var out []string
	for i := range nodes {
		if status, _ := ReadyStatus(&nodes[i]); status != corev1.ConditionTrue {
			out = append(out, nodes[i].Name)
		}
	}
	return out
}
