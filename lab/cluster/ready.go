package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/poll"
)

const pollInterval = 200 * time.Millisecond

// staticPods are the components that run on every control-plane host.
var staticPods = []string{APIServer, ControllerManager, Scheduler}

// WaitReady waits until every static pod is Ready, every node is Ready and has a pod range, and the cloud routes every
// range to its node's instance. When ctx ends before, the error says what was missing.
func (c *Cluster) WaitReady(ctx context.Context) error {
	return poll.Until(ctx, pollInterval, "the lab to be ready", func(ctx context.Context) error {
		if err := c.checkAlive(); err != nil {
			return err
		}
		if c.opts.Shape == Units {
			return errors.Join(c.checkUnits(), c.checkNodes(ctx))
		}
		if c.opts.Shape == Deployments {
			return errors.Join(c.checkDeployments(ctx), c.checkNodes(ctx))
		}
		return errors.Join(c.checkPods(ctx), c.checkNodes(ctx))
	})
}

// checkAlive sees what cannot be waited for.
func (c *Cluster) checkAlive() error {
	select {
	case <-c.etcd.Done():
		return poll.Final(fmt.Errorf("etcd ended: %w", c.etcd.Err()))
	case err := <-c.cloud.done:
		c.cloud.done <- err // Stop asks too
		return poll.Final(fmt.Errorf("the simulated cloud ended: %w", err))
	default:
		return nil
	}
}

// checkPods compares the mirror pods with what really runs on the hosts.
func (c *Cluster) checkPods(ctx context.Context) error {
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing static pods: %w", err)
	}
	byName := map[string]*corev1.Pod{}
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
	var missing []error
	for _, h := range c.ControlPlanes() {
		running := map[string]string{}
		for _, p := range h.Kubelet.Pods() {
			if p.Ready {
				running[p.Name] = p.Hash
			}
		}
		for _, component := range staticPods {
			name := component + "-" + h.NodeName
			pod := byName[name]
			switch hash, ok := running[name]; {
			case !ok:
				missing = append(missing, fmt.Errorf("%s on host %q does not run", component, h.Name))
			case pod == nil || pod.Annotations["kubernetes.io/config.hash"] != hash:
				missing = append(missing, fmt.Errorf("the mirror pod %q does not show what runs", name))
			case !podReady(pod):
				missing = append(missing, fmt.Errorf("pod %q is not Ready", name))
			}
		}
	}
	return errors.Join(missing...)
}

func podReady(p *corev1.Pod) bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// checkNodes compares the nodes with the cloud.
func (c *Cluster) checkNodes(ctx context.Context) error {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	byName := map[string]*corev1.Node{}
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	var missing []error
	for _, h := range c.site.hosts {
		switch n := byName[h.NodeName]; {
		case n == nil:
			missing = append(missing, fmt.Errorf("node %q is not registered", h.NodeName))
		case !nodeReady(n):
			missing = append(missing, fmt.Errorf("node %q is not Ready", h.NodeName))
		case n.Spec.PodCIDR == "":
			missing = append(missing, fmt.Errorf("node %q has no pod range", h.NodeName))
		default:
			missing = append(missing, c.cloud.Missing(h, n.Spec.PodCIDR))
		}
	}
	return errors.Join(missing...)
}

func nodeReady(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
