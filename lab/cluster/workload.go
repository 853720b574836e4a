package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/poll"
)

// WorkloadNamespace is where Workload creates its Services.
const WorkloadNamespace = "shop"

const annotationPrefix = "service.beta.kubernetes.io/aws-load-balancer-"

// workloadServices are the Services of the workload, one of each kind that the provider treats differently.
var workloadServices = []struct {
	name        string
	annotations map[string]string
	ports       []int32
	local       bool // externalTrafficPolicy: Local
}{
	{name: "web", ports: []int32{80, 443}}, // classic load balancer
	{name: "stream", ports: []int32{9000}, annotations: map[string]string{annotationPrefix + "type": "nlb"}},
	{name: "backoffice", ports: []int32{8080}, annotations: map[string]string{annotationPrefix + "internal": "true"}},
	{name: "gateway", ports: []int32{443}, local: true, annotations: map[string]string{
		annotationPrefix + "proxy-protocol":                    "*",
		annotationPrefix + "cross-zone-load-balancing-enabled": "true",
		annotationPrefix + "additional-resource-tags":          "team=shop,stage=lab",
		annotationPrefix + "connection-draining-enabled":       "true",
		annotationPrefix + "connection-draining-timeout":       "60",
	}},
}

// Workload creates the Services of the cloud's kind, four of type LoadBalancer on AWS. It waits until each has its
// address and the cloud routes to every node. It may be called again: what exists is kept.
func (c *Cluster) Workload(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: WorkloadNamespace}}
	_, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err := existing(err); err != nil {
		return fmt.Errorf("creating namespace %q: %w", WorkloadNamespace, err)
	}
	if err := GrantProvider(ctx, c.client, c.site.kind); err != nil {
		return err
	}
	for _, service := range c.site.kind.Services() {
		_, err := c.client.CoreV1().Services(WorkloadNamespace).Create(ctx, service, metav1.CreateOptions{})
		if err := existing(err); err != nil {
			return fmt.Errorf("creating Service %q: %w", WorkloadNamespace+"/"+service.Name, err)
		}
	}
	return poll.Until(ctx, pollInterval, "the workload", func(ctx context.Context) error {
		return errors.Join(c.checkAlive(), c.checkServices(ctx), c.checkNodes(ctx))
	})
}

// GrantProvider gives the in-tree provider's own account the rights of its kind.
func GrantProvider(ctx context.Context, client kubernetes.Interface, kind Kind) error {
	if rules := kind.Rights(); len(rules) > 0 {
		return grant(ctx, client, "cloud-provider", rules...)
	}
	return nil
}

// WorkloadServices are the Services of the workload on AWS, new ones at each call.
func WorkloadServices() []*corev1.Service {
	var out []*corev1.Service
	for _, s := range workloadServices {
		service := NewService(s.name, s.annotations, s.ports...)
		if s.local {
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		out = append(out, service)
	}
	return out
}

// NewService is a Service of type LoadBalancer with TCP ports.
func NewService(name string, annotations map[string]string, ports ...int32) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: maps.Clone(annotations)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
		},
	}
	for _, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("port-%d", port), Port: port, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP,
		})
	}
	return service
}

func (c *Cluster) checkServices(ctx context.Context) error {
	services, err := c.client.CoreV1().Services(WorkloadNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	var missing []error
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			missing = append(missing, fmt.Errorf("service %q has no load balancer after %s", s.Namespace+"/"+s.Name,
				time.Since(s.CreationTimestamp.Time).Round(time.Second)))
		}
	}
	return errors.Join(missing...)
}
