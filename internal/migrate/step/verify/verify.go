// Package verify executes the steps that change nothing: they wait for a state of the cluster, or compare it with the
// one before.
package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/pages"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
	"github.com/transplant-dev/transplant/internal/visible"
)

// verify looks, and changes nothing.
type verify struct{ env *step.Env }

func (x verify) Done(ctx context.Context, s v1.Step) (bool, error) {
	lost, err := x.findLost(ctx)
	if err != nil {
		return false, err
	}
	if len(lost) > 0 {
		return false, step.PendingError("not as before the migration: " + strings.Join(lost, "; "))
	}
	remains, err := lostnode.Remaining(ctx, x.env.Kube, x.env.Journal.Doc())
	if err != nil {
		return false, err
	}
	if len(remains) > 0 {
		return false, step.PendingError(strings.Join(remains, "; "))
	}
	if why, err := rolloutProblem(ctx, x.env, s); err != nil || why != "" {
		return false, step.PendingIf(why, err)
	}
	x.reportUnobserved(s)
	why, err := manager.CheckOwners(ctx, x.env, s.Expect)
	if err != nil {
		return false, err
	}
	if why != "" {
		return false, step.PendingError(why)
	}
	return x.compared(ctx, s)
}

// reportUnobserved says once that owners are not asked for, where no host is reached.
func (x verify) reportUnobserved(s v1.Step) {
	if len(s.Expect) == 0 || !manager.ReachesNone(x.env) || x.env.Said[s.ID] {
		return
	}
	x.env.Said[s.ID] = true
	x.env.Report(s, step.EventProgress, "not observed: which manager runs a loop, since no host is reached (--host-access)")
}

// compared is what transplant verify looks at next to nodes, addresses and owners: volumes and what attaches them,
// endpoints, labels and taints, the cloud.
func (x verify) compared(ctx context.Context, s v1.Step) (bool, error) {
	if x.env.Compare == nil {
		return true, nil
	}
	problems, unknown := x.env.Compare(ctx)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if len(problems) > 0 {
		return false, step.PendingError(
			"not as before the migration: " + strings.Join(
				problems,
				"; ",
			) + ". To live with a difference, run the same command again with --accept 'OBJECT=REASON', e.g. 'Node/worker-3 taints=ours'",
		)
	}
	if len(unknown) > 0 {
		x.env.Report(s, step.EventProgress, "not compared: "+strings.Join(unknown, "; "))
	}
	return true, nil
}

func (x verify) Do(ctx context.Context, _ v1.Step, rec *v1.StepRecord) error {
	return x.env.Journal.Save(ctx, *rec)
}

// findLost names the nodes and load balancers that are not as they were.
func (x verify) findLost(ctx context.Context) ([]string, error) {
	nodes, err := nodesNow(ctx, x.env)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	services, err := servicesNow(ctx, x.env)
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	staying := x.staying()
	if x.env.Seed != nil {
		if staying, err = notReplaced(ctx, x.env, staying, nodes); err != nil {
			return nil, err
		}
	}
	return append(lostNodes(staying, nodes), lostServices(x.env.Before.Services, services)...), nil
}

// maxText is more than a provider ID or an address has. A user cluster may write anything, and its text is kept here.
const maxText = 1 << 10

// nodesNow are the nodes that were there before, with what is compared of them alone. Neither thousands of whole nodes
// are held, nor any number of others.
func nodesNow(ctx context.Context, e *step.Env) (out []v1.Node, _ error) {
	known := map[string]bool{}
	for _, n := range e.Before.Nodes {
		known[n.Name] = true
	}
	return out, pages.Each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return e.Kube.CoreV1().Nodes().List(ctx, o)
	}, func(o runtime.Object) error {
		if n, ok := o.(*corev1.Node); ok && known[n.Name] {
			delete(known, n.Name)
			out = append(out, v1.Node{
				Name:       strings.Clone(n.Name),
				UID:        visible.Cut(string(n.UID), maxText),
				ProviderID: visible.Cut(n.Spec.ProviderID, maxText),
			})
		}
		return nil
	})
}

// servicesNow are the Services that were there before, with what is compared of them alone.
func servicesNow(ctx context.Context, e *step.Env) (out []v1.Service, _ error) {
	known := map[string]int{} // by namespace and name, how many addresses it had
	for i := range e.Before.Services {
		s := &e.Before.Services[i]
		known[s.Namespace+"/"+s.Name] = len(s.Addresses)
	}
	return out, pages.Each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return e.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
	}, func(o runtime.Object) error {
		s, ok := o.(*corev1.Service)
		if !ok {
			return nil
		}
		had, isKnown := known[s.Namespace+"/"+s.Name]
		if !isKnown {
			return nil
		}
		delete(known, s.Namespace+"/"+s.Name)
		have := objects.Addresses(s)
		have = have[:min(len(have), had+1)] // one more is a difference, too
		for i := range have {
			have[i] = visible.Cut(have[i], maxText)
		}
		out = append(out, v1.Service{
			Namespace: strings.Clone(s.Namespace),
			Name:      strings.Clone(s.Name),
			UID:       visible.Cut(string(s.UID), maxText),
			Addresses: slices.Clone(have),
		})
		return nil
	})
}

// staying are the nodes from before that the plan does not have taken down.
func (x verify) staying() []v1.Node {
	doc := x.env.Journal.Doc()
	goes := map[string]bool{}
	for _, s := range slices.Concat(x.env.Plan.Steps, doc.Plan.Steps) {
		if s.Await != nil && s.Await.NodeGone != "" {
			goes[s.Await.NodeGone] = true
		}
	}
	for _, h := range doc.Without {
		goes[h.Node] = true
	}
	return slices.DeleteFunc(slices.Clone(x.env.Before.Nodes), func(n v1.Node) bool { return goes[n.Name] })
}

func lostNodes(before, after []v1.Node) []string {
	now := map[string]v1.Node{}
	for _, n := range after {
		now[n.Name] = n
	}
	var out []string
	for _, b := range before {
		n, ok := now[b.Name]
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("node %s is gone", b.Name))
		case n.UID != b.UID:
			out = append(out, fmt.Sprintf("node %s was recreated: its uid is %s, it was %s", b.Name, n.UID, b.UID))
		case n.ProviderID != b.ProviderID:
			out = append(out, fmt.Sprintf("node %s has provider id %q, it had %q", b.Name, n.ProviderID, b.ProviderID))
		}
	}
	return out
}

func lostServices(before, after []v1.Service) []string {
	now := map[string]v1.Service{}
	for _, s := range after {
		now[s.Namespace+"/"+s.Name] = s
	}
	var out []string
	for _, b := range before {
		s, ok := now[b.Namespace+"/"+b.Name]
		if !ok || s.UID != b.UID {
			continue // its owner deleted it meanwhile; that is no effect of the migration
		}
		if !slices.Equal(s.Addresses, b.Addresses) {
			out = append(
				out,
				fmt.Sprintf("service %s/%s has the addresses %v, it had %v", b.Namespace, b.Name, s.Addresses, b.Addresses),
			)
		}
	}
	return out
}
