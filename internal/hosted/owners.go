package hosted

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/program"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// Owners asks every manager's pod, and the leases. It takes no snapshot. Its error says that the pods could not be
// listed; what else could not be looked at is in Unknown.
func (p *Plane) Owners(ctx context.Context) (Owners, error) {
	out := Owners{Time: p.clock().Now().UTC(), Loops: map[string]Owner{}}
	pods, err := p.Seed.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return out, fmt.Errorf("listing the pods of namespace %s in the seed: %w", p.Namespace, err)
	}
	var asked []collect.SeedPod
	for _, m := range workloads.SeedPods(pods.Items, component.KCM, component.CCM) {
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
	p.leases(ctx, &out)
	p.judge(asked, p.configs(ctx, pods.Items, asked, &out), &out)
	return out, nil
}

func (p *Plane) ask(ctx context.Context, pod collect.SeedPod) v1.Manager {
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

// configs reads the cloud configs of the managers, where they decide whether the cluster has a loop that nobody is seen
// to run.
func (p *Plane) configs(
	ctx context.Context,
	pods []corev1.Pod,
	asked []collect.SeedPod,
	seen *Owners,
) []*v1.CloudConfig {
	out := make([]*v1.CloudConfig, len(asked))
	if ownerOf(seen.Managers, string(controllernames.Route)).Component != "" {
		return out
	}
	for i, m := range asked {
		if !clusterview.DependsOnConfig(p.provider(m), m.Flags) {
			continue
		}
		at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == m.Name })
		var err error
		if out[i], err = hosted.PodCloudConfig(ctx, p.Seed.Kube, &pods[at], m.Component, p.provider(m)); err != nil {
			seen.Unknown = append(
				seen.Unknown,
				fmt.Sprintf("whether %s in pod %s has a route loop, which its cloud config says: %v", m.Component, m.Name, err),
			)
		}
	}
	return out
}

// judge names the owner of each loop that the cluster has, or that somebody runs.
func (p *Plane) judge(asked []collect.SeedPod, configs []*v1.CloudConfig, seen *Owners) {
	silent, expected := p.silent(asked, seen), p.expected(asked, configs)
	for _, loop := range LoopNames() {
		owner := ownerOf(seen.Managers, loop)
		has := slices.Contains(expected, loop)
		for i, m := range asked {
			if silent[i] && has && !clusterview.IsSwitchedOff(m.Flags["controllers"], loop) {
				owner = owner.and(Owner{Component: m.Component, Pod: m.Name, ByLease: true})
			}
		}
		if has || owner.Component != "" {
			seen.Loops[loop] = owner
		}
	}
}

func ownerOf(managers []v1.Manager, loop string) Owner {
	var out Owner
	for _, m := range managers {
		if slices.Contains(m.Loops, loop) {
			out = out.and(Owner{Component: m.Component, Pod: m.Host})
		}
	}
	return out
}

// and adds another pod that runs the loop.
func (o Owner) and(other Owner) Owner {
	if o.Component == "" {
		return other
	}
	o.Also = append(o.Also, other.Component+"/"+other.Pod)
	return o
}

// expected are the loops that this cluster has, by the flags and the cloud configs of its managers; all of them while
// there is no manager.
func (p *Plane) expected(asked []collect.SeedPod, configs []*v1.CloudConfig) []string {
	if len(asked) == 0 {
		return LoopNames()
	}
	var out []string
	for i, m := range asked {
		for _, loop := range clusterview.ExpectedLoops(p.provider(m), m.Flags, configs[i]) {
			if !slices.Contains(out, loop) {
				out = append(out, loop)
			}
		}
	}
	return out
}

// provider is that of the cluster: the one that was given, or the one that a manager was started with.
func (p *Plane) provider(m collect.SeedPod) string {
	if name := m.Flags["cloud-provider"]; p.Provider == "" && name != "external" {
		return name
	}
	return p.Provider
}

// silent tells of each pod that was asked whether it leads without saying which loops it runs: it answers, its version
// is one that never says, it is no manager without a provider, and it holds its lease.
func (p *Plane) silent(asked []collect.SeedPod, seen *Owners) []bool {
	out := make([]bool, len(asked))
	for i, m := range asked {
		answer := seen.Managers[i]
		if answer.Error != "" || len(answer.Loops) > 0 || m.Flags["cloud-provider"] == "external" ||
			program.ShowsLoops(m.Component, p.provider(m), m.Image) {
			continue
		}
		alone := 0
		for _, other := range asked {
			if other.Component == m.Component {
				alone++
			}
		}
		for _, l := range seen.Leases {
			if l.Name != m.Component || l.Holder == "" || l.RenewTime == nil ||
				p.clock().Since(*l.RenewTime) > 2*time.Duration(l.DurationSeconds)*time.Second {
				continue
			}
			// A pod on the network of its node holds the lease under the node's name.
			out[i] = strings.HasPrefix(l.Holder, m.Name+"_") || slices.Contains(answer.Leads, m.Component) || alone == 1
		}
	}
	return out
}

func (p *Plane) leases(ctx context.Context, out *Owners) {
	name := p.Options.LeaseName
	if name == "" {
		name = layout.DefaultLease
	}
	for _, lease := range []string{component.KCM, component.CCM, name} {
		l, err := p.User.Kube.CoordinationV1().Leases(layout.Namespace).Get(ctx, lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			out.Unknown = append(out.Unknown, fmt.Sprintf("lease %s: %v", lease, err))
			continue
		}
		seen := v1.Lease{
			Name:            lease,
			Holder:          ptr.Deref(l.Spec.HolderIdentity, ""),
			DurationSeconds: ptr.Deref(l.Spec.LeaseDurationSeconds, 0),
			Transitions:     ptr.Deref(l.Spec.LeaseTransitions, 0),
			ResourceVersion: l.ResourceVersion,
		}
		if l.Spec.AcquireTime != nil {
			seen.AcquireTime = &l.Spec.AcquireTime.Time
		}
		if l.Spec.RenewTime != nil {
			seen.RenewTime = &l.Spec.RenewTime.Time
		}
		out.Leases = append(out.Leases, seen)
	}
}
