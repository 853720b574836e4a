package hosted

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/program"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
	"github.com/transplant-dev/transplant/internal/together"
)

// survey is one look at who runs the loops of a cluster: the managers' pods, their cloud configs, and what they said.
type survey struct {
	plane   *Plane
	pods    []collect.SeedPod
	configs []*v1.CloudConfig // of the pods, where they were read
	found   Owners
}

// Owners asks every manager's pod, and the leases. It takes no snapshot. Its error says that the pods could not be
// listed; what else could not be looked at is in Unknown.
func (p *Plane) Owners(ctx context.Context) (Owners, error) {
	s, pods, err := newSurvey(ctx, p)
	if err != nil {
		return s.found, err
	}
	s.askManagers(ctx)
	s.readLeases(ctx)
	s.readConfigs(ctx, pods)
	s.nameOwners()
	return s.found, nil
}

// newSurvey begins a look with the pods of managers that run. It returns all pods of the namespace, too.
func newSurvey(ctx context.Context, p *Plane) (*survey, []corev1.Pod, error) {
	s := &survey{plane: p, found: Owners{Time: p.clock().Now().UTC(), Loops: map[string]Owner{}}}
	pods, err := p.Seed.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, nil, fmt.Errorf("listing the pods of namespace %s in the seed: %w", p.Namespace, err)
	}
	for _, m := range workloads.SeedPods(pods.Items, component.KCM, component.CCM) {
		if !m.Ended && (m.Container != "" || m.Running) {
			s.pods = append(s.pods, m)
		}
	}
	return s, pods.Items, nil
}

// askManagers asks every manager which loops it runs.
func (s *survey) askManagers(ctx context.Context) {
	s.found.Managers = make([]v1.Manager, len(s.pods))
	var wg together.Group
	for i, m := range s.pods {
		wg.Go(func() { s.found.Managers[i] = s.askOne(ctx, m) })
	}
	wg.Wait()
	for _, m := range s.found.Managers {
		if m.Error != "" {
			s.found.Unknown = append(s.found.Unknown, fmt.Sprintf("%s in pod %s: %s", m.Component, m.Host, m.Error))
		}
	}
}

func (s *survey) askOne(ctx context.Context, pod collect.SeedPod) v1.Manager {
	m := v1.Manager{Error: "its pod has no address"}
	if pod.Address != "" {
		var err error
		if m, err = s.plane.scrape(ctx, pod.Component, pod.Name, pod.Address); err != nil {
			m.Error = mask.Error(err)
		}
	}
	m.Component, m.Host, m.Address = pod.Component, pod.Name, pod.Address
	return m
}

// readConfigs reads the cloud configs of the managers, where they decide whether the cluster has a loop that no manager
// is seen to run.
func (s *survey) readConfigs(ctx context.Context, pods []corev1.Pod) {
	s.configs = make([]*v1.CloudConfig, len(s.pods))
	if ownerOf(s.found.Managers, string(controllernames.Route)).Component != "" {
		return
	}
	for i, m := range s.pods {
		if !clusterview.DependsOnConfig(s.provider(m), m.Flags) {
			continue
		}
		at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == m.Name })
		var err error
		s.configs[i], err = hosted.PodCloudConfig(ctx, s.plane.Seed.Kube, &pods[at], m.Component, s.provider(m))
		if err != nil {
			s.found.Unknown = append(
				s.found.Unknown,
				fmt.Sprintf("whether %s in pod %s has a route loop, which its cloud config says: %v", m.Component, m.Name, err),
			)
		}
	}
}

// nameOwners names the owner of each loop that the cluster has, or that a manager runs.
func (s *survey) nameOwners() {
	silent, expected := s.silent(), s.expected()
	for _, loop := range LoopNames() {
		owner := ownerOf(s.found.Managers, loop)
		has := slices.Contains(expected, loop)
		for i, m := range s.pods {
			if silent[i] && has && !clusterview.IsSwitchedOff(m.Flags["controllers"], loop) {
				owner = owner.and(Owner{Component: m.Component, Pod: m.Name, ByLease: true})
			}
		}
		if has || owner.Component != "" {
			s.found.Loops[loop] = owner
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

// expected are the loops that this cluster has, by the flags and the cloud configs of its managers. They are all loops
// while there is no manager.
func (s *survey) expected() []string {
	if len(s.pods) == 0 {
		return LoopNames()
	}
	var out []string
	for i, m := range s.pods {
		for _, loop := range clusterview.ExpectedLoops(s.provider(m), m.Flags, s.configs[i]) {
			if !slices.Contains(out, loop) {
				out = append(out, loop)
			}
		}
	}
	return out
}

// provider is that of the cluster: the one that was given, or the one that a manager was started with.
func (s *survey) provider(m collect.SeedPod) string {
	if name := m.Flags["cloud-provider"]; s.plane.Provider == "" && name != "external" {
		return name
	}
	return s.plane.Provider
}

// silent reports of each pod that was asked whether it leads without saying which loops it runs. It answers, its
// version never says, it has a provider, and it holds its lease.
func (s *survey) silent() []bool {
	out := make([]bool, len(s.pods))
	for i, m := range s.pods {
		answer := s.found.Managers[i]
		if answer.Error != "" || len(answer.Loops) > 0 || m.Flags["cloud-provider"] == "external" ||
			program.ShowsLoops(m.Component, s.provider(m), m.Image) {
			continue
		}
		alone := 0
		for _, other := range s.pods {
			if other.Component == m.Component {
				alone++
			}
		}
		for _, l := range s.found.Leases {
			if l.Name != m.Component || l.Holder == "" || l.RenewTime == nil ||
				s.plane.clock().Since(*l.RenewTime) > 2*time.Duration(l.DurationSeconds)*time.Second {
				continue
			}
			// A pod on the network of its node holds the lease under the node's name.
			out[i] = strings.HasPrefix(l.Holder, m.Name+"_") || slices.Contains(answer.Leads, m.Component) || alone == 1
		}
	}
	return out
}

func (s *survey) readLeases(ctx context.Context) {
	name := s.plane.Options.LeaseName
	if name == "" {
		name = component.MigrationLease
	}
	for _, lease := range []string{component.KCM, component.CCM, name} {
		l, err := s.plane.User.Kube.CoordinationV1().Leases(component.Namespace).Get(ctx, lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			s.found.Unknown = append(s.found.Unknown, fmt.Sprintf("lease %s: %v", lease, err))
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
		s.found.Leases = append(s.found.Leases, seen)
	}
}
