package hosts

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

// WorkloadNamespace is where Workload creates its objects.
const WorkloadNamespace = cluster.WorkloadNamespace

const (
	workloadApp      = "web" // also the name of the Service that selects its pods
	workloadReplicas = 2
	workloadTimeout  = 3 * time.Minute
)

// Workload creates the lab's four Services of type LoadBalancer and, where there are workers, a Deployment of pods that
// do nothing, with a PodDisruptionBudget that spares one of two. It waits, at most three minutes, until each Service
// has its address and every pod is ready. What exists is kept.
func (c *Cluster) Workload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workloadTimeout)
	defer cancel()
	client, err := c.Client()
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: WorkloadNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); existing(err) != nil {
		return fmt.Errorf("creating namespace %q: %w", WorkloadNamespace, err)
	}
	for _, s := range cluster.WorkloadServices() {
		if _, err := client.CoreV1().
			Services(WorkloadNamespace).
			Create(ctx, s, metav1.CreateOptions{}); existing(
			err,
		) != nil {
			return fmt.Errorf("creating Service %q: %w", s.Name, err)
		}
	}
	if c.Workers > 0 {
		if err := c.createPods(ctx, client); err != nil {
			return err
		}
	}
	return poll.Until(
		ctx,
		500*time.Millisecond,
		"the workload",
		func(ctx context.Context) error { return c.workloadReady(ctx, client) },
	)
}

// createPods makes the Deployment and its budget.
func (c *Cluster) createPods(ctx context.Context, client kubernetes.Interface) error {
	labels := map[string]string{"app": workloadApp}
	replicas, available := int32(workloadReplicas), intstr.FromInt32(workloadReplicas-1)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: workloadApp},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: workloadApp, Image: pauseImage, ImagePullPolicy: corev1.PullNever,
				}}},
			},
		},
	}
	if _, err := client.AppsV1().
		Deployments(WorkloadNamespace).
		Create(ctx, deployment, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating Deployment %q: %w", workloadApp, err)
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: workloadApp},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &available,
			Selector:     &metav1.LabelSelector{MatchLabels: labels},
		},
	}
	if _, err := client.PolicyV1().
		PodDisruptionBudgets(WorkloadNamespace).
		Create(ctx, budget, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating PodDisruptionBudget %q: %w", workloadApp, err)
	}
	return nil
}

// workloadReady tells what is missing.
func (c *Cluster) workloadReady(ctx context.Context, client kubernetes.Interface) error {
	services, err := client.CoreV1().Services(WorkloadNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	var missing []error
	for i := range services.Items {
		if s := &services.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			missing = append(missing, fmt.Errorf("service %q has no load balancer yet", s.Name))
		}
	}
	if c.Workers > 0 {
		d, err := client.AppsV1().Deployments(WorkloadNamespace).Get(ctx, workloadApp, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading Deployment %q: %w", workloadApp, err)
		}
		if d.Status.ReadyReplicas != workloadReplicas {
			missing = append(
				missing,
				fmt.Errorf("deployment %q has %d of %d pods ready", workloadApp, d.Status.ReadyReplicas, workloadReplicas),
			)
		}
	}
	return errors.Join(missing...)
}

// existing takes an object that is there already for created.
func existing(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
