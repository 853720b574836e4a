package hosted

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// Owners asks every manager's pod, and the leases. It takes no snapshot. Its error says that the pods could not be listed; what else could not be looked at is
// in Unknown.
func (p *Plane) Owners(ctx context.Context) (Owners, error) {
	out := Owners{Time: p.clock().Now().UTC(), Loops: map[string]Owner{}}
	pods, err := p.Seed.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return out, fmt.Errorf("listing the pods of namespace %s in the seed: %w", p.Namespace, err)
	}
	var asked []snapshot.SeedPod
	for _, m := range snapshot.SeedPods(pods.Items, plan.KCM, plan.CCM) {
		if !m.Ended && (m.Container != "" || m.Running) {
			asked = append(asked, m)
		}
	}
	out.Managers = make([]v1.Manager, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() { out.Managers[i] = p.ask(ctx, m) })
	}
	wg.Wait()
	for _, m := range out.Managers {
		if m.Error != "" {
			out.Unknown = append(out.Unknown, fmt.Sprintf("%s in pod %s: %s", m.Component, m.Host, m.Error))
		}
	}
	for _, loop := range LoopNames() {
		out.Loops[loop] = ownerOf(out.Managers, loop)
	}
	p.leases(ctx, &out)
	return out, nil
}

func (p *Plane) ask(ctx context.Context, pod snapshot.SeedPod) v1.Manager {
	m := v1.Manager{Error: "its pod has no address"}
	if pod.Address != "" {
		var err error
		if m, err = p.scrape(ctx, pod.Component, pod.Name, pod.Address); err != nil {
			m.Error = err.Error()
		}
	}
	m.Component, m.Host, m.Address = pod.Component, pod.Name, pod.Address
	return m
}

func ownerOf(managers []v1.Manager, loop string) Owner {
	var out Owner
	for _, m := range managers {
		switch {
		case !slices.Contains(m.Loops, loop):
		case out.Component == "":
			out = Owner{Component: m.Component, Pod: m.Host}
		default:
			out.Also = append(out.Also, m.Component+"/"+m.Host)
		}
	}
	return out
}

func (p *Plane) leases(ctx context.Context, out *Owners) {
	name := p.Options.LeaseName
	if name == "" {
		name = plan.DefaultLease
	}
	for _, lease := range []string{plan.KCM, plan.CCM, name} {
		l, err := p.User.Kube.CoordinationV1().Leases(plan.Namespace).Get(ctx, lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			out.Unknown = append(out.Unknown, fmt.Sprintf("lease %s: %v", lease, err))
			continue
		}
		seen := v1.Lease{Name: lease, Holder: ptr.Deref(l.Spec.HolderIdentity, ""), DurationSeconds: ptr.Deref(l.Spec.LeaseDurationSeconds, 0),
			Transitions: ptr.Deref(l.Spec.LeaseTransitions, 0), ResourceVersion: l.ResourceVersion}
		if l.Spec.AcquireTime != nil {
			seen.AcquireTime = &l.Spec.AcquireTime.Time
		}
		if l.Spec.RenewTime != nil {
			seen.RenewTime = &l.Spec.RenewTime.Time
		}
		out.Leases = append(out.Leases, seen)
	}
}
