package difftest

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
	"github.com/transplant-dev/transplant/lab/simcloud/provider"
)

const (
	// patience is how long anything may take: much longer than it does, even on a busy machine.
	patience = 60 * time.Second
	// stillness is for how long nothing has to happen before a world counts as settled. Upstream looks at routes every 10
	// s, but what is waited for of them has happened before.
	stillness = 4 * time.Second
)

// world is a cluster without machines, a cloud, and the manager of one implementation.
type world struct {
	implementation string
	dir            string
	program        string // sim-cloud-controller-manager
	api            *apiserver.Server
	admin          kubernetes.Interface
	cloud          *simcloud.Cloud
	manager        *ccmlab.Manager
}

// flags are those of both managers. The periods are short, for both.
var flags = []string{
	"--configure-cloud-routes=true",
	"--cluster-cidr=10.244.0.0/16",
	"--node-monitor-period=1s",
	"--node-status-update-frequency=3s",
	"--v=2",
}

// start starts the manager.
func (w *world) start() error {
	config := filepath.Join(w.dir, "cloud.yaml")
	if err := (provider.Config{Endpoint: w.cloud.URL(), Caller: w.implementation}).WriteFile(config); err != nil {
		return err
	}
	var err error
	w.manager, err = ccmlab.Start(ccmlab.Options{
		API: w.api, Name: w.implementation, Program: w.program, Dir: w.dir,
		Flags: append([]string{
			"--implementation=" + w.implementation, "--cloud-provider=" + provider.Name, "--cloud-config=" + config,
		}, flags...),
	})
	return err
}

// eventually waits until look returns nil. Its error says what was missing last.
func (w *world) eventually(ctx context.Context, what string, look func(context.Context) error) error {
	return poll.Within(ctx, 100*time.Millisecond, patience, what, func(ctx context.Context) error {
		if err := w.manager.Alive(); err != nil {
			return err
		}
		return look(ctx)
	})
}

// settle waits until nothing has changed for a while, in the cluster and in the cloud.
func (w *world) settle(ctx context.Context) error {
	var before Snapshot
	var since time.Time
	return w.eventually(ctx, "everything to settle", func(ctx context.Context) error {
		now, err := w.snapshot(ctx)
		if err != nil {
			return err
		}
		if !now.equal(before) {
			before, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < stillness {
			return fmt.Errorf("the last change was %s ago", quiet)
		}
		return nil
	})
}

// machine makes an instance, and a Ready node for it as a kubelet registers one.
func (w *world) machine(ctx context.Context, name string, change func(*api.Instance, *corev1.Node)) error {
	instance := api.Instance{
		Name:       name,
		ProviderID: "sim:///" + name,
		Type:       "small",
		Zone:       "zone-a",
		Region:     "region",
		Addresses:  addresses("10.0.0.1"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{corev1.LabelHostname: name},
			Annotations: map[string]string{},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{uninitialized}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
			},
		},
	}
	if change != nil {
		change(&instance, node)
	}
	if instance.Name != "" {
		if err := w.cloud.Apply(simcloud.Change{PutInstances: []api.Instance{instance}}); err != nil {
			return err
		}
	}
	if _, err := w.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating node %q: %w", name, err)
	}
	return nil
}

// instance changes an instance, behind everybody's back.
func (w *world) instance(name string, change func(*api.Instance)) error {
	for _, instance := range w.cloud.State().Instances {
		if instance.Name == name {
			change(&instance)
			return w.cloud.Apply(simcloud.Change{PutInstances: []api.Instance{instance}})
		}
	}
	return fmt.Errorf("there is no instance %q", name)
}

// node changes a node; ready changes its condition, as its kubelet or the node lifecycle controller does.
func (w *world) node(ctx context.Context, name string, change func(*corev1.Node)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = w.admin.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) ready(ctx context.Context, name string, status corev1.ConditionStatus) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status, node.Status.Conditions[i].LastTransitionTime = status, metav1.Now()
			}
		}
		_, err = w.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// service makes a Service of type LoadBalancer with one port.
func (w *world) service(ctx context.Context, name string, port int32, change func(*corev1.Service)) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "first", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: port}},
		},
	}
	if change != nil {
		change(service)
	}
	if _, err := w.admin.CoreV1().
		Services(metav1.NamespaceDefault).
		Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating service %q: %w", name, err)
	}
	return nil
}

func (w *world) changeService(ctx context.Context, name string, change func(*corev1.Service)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		service, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(service)
		_, err = w.admin.CoreV1().Services(metav1.NamespaceDefault).Update(ctx, service, metav1.UpdateOptions{})
		return err
	})
}

var uninitialized = corev1.Taint{
	Key:    "node.cloudprovider.kubernetes.io/uninitialized",
	Value:  "true",
	Effect: corev1.TaintEffectNoSchedule,
}

func addresses(ips ...string) []api.Address {
	var all []api.Address
	for _, ip := range ips {
		all = append(all, api.Address{Type: string(corev1.NodeInternalIP), Address: ip})
	}
	return all
}
