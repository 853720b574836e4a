package verify

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/pages"
)

// rolloutProblem says why the rollout of a workload in the seed is not proven; empty when it is. The pods must be those
// of its template, and no other process may act by the leases of the step. A workload that is gone has none, unless the
// step names successors: then it has to be there. When the workload is there, one of these pods has to lead by the
// lease of the step's component. Every other lease may only be held by a manager of another kind that says so itself.
//
// The lease is more than a formality: a pod whose node is away may be gone from the API and run. It loses its lease
// before one of these pods can have it.
func rolloutProblem(ctx context.Context, e *step.Env, s v1.Step) (string, error) {
	if !e.IsInSeed(s.Ref) {
		return "", nil
	}
	live, err := object.ReadLive(ctx, e, s.Ref)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return "", err
	}
	if gone && len(s.Successors) > 0 {
		return s.Ref + " is gone", nil
	} else if gone {
		return noPods(ctx, e, s)
	}
	if why, err := object.RolloutProblem(ctx, e, live); err != nil || why != "" {
		return why, err
	}
	pods, err := object.PodsOf(ctx, e, live)
	if err != nil {
		return "", err
	}
	for _, lease := range s.Leases {
		why := ""
		if lease == s.Component {
			why, err = manager.LeaderProblem(ctx, e, s.Component, lease, pods)
		} else {
			why, err = free(ctx, e, s, lease)
		}
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// noPods is rested for a workload that is gone.
func noPods(ctx context.Context, e *step.Env, s v1.Step) (string, error) {
	left, err := manager.SeedPods(ctx, e, s.Component)
	if err != nil {
		return "", err
	}
	for _, p := range left {
		if !p.Ended {
			return fmt.Sprintf("pod %s of %s is still there", p.Name, s.Component), nil
		}
	}
	for _, lease := range s.Leases {
		if why, err := free(ctx, e, s, lease); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// free says why a manager of the step's component may act by a lease. It is empty when the lease has no holder, or was
// not renewed for longer than it lasts. It is also empty when a manager of another kind leads by it.
func free(ctx context.Context, e *step.Env, s v1.Step, lease string) (string, error) {
	holder, err := e.LeaseClient.Holder(ctx, lease)
	if apierrors.IsNotFound(err) || err == nil && holder == "" {
		return "", nil
	} else if err != nil {
		return "", err
	}
	candidates, err := manager.Candidates(ctx, e)
	if err != nil {
		return "", err
	}
	if b, err := e.LeaseClient.Bind(ctx, lease, candidates); err == nil && b != nil && b.Component != s.Component {
		return "", nil
	}
	expired, err := isSilent(ctx, e, s, lease)
	if err != nil || expired {
		return "", err
	}
	return fmt.Sprintf("lease %s is held by %q", lease, holder), nil
}

// isSilent reports whether a lease was seen without a renewal for longer than it lasts, by this and earlier looks of
// the same step.
func isSilent(ctx context.Context, e *step.Env, s v1.Step, lease string) (bool, error) {
	if e.StaleLeases == nil {
		e.StaleLeases = map[string]*handover.Silence{}
	}
	seen := e.StaleLeases[s.ID+lease]
	if seen == nil {
		seen = &handover.Silence{}
		e.StaleLeases[s.ID+lease] = seen
	}
	return e.LeaseClient.Expired(ctx, lease, seen)
}

// machines are those of machine-controller, whose Nodes come and go with them.
var machines = schema.GroupVersionResource{Group: "cluster.k8s.io", Version: "v1alpha1", Resource: "machines"}

// areAllThere reports whether each node from before is there, and is the same object.
func areAllThere(before, now []v1.Node) bool {
	type identity struct{ name, uid string }
	there := make(map[identity]bool, len(now))
	for i := range now {
		there[identity{now[i].Name, now[i].UID}] = true
	}
	for i := range before {
		if !there[identity{before[i].Name, before[i].UID}] {
			return false
		}
	}
	return true
}

// notReplaced leaves out the nodes from before whose Machine is gone or is being deleted: their owner took them down
// while the migration ran. A node that is gone while its Machine stays was deleted by a manager.
func notReplaced(ctx context.Context, e *step.Env, before, now []v1.Node) ([]v1.Node, error) {
	if areAllThere(before, now) {
		return before, nil
	}
	known, stay := map[string]bool{}, map[string]bool{} // by uid and by name
	for i := range before {
		known[before[i].UID], known[before[i].Name] = true, true
	}
	err := pages.Each(ctx, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return e.Dynamic.Resource(machines).Namespace(metav1.NamespaceAll).List(ctx, o)
	}, func(o runtime.Object) error {
		m, ok := o.(*unstructured.Unstructured)
		if !ok || m.GetDeletionTimestamp() != nil {
			return nil
		}
		for _, field := range []string{"uid", "name"} {
			if value, _, err := unstructured.NestedString(m.Object, "status", "nodeRef", field); err == nil && known[value] {
				stay[value] = true
			}
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return before, nil // no controller manages machines here
	} else if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(before), func(b v1.Node) bool { return !stay[b.UID] && !stay[b.Name] }), nil
}
