package ccmtrial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// What the managers have to do all the time: load balancers whose settings change, and nodes that join.
const (
	services   = 6
	turnEvery  = 150 * time.Millisecond // a service changes
	joinEvery  = 10                     // so many turns later, a node joins
	annotation = "sim.cloud/turn"
)

// load keeps managers busy until ctx ends. Its error is not nil when it could not. An etcd that is starved by other
// tests answers with a timeout now and then: the turn is left out.
func (w *world) load(ctx context.Context) error {
	ticker := time.NewTicker(turnEvery)
	defer ticker.Stop()
	for i, worked := 0, time.Now(); ; i++ {
		err := w.turn(ctx, i)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err == nil:
			worked = time.Now()
		case !retry.IsTransient(err) || time.Since(worked) > retry.WriteTimeout:
			return fmt.Errorf("keeping the managers busy: %w", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *world) turn(ctx context.Context, i int) error {
	w.turning.Lock()
	defer w.turning.Unlock()
	if err := w.change(ctx, i%services, fmt.Sprint(i)); err != nil || i%joinEvery != 0 {
		return err
	}
	name := fmt.Sprintf("node-%d-%d", time.Now().UnixMilli(), i)
	if err := w.join(ctx, name); err != nil {
		return err
	}
	w.joined = append(w.joined, name)
	return nil
}

// change changes what a Service asks for.
func (w *world) change(ctx context.Context, i int, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	_, err := w.admin.CoreV1().
		Services(metav1.NamespaceDefault).
		Patch(ctx, serviceName(i), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

const servicePrefix = "web-"

func serviceName(i int) string { return fmt.Sprintf("%s%d", servicePrefix, i) }

// furnish makes what the load changes.
func (w *world) furnish(ctx context.Context) error {
	errs := []error{w.join(ctx, "node-a"), w.join(ctx, "node-b")}
	for i := range services {
		_, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName(i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// join makes a machine and registers its Node as a kubelet with an external cloud provider does.
func (w *world) join(ctx context.Context, name string) error {
	err := w.cloud.Apply(simcloud.Change{PutInstances: []api.Instance{
		{
			Name:       name,
			ProviderID: "sim:///" + name,
			Type:       "small",
			Addresses:  []api.Address{{Type: string(corev1.NodeInternalIP), Address: "10.0.0.1"}},
		},
	}})
	if err != nil {
		return err
	}
	now := metav1.Now()
	_, err = w.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{
				Type:               corev1.NodeReady,
				Status:             corev1.ConditionTrue,
				Reason:             "KubeletReady",
				LastHeartbeatTime:  now,
				LastTransitionTime: now,
			},
		}},
	}, metav1.CreateOptions{})
	return err
}

// initialised reports whether a node has been given what a cloud gives.
func (w *world) initialised(ctx context.Context, name string) error {
	n, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !isInitialised(n) {
		return errNotYet
	}
	return nil
}

func isInitialised(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && !slices.ContainsFunc(
		n.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider },
	)
}
