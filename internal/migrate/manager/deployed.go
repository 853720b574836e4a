// Package manager decides which managers should run, and asks each which loops it runs and which leases it leads.
package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// DeployedTargets are the managers of the components in the pods of the Deployments that a plan changes or makes. They
// have no file on a host that would name them. The hosts are by the names of their nodes.
func DeployedTargets(
	ctx context.Context,
	kube kubernetes.Interface,
	p *v1.Plan,
	hosts map[string]hostaccess.Host,
	components ...string,
) ([]Target, error) {
	if p == nil || p.Cluster.Seed != "" {
		return nil, nil
	}
	names := map[string]string{}
	for node, h := range hosts {
		names[node] = h.Name()
	}
	var out []Target
	for _, ref := range ManagerDeployments(p) {
		pods, err := podsOfDeployment(ctx, kube, ref)
		if err != nil {
			return nil, err
		}
		for _, pod := range workloads.SeedPods(pods, components...) {
			pod.Workload = ref
			if h, known := hosts[pod.Node]; known {
				pod = pod.RunningAs(ctx, h)
			}
			host, address := pod.Place(names)
			if pod.RunsNow() && address != "" { // an old pod may end on the same host
				out = AddTargets(out, Target{Component: pod.Component, Host: host, Address: address})
			}
		}
	}
	return out, nil
}

// podsOfDeployment are the pods that a Deployment selects; none when it is not there.
func podsOfDeployment(ctx context.Context, kube kubernetes.Interface, ref string) ([]corev1.Pod, error) {
	parts := strings.Split(ref, "/")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%s is no Deployment in a namespace", ref)
	}
	d, err := kube.AppsV1().Deployments(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of %s: %w", ref, err)
	}
	pods, err := kube.CoreV1().Pods(parts[1]).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", ref, err)
	}
	// A server may hand out more than it was asked for.
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return !selector.Matches(labels.Set(p.Labels)) || workloads.IsMirror(&p)
	}), nil
}

// ManagerDeployments are the Deployments of managers that a plan changes, makes or deletes.
func ManagerDeployments(p *v1.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		isManager := s.Component == component.KCM || s.Component == component.CCM
		isDeployment := strings.HasPrefix(s.Ref, "Deployment/")
		if isManager && isDeployment && !slices.Contains(out, s.Ref) {
			out = append(out, s.Ref)
		}
	}
	return out
}

// DeployedManagers returns the managers of the components that Deployments of the plan run on the hosts.
func DeployedManagers(ctx context.Context, e *step.Env, components []string) ([]Target, error) {
	if e.Seed != nil {
		return nil, nil
	}
	hosts := map[string]hostaccess.Host{}
	for _, h := range e.Hosts {
		hosts[e.NodeOf(h.Name())] = h
	}
	return DeployedTargets(ctx, e.Kube, e.Plan, hosts, components...)
}
