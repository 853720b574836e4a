package field

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workers makes further workers, each like the first of the seed but for its name, address, instance and pod CIDR.
func (f *Field) workers(ctx context.Context) error {
	if f.options.Workers == 0 {
		return nil
	}
	nodes, err := f.kube.CoreV1().
		Nodes().
		List(ctx, metav1.ListOptions{LabelSelector: "!node-role.kubernetes.io/control-plane"})
	if err != nil {
		return err
	}
	pattern := nodes.Items[0]
	for i := range f.options.Workers {
		n := pattern.DeepCopy()
		ip := fmt.Sprintf("10.0.%d.%d", 2+i/200, 10+i%200)
		n.ObjectMeta = metav1.ObjectMeta{
			Name:        strings.Replace(pattern.Name, "10-0-1-11", strings.ReplaceAll(ip[:], ".", "-"), 1),
			Labels:      n.Labels,
			Annotations: n.Annotations,
		}
		n.Labels["kubernetes.io/hostname"] = n.Name
		n.Spec.ProviderID = fmt.Sprintf(
			"%s%04x",
			strings.TrimSuffix(pattern.Spec.ProviderID, pattern.Spec.ProviderID[len(pattern.Spec.ProviderID)-4:]),
			0x1000+i,
		)
		n.Spec.PodCIDR = fmt.Sprintf("10.200.%d.%d/28", 16+i/16, i%16*16)
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
		for j := range n.Status.Addresses {
			own := map[corev1.NodeAddressType]string{corev1.NodeInternalIP: ip}
			n.Status.Addresses[j].Address = own[n.Status.Addresses[j].Type]
			if n.Status.Addresses[j].Address == "" {
				n.Status.Addresses[j].Address = n.Name
			}
		}
		n.Status.VolumesInUse = nil
		status := n.Status
		made, err := f.kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status = status
		if _, err := f.kube.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// balancers makes the Service that every field has, and one more for each ten further workers.
func (f *Field) balancers(ctx context.Context) error {
	nodes, err := f.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range 1 + f.options.Workers/10 {
		name := "web"
		if i > 0 {
			name = fmt.Sprintf("web-%d", i)
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{
				{
					Name:       "http",
					Port:       80,
					NodePort:   int32(30080 + i),
					TargetPort: intstr.FromInt32(8080),
					Protocol:   corev1.ProtocolTCP,
				},
			},
		}}
		if err := f.balance(ctx, service, nodes.Items); err != nil {
			return err
		}
	}
	return nil
}
