package probe

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// pageSize of the list of Services.
const pageSize = 500

// Balancers finds the targets of a cluster: each TCP port of each address that a Service of type LoadBalancer publishes, and the URLs that were named.
func Balancers(kube kubernetes.Interface, urls []string) func(context.Context) (Found, error) {
	return func(ctx context.Context) (Found, error) {
		found := Found{Owners: map[string]bool{}}
		for _, u := range urls {
			found.Targets = append(found.Targets, Target{Kind: v1.PathHTTP, Path: u, Address: u})
		}
		opts := metav1.ListOptions{Limit: pageSize}
		for {
			list, err := kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, opts)
			if err != nil {
				return Found{}, fmt.Errorf("listing services: %w", err)
			}
			for i := range list.Items {
				found.add(&list.Items[i])
			}
			if opts.Continue = list.Continue; opts.Continue == "" {
				return found, nil
			}
		}
	}
}

// add adds the targets of a Service.
func (f *Found) add(s *corev1.Service) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.DeletionTimestamp != nil {
		return
	}
	name := s.Namespace + "/" + s.Name
	f.Owners["Service "+name] = true
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		f.NotProbed = append(f.NotProbed, v1.NotProbed{Kind: v1.PathTCP, Path: name, Why: "it has no address yet"})
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		address := in.IP
		if address == "" {
			address = in.Hostname
		}
		for _, p := range s.Spec.Ports {
			at := net.JoinHostPort(address, strconv.Itoa(int(p.Port)))
			if p.Protocol != corev1.ProtocolTCP && p.Protocol != "" {
				f.NotProbed = append(f.NotProbed, v1.NotProbed{Kind: v1.PathTCP, Path: name + " " + at, Why: fmt.Sprintf("a connection to a port of protocol %s proves nothing", p.Protocol)})
				continue
			}
			f.Targets = append(f.Targets, Target{Kind: v1.PathTCP, Path: name + " " + at, Address: at, Owner: "Service " + name})
		}
	}
}
