package ccmtrial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// round is what came of a disturbance.
type round struct {
	passed bool          // the standby leads
	gap    time.Duration // without a change in the cloud, where it passed
	late   []act         // of a process that another one had begun to act in place of
}

// round disturbs a leader that is at work, and waits until what Services and Nodes ask for is there all the same.
func (w *world) round(ctx context.Context, d disturbance, t timings, leader, standby *ccmlab.Manager) (round, error) {
	var r round
	if err := w.busy(ctx, leader, time.Now(), ensureRequests, patience); err != nil {
		return r, err
	}
	began := time.Now()
	if err := w.cloud.Set(d.cloud.settings()); err != nil {
		return r, err
	}
	if d.lost {
		if err := w.loseMachines(ctx); err != nil {
			return r, err
		}
	}
	if err := w.disturb(ctx, d, leader, standby); err != nil {
		return r, err
	}
	var err error
	if r.passed, err = w.standbyLeads(ctx, d, leader, standby, began); err != nil {
		return r, err
	}
	if r.passed && d.keepsLeader(t) {
		return r, fmt.Errorf("%s lives, and %s leads", leader.Name(), standby.Name())
	}
	if err := w.cloud.Set(fair.settings()); err != nil {
		return r, err
	}
	if err := w.settle(ctx, began); err != nil {
		return r, err
	}
	all, err := w.acts(time.Time{})
	if err != nil {
		return r, err
	}
	r.late = lateActs(all, w.migrates)
	if h, found := takeOver(onlyCloud(all), leader.Name(), standby.Name()); r.passed && found {
		r.gap = h.gap()
	}
	return r, nil
}

// standbyLeads waits until one of two managers is at work and reports whether it is the standby. A leader that has lost
// its lease has to end.
func (w *world) standbyLeads(
	ctx context.Context,
	d disturbance,
	leader, standby *ccmlab.Manager,
	began time.Time,
) (bool, error) {
	healed, passed := time.Now(), false
	err := eventually(ctx, "the loops to be run again", patience, func(context.Context) error {
		if err := standby.Alive(); err != nil {
			return err
		}
		calls := w.cloud.Calls(simcloud.Filter{Mutating: true, Callers: []string{leader.Name(), standby.Name()}})
		count := map[string]int{}
		for _, c := range calls {
			if c.Arrived.After(healed) || c.Caller == standby.Name() && c.Arrived.After(began) {
				count[c.Caller]++
			}
		}
		switch {
		case count[standby.Name()] > 0:
			passed = true
		case d.endsLeader() || count[leader.Name()] < ensureRequests || leader.Alive() != nil:
			return errNotYet
		}
		return nil
	})
	if err != nil || !passed {
		return passed, err
	}
	select {
	case <-leader.Done():
		return true, nil
	case <-time.After(patience):
		return true, fmt.Errorf("%s goes on after %s has begun", leader.Name(), standby.Name())
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// loseMachines ends every other machine that has joined. Its kubelet is silent then, and its Node no longer Ready.
func (w *world) loseMachines(ctx context.Context) error {
	w.turning.Lock()
	joined := w.joined
	w.joined = nil
	w.turning.Unlock()
	for i, name := range joined {
		if i%2 == 1 {
			continue
		}
		if err := w.cloud.Apply(simcloud.Change{RemoveInstances: []string{name}}); err != nil {
			return err
		}
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"reason":"NodeStatusUnknown"}]}}`,
			corev1.NodeReady, corev1.ConditionUnknown)
		if _, err := w.admin.CoreV1().Nodes().Patch(
			ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status",
		); err != nil {
			return fmt.Errorf("losing machine %s: %w", name, err)
		}
	}
	return nil
}

// settle changes every Service once more and waits, with no further change, until the cloud has all that they ask for.
func (w *world) settle(ctx context.Context, began time.Time) error {
	w.turning.Lock()
	defer w.turning.Unlock()
	for i := range services {
		if err := w.change(ctx, i, began.Format(time.RFC3339Nano)); err != nil {
			return err
		}
	}
	return eventually(ctx, "all Services and Nodes to be as they are asked for", 2*patience, w.missing)
}

// missing is what is not as it is asked for.
func (w *world) missing(ctx context.Context) error {
	nodes, err := w.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	state := w.cloud.State()
	var members []string
	for _, n := range nodes.Items {
		known := slices.ContainsFunc(state.Instances, func(i api.Instance) bool { return i.Name == n.Name })
		switch {
		case !known:
			return fmt.Errorf("node %s has no machine any more and is there", n.Name)
		case !isInitialised(&n):
			return fmt.Errorf("node %s is not initialised", n.Name)
		}
		members = append(members, n.Spec.ProviderID)
	}
	slices.Sort(members)
	list, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		name := cloudprovider.DefaultLoadBalancerName(&s)
		i := slices.IndexFunc(state.LoadBalancers, func(lb api.LoadBalancer) bool { return lb.Name == name })
		switch {
		case i < 0:
			return fmt.Errorf("service %s has no load balancer", s.Name)
		case state.LoadBalancers[i].Settings[annotation] != s.Annotations[annotation]:
			return fmt.Errorf("the load balancer of service %s has the settings of an earlier change", s.Name)
		case !slices.Equal(state.LoadBalancers[i].Members, members):
			return fmt.Errorf("the load balancer of service %s has %d members, there are %d nodes",
				s.Name, len(state.LoadBalancers[i].Members), len(members))
		case len(s.Status.LoadBalancer.Ingress) == 0:
			return fmt.Errorf("service %s has no address", s.Name)
		}
	}
	return nil
}

// lateActs are those of processes that another process had begun to act in place of, unless they changed nothing. Under
// leader migration each loop is looked at for itself: a crash passes one lease after the other.
func lateActs(all []act, perLoop bool) []act {
	current, past := map[string]string{}, map[string]bool{}
	var late []act
	for _, a := range all {
		loop := ""
		if perLoop {
			if loop = a.loop; loop == "" {
				continue
			}
		}
		switch {
		case !strings.HasPrefix(a.by, ours) || a.by == current[loop]:
		case past[loop+" "+a.by]:
			if !a.refused {
				late = append(late, a)
			}
		default:
			past[loop+" "+current[loop]], current[loop] = true, a.by
		}
	}
	return late
}
