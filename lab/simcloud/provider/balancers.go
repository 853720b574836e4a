package provider

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// The annotations of a Service that the provider understands. Every annotation with their prefix is a setting of the
// load balancer.
const (
	annotationPrefix = "sim.cloud/"
	// AnnotationIngress chooses where a load balancer is reached: hostname (default) or ip.
	AnnotationIngress = annotationPrefix + "ingress"
	// AnnotationIPMode is the ipMode that the status gets: VIP or Proxy.
	AnnotationIPMode = annotationPrefix + "ip-mode"
)

// balancers implements cloudprovider.LoadBalancer.
type balancers struct{ client *client }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (balancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancers) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	answer, err := b.client.call(ctx, api.GetLoadBalancer, api.Request{Name: b.GetLoadBalancerName(ctx, cluster, service)})
	if err != nil || answer.LoadBalancer == nil {
		return nil, false, err
	}
	return status(*answer.LoadBalancer, service), true, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancers) EnsureLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	lb := wanted(b.GetLoadBalancerName(ctx, cluster, service), service)
	for range b.client.ensureRequests - 1 {
		if _, err := b.client.call(ctx, api.EnsureLoadBalancer, api.Request{LoadBalancer: &lb}); err != nil {
			return nil, err
		}
	}
	lb.Members = members(nodes)
	answer, err := b.client.call(ctx, api.EnsureLoadBalancer, api.Request{LoadBalancer: &lb})
	if err != nil {
		return nil, err
	}
	if answer.LoadBalancer == nil {
		return nil, errors.New("the cloud did not say what became of the load balancer")
	}
	return status(*answer.LoadBalancer, service), nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancers) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	_, err := b.client.call(
		ctx,
		api.UpdateLoadBalancer,
		api.Request{Name: b.GetLoadBalancerName(ctx, cluster, service), Members: members(nodes)},
	)
	return err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	_, err := b.client.call(ctx, api.DeleteLoadBalancer, api.Request{Name: b.GetLoadBalancerName(ctx, cluster, service)})
	return err
}

// wanted is the load balancer of a Service, without members.
func wanted(name string, service *corev1.Service) api.LoadBalancer {
	lb := api.LoadBalancer{Name: name, Service: service.Namespace + "/" + service.Name, Settings: map[string]string{}}
	for key, value := range service.Annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			lb.Settings[key] = value
		}
	}
	if len(service.Spec.LoadBalancerSourceRanges) > 0 {
		lb.Settings["sourceRanges"] = strings.Join(service.Spec.LoadBalancerSourceRanges, ",")
	}
	if port := service.Spec.HealthCheckNodePort; port != 0 {
		lb.Settings["healthCheckNodePort"] = strconv.Itoa(int(port))
	}
	for _, p := range service.Spec.Ports {
		lb.Ports = append(lb.Ports, api.Port{Protocol: string(p.Protocol), Port: p.Port, NodePort: p.NodePort})
	}
	lb.Ingress = api.Ingress{Kind: service.Annotations[AnnotationIngress], IPMode: service.Annotations[AnnotationIPMode]}
	return lb
}

// members are the instances of nodes. A node that the cloud cannot know yet is left out, as real providers do.
func members(nodes []*corev1.Node) []string {
	out := []string{}
	for _, node := range nodes {
		if node.Spec.ProviderID != "" {
			out = append(out, node.Spec.ProviderID)
		}
	}
	return out
}

// status is what a Service is told of its load balancer.
func status(lb api.LoadBalancer, service *corev1.Service) *corev1.LoadBalancerStatus {
	ingress := corev1.LoadBalancerIngress{Hostname: lb.Ingress.Hostname, IP: lb.Ingress.IP}
	if mode := corev1.LoadBalancerIPMode(lb.Ingress.IPMode); mode != "" && lb.Ingress.IP != "" {
		ingress.IPMode = &mode
	}
	for _, p := range service.Spec.Ports {
		if mixed(service) { // which port became what is told only where it is in question
			ingress.Ports = append(ingress.Ports, corev1.PortStatus{Port: p.Port, Protocol: p.Protocol})
		}
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{ingress}}
}

func mixed(service *corev1.Service) bool {
	for _, p := range service.Spec.Ports {
		if p.Protocol != service.Spec.Ports[0].Protocol {
			return true
		}
	}
	return false
}

// IsThrottled reports whether the cloud refused a call because there were too many.
func IsThrottled(err error) bool {
	refused := &Error{}
	return errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests
}
