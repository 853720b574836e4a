package manager

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// SeedPods are the pods of the control plane that run one of the components.
func SeedPods(ctx context.Context, e *step.Env, components ...string) ([]collect.SeedPod, error) {
	pods, err := e.Seed.Kube.CoreV1().Pods(e.Seed.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of namespace %s in the seed: %w", e.Seed.Namespace, err)
	}
	return workloads.SeedPods(pods.Items, components...), nil
}

// seedTargets are the managers' pods that may run. One whose container was never started does not; one that has no
// address is unknown.
func seedTargets(ctx context.Context, e *step.Env, components ...string) ([]Target, []v1.Manager, error) {
	pods, err := SeedPods(ctx, e, components...)
	if err != nil {
		return nil, nil, err
	}
	var out []Target
	var unknown []v1.Manager
	for _, p := range pods {
		switch {
		case p.Ended || p.Container == "" && !p.Running:
		case p.Address == "":
			unknown = append(unknown, v1.Manager{Component: p.Component, Host: p.Name, Error: "its pod has no address"})
		default:
			out = append(out, Target{p.Component, p.Name, p.Address, ""})
		}
	}
	return out, unknown, nil
}

// ProcessesOf lists the processes of a component on a host, or in a pod of the seed.
func ProcessesOf(e *step.Env, component, host string) (func(context.Context) ([]v1.Process, error), error) {
	if e.Seed != nil {
		return func(ctx context.Context) ([]v1.Process, error) { return podProcesses(ctx, e, component, host) }, nil
	}
	h, err := e.Host(host)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, component) }, nil
}

// podProcesses is the container of a component in a pod, as a process: its id names one life of it. None when the
// kubelet says that it has ended for good. A pod that is gone is an error: whether its process ended first can no
// longer be read, see podEnd.
func podProcesses(ctx context.Context, e *step.Env, component, name string) ([]v1.Process, error) {
	pod, err := e.Seed.Kube.CoreV1().Pods(e.Seed.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading pod %s/%s in the seed: %w", e.Seed.Namespace, name, err)
	}
	for _, p := range workloads.SeedPods([]corev1.Pod{*pod}, component) {
		if !p.Ended {
			return []v1.Process{ProcessOf(p)}, nil
		}
	}
	return nil, nil
}

// ProcessOf returns the container of a pod as a process with an identity of its own.
func ProcessOf(p collect.SeedPod) v1.Process {
	return v1.Process{PID: int(p.Restarts) + 1, StartTicks: ContainerSum(p.UID, p.Container), State: "S"}
}

// ContainerSum names one life of a container: no other container, and no other pod of that name, has it.
func ContainerSum(uid, container string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(uid + "/" + container)) // a hash's Write never fails
	return h.Sum64()
}

// LeaderProblem says why none of the present pods of a workload in the seed leads by a lease, as they say themselves.
// It is empty when exactly one does.
func LeaderProblem(ctx context.Context, e *step.Env, component, lease string, among []corev1.Pod) (string, error) {
	managers, err := Ask(ctx, e, component)
	if err != nil {
		return "", err
	}
	var leaders []string
	for _, m := range managers {
		if m.Error != "" {
			return fmt.Sprintf("%s in pod %s did not answer: %s", m.Component, m.Host, m.Error), nil
		}
		if slices.Contains(m.Leads, lease) {
			leaders = append(leaders, m.Host)
		}
	}
	switch {
	case len(leaders) == 0:
		return fmt.Sprintf("no pod of %s leads by lease %s yet", component, lease), nil
	case len(leaders) > 1:
		return fmt.Sprintf("%s all say that they lead by lease %s", strings.Join(leaders, " and "), lease), nil
	case !slices.ContainsFunc(among, func(p corev1.Pod) bool { return p.Name == leaders[0] }):
		return fmt.Sprintf("pod %s, which leads by lease %s, is none of the Deployment's", leaders[0], lease), nil
	}
	return "", nil
}
