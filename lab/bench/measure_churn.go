package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/simcloud"
)

// The results of the scenario churn.
const (
	newServices   = "churn-new-services"
	replacedNodes = "churn-replaced-nodes"
)

// How much churns: new Services, and nodes that are replaced in batches. A small cluster replaces a fifth of its nodes
// at most.
const (
	newServicesSpan = 20 // the time in which they are made, in pauses between two nodes
	replacedCount   = 100
	replacedBatch   = 10
)

// newServiceCount is how many Services are made. Of a hundred, the 99th percentile is not the longest. They are made in
// the time of the twenty of a small cluster, in which the load balancers are being changed.
func (w *world) newServiceCount() int {
	if w.services >= 1000 {
		return 100
	}
	return newServicesSpan
}

// churn measures what a cluster notices while its load balancers are changed: Services that are made in the middle of
// an update of all others, and nodes that are replaced in rolling batches, as an upgrade of the cluster does.
func churn(ctx context.Context, w *world) ([]Result, error) {
	m, err := w.startBalanced(ctx)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, part := range []struct {
		name    string
		measure func(context.Context, *manager, *Result) error
	}{{newServices, w.measureNewServices}, {replacedNodes, w.measureReplacedNodes}} {
		r := w.result(part.name)
		if err := part.measure(ctx, m, &r); err != nil {
			return out, fmt.Errorf("%s: %w", part.name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// measureNewServices measures how long a new Service waits for its load balancer while a new node is added to all that
// there are. Each sample is from a Service's creation until its status has an address.
func (w *world) measureNewServices(ctx context.Context, m *manager, r *Result) error {
	if err := w.slow(); err != nil {
		return err
	}
	begin, err := w.from(m)
	if err != nil {
		return err
	}
	start := time.Now()
	if _, err := w.addNodes(ctx, w.nodes, 1, fresh); err != nil {
		return err
	}
	made, served := map[string]time.Time{}, map[string]time.Time{}
	count := w.newServiceCount()
	apart := newServicesSpan * w.options.pauses.between / time.Duration(count)
	create := func(i int) error {
		s := loadBalanced(fmt.Sprintf("new-%03d", i))
		s.Labels = map[string]string{"bench": "new"}
		made[s.Name] = time.Now()
		_, err := w.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, s, metav1.CreateOptions{})
		return err
	}
	_, err = poll(ctx, m, 20*time.Millisecond, w.options.Limit, func() (bool, error) {
		if n := len(made); n < count && !time.Now().Before(start.Add(time.Duration(n)*apart)) {
			if err := create(n); err != nil {
				return false, fmt.Errorf("creating a service: %w", err)
			}
		}
		list, err := w.client.CoreV1().Services(metav1.NamespaceDefault).List(
			ctx, metav1.ListOptions{LabelSelector: "bench=new", ResourceVersion: "0"},
		)
		if err != nil {
			return false, fmt.Errorf("listing services: %w", err)
		}
		for _, s := range list.Items {
			if _, before := served[s.Name]; !before && len(s.Status.LoadBalancer.Ingress) > 0 {
				served[s.Name] = time.Now()
			}
		}
		return len(served) == count, nil
	})
	if err != nil {
		return err
	}
	s := samplesOf(made, served)
	s.of = count // the limit may come before the last was made
	s.into(r, w.options.Limit)
	if _, _, err := begin.quiet(ctx, w.options.pauses.idle, w.options.Limit); err != nil {
		return err
	}
	return begin.into(r)
}

// measureReplacedNodes measures how the load balancers follow nodes that are replaced: a batch is deleted with its
// instances, as many new ones come, and so on. Each sample is from the last batch until a load balancer had its last
// change; the total is from the first one.
func (w *world) measureReplacedNodes(ctx context.Context, m *manager, r *Result) error {
	if err := w.slow(); err != nil {
		return err
	}
	begin, err := w.from(m)
	if err != nil {
		return err
	}
	count := min(replacedCount, max(w.nodes/5, 1))
	first := w.nodes + 1 // behind the node that has joined before
	start := time.Now()
	var lastAdded time.Time
	for done := 0; done < count; done += replacedBatch {
		batch := min(replacedBatch, count-done)
		if err := w.removeNodes(ctx, done, batch); err != nil {
			return err
		}
		if _, err := w.addNodes(ctx, first+done, batch, fresh); err != nil {
			return err
		}
		lastAdded = time.Now()
		if done+batch == count {
			break
		}
		next := lastAdded.Add(4 * w.options.pauses.between)
		isNext := func() (bool, error) { return !time.Now().Before(next), nil }
		if _, err := poll(ctx, m, 10*time.Millisecond, w.preparing(), isNext); err != nil {
			return err
		}
	}
	var there, gone []string
	for place := range count {
		there, gone = append(there, instance(first+place).ProviderID), append(gone, instance(place).ProviderID)
	}
	replaced := newVerdicts(func(members []string) bool { return hasAll(members, there) && hasNone(members, gone) })
	isDone := func() (bool, error) { return len(w.behind(replaced)) == 0, nil }
	if _, err := poll(ctx, m, 100*time.Millisecond, w.options.Limit, isDone); err != nil {
		return err
	}
	s := w.memberships(begin, w.behind(replaced), start, lastAdded)
	s.of = len(w.cloud.LoadBalancers())
	if _, _, err := begin.quiet(ctx, w.options.pauses.idle, w.options.Limit); err != nil {
		return err
	}
	s.into(r, w.options.Limit)
	return begin.into(r)
}

// removeNodes ends the machines at the places from first on, and deletes their Nodes, as a tool does that replaces
// them.
func (w *world) removeNodes(ctx context.Context, first, count int) error {
	var change simcloud.Change
	for place := first; place < first+count; place++ {
		change.RemoveInstances = append(change.RemoveInstances, nodeName(place))
	}
	if err := w.cloud.Apply(change); err != nil {
		return err
	}
	return each(ctx, count, func(ctx context.Context, i int) error {
		return w.client.CoreV1().Nodes().Delete(ctx, nodeName(first+i), metav1.DeleteOptions{})
	})
}

// zoneLost measures what it costs that a third of the nodes is NotReady while their instances are there, as when a zone
// has lost its network: no node may be deleted, and none may be asked for by itself again and again.
func zoneLost(ctx context.Context, w *world) ([]Result, error) {
	m, err := w.startSettled(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.slow(); err != nil {
		return nil, err
	}
	begin, err := w.from(m)
	if err != nil {
		return nil, err
	}
	lost := places(max(w.nodes/3, 1))
	if _, err := w.lose(ctx, lost); err != nil {
		return nil, err
	}
	results, err := w.observe(ctx, begin, len(lost), len(lost))
	if err != nil {
		return nil, err
	}
	list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	kept := 0
	for _, n := range list.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
		}) {
			kept++
		}
	}
	results[0].Done, results[0].Complete = kept, kept == len(lost)
	return results, nil
}
