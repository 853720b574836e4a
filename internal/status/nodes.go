package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// A step under way counts as blocked when it takes slowFactor times its estimate, and slowLeast at least.
const (
	slowFactor = 3
	slowLeast  = 60 * time.Second
)

// isSlowStep reports whether a step takes far longer than the plan thought.
func (f Facts) isSlowStep(step v1.Step, since float64) bool {
	return since > slowLeast.Seconds() && since > slowFactor*f.estimateOf(step)
}

// targetOf is the host or node that a step is about; empty for one that is about the cluster.
func targetOf(s v1.Step) string {
	if s.Host != "" {
		return s.Host
	}
	if name, ok := strings.CutPrefix(s.Ref, "Node/"); ok {
		return name
	}
	return ""
}

// nodes say for each host and node how far it is, the worst first.
func nodes(f Facts, s v1.Status) []v1.NodeStatus {
	have := results(f.Journal)
	var out []v1.NodeStatus
	at := map[string]int{}
	for _, step := range f.steps() {
		name := targetOf(step)
		if name == "" {
			continue
		}
		if _, ok := at[name]; !ok {
			at[name] = len(out)
			out = append(out, v1.NodeStatus{Name: name, State: v1.NodePending})
		}
		n := &out[at[name]]
		n.Total++
		r := have[step.ID]
		switch {
		case r.IsEnded():
			n.Done++
		case isBegun(r):
			showStep(f, n, step, r, s)
		case n.Step == "":
			n.Step = step.ID
		}
	}
	for i := range out {
		n := &out[i]
		if n.Done == n.Total {
			n.State = v1.NodeDone
		}
		if slices.ContainsFunc(f.Journal.Without, func(h v1.HostOut) bool { return h.Name == n.Name || h.Node == n.Name }) {
			n.State, n.Step, n.Message = v1.NodeOut, "", "excluded from the run: reset it or delete its machine before it comes back"
			continue
		}
		notReady(f, n)
	}
	slices.SortStableFunc(out, func(a, b v1.NodeStatus) int {
		return cmp.Or(
			cmp.Compare(stateRank(a.State), stateRank(b.State)),
			cmp.Compare(b.SinceSeconds, a.SinceSeconds),
			strings.Compare(a.Name, b.Name),
		)
	})
	return out
}

var order = []string{v1.NodeBlocked, v1.NodeWorking, v1.NodeBegun, v1.NodePending, v1.NodeDone, v1.NodeOut}

func stateRank(state string) int { return slices.Index(order, state) }

// showStep takes in a step that is under way, or that went wrong.
func showStep(f Facts, n *v1.NodeStatus, step v1.Step, r v1.StepRecord, s v1.Status) {
	n.State, n.Step, n.Message = v1.NodeWorking, step.ID, r.Error
	if at := slices.IndexFunc(s.Current, func(c v1.StepStatus) bool { return c.ID == step.ID }); at >= 0 {
		c := s.Current[at]
		n.SinceSeconds = c.SinceSeconds
		if said := cmp.Or(c.Waiting, c.Latest); said != "" {
			n.Message = said
		}
	}
	working := s.State == v1.StateApplying || s.State == v1.StateRollingBack
	switch {
	case !working && r.Error != "", f.isSlowStep(step, n.SinceSeconds):
		n.State = v1.NodeBlocked
	case !working:
		n.State = v1.NodeBegun
	}
}

// notReady marks a node that is not Ready while nothing is done to it. Of a node that is worked on, its step says what
// it waits for.
func notReady(f Facts, n *v1.NodeStatus) {
	node := f.Nodes[n.Name]
	if node == nil || n.State == v1.NodeWorking || n.State == v1.NodeBlocked {
		return
	}
	why, since := unready(node)
	if why == "" {
		return
	}
	n.State, n.Message = v1.NodeBlocked, why
	if !since.IsZero() {
		n.SinceSeconds = roundSeconds(max(0, f.Now.Sub(since)))
	}
}

// unready says why a node is not Ready, and since when; empty when it is.
func unready(node *corev1.Node) (string, time.Time) {
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return "", time.Time{}
		}
		why := "the node is not Ready"
		if c.Reason != "" {
			why += " (" + c.Reason + ")"
		}
		return why, c.LastTransitionTime.Time
	}
	return "the node has no Ready condition", time.Time{}
}
