package aws

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// noBalancer answers as the provider does once a load balancer is gone.
type noBalancer struct{ cloudprovider.LoadBalancer }

func (noBalancer) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return nil, false, nil
}

// TestALeavingServiceHasALoadBalancerUntilAllIsRemoved: the controller removes nothing for one that has none. A call that
// ended in its middle left security groups and rules behind for ever.
func TestALeavingServiceHasALoadBalancerUntilAllIsRemoved(t *testing.T) {
	now := metav1.Now()
	balancer := corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}
	for name, c := range map[string]struct {
		service corev1.Service
		cluster string
		want    bool
	}{
		"stays":               {corev1.Service{Spec: balancer}, "c", false},
		"is being deleted":    {corev1.Service{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Spec: balancer}, "c", true},
		"has another type":    {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}, "c", true},
		"of no known cluster": {corev1.Service{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Spec: balancer}, "", false},
	} {
		b := loadBalancers{noBalancer{}, &Cloud{cluster: c.cluster}}
		if _, exists, err := b.GetLoadBalancer(t.Context(), "x", &c.service); err != nil || exists != c.want {
			t.Errorf("%s: it exists: %v, %v", name, exists, err)
		}
	}
}
