package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Clients makes what the probes ask the API with. It takes the configuration that everything else uses, but opens
// connections of their own. Over a shared one a probe would see what else goes on there. Requests are neither limited
// in rate nor counted.
//
// Two kinds of reads are made. A controller keeps its connection, and notices when the API server at its other end
// restarts. kubectl makes a new one each time, and is led to another API server by the balancer.
func Clients(cfg *rest.Config) (kube kubernetes.Interface, reads map[string]func(context.Context) error, err error) {
	kept := own(cfg)
	if kube, err = kubernetes.NewForConfig(kept); err != nil {
		return nil, nil, err
	}
	reader, err := kubernetes.NewForConfig(own(cfg))
	if err != nil {
		return nil, nil, err
	}
	each := own(cfg)
	each.NextProtos = []string{"http/1.1"}
	each.Wrap(func(next http.RoundTripper) http.RoundTripper { return closing{next} })
	fresh, err := kubernetes.NewForConfig(each)
	if err != nil {
		return nil, nil, err
	}
	return kube, map[string]func(context.Context) error{
		"over a kept connection":          apiReader(reader),
		"over a new connection each time": apiReader(fresh),
	}, nil
}

// own is a configuration whose transport is not shared.
func own(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.Timeout, c.QPS, c.WrapTransport = 0, -1, nil // a timeout of the client would end its watches
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	c.Dial = dialer.DialContext
	return c
}

// apiReader asks for an object that every cluster has, past the caches of the API server. It does not try again as
// client-go does by itself.
func apiReader(kube kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/kube-system").MaxRetries(0).Do(ctx).Error()
	}
}

// closing closes the connection behind each request.
type closing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c closing) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Close = true
	return c.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport underneath.
func (c closing) WrappedRoundTripper() http.RoundTripper { return c.next }

// pageSize of the list of Services.
const pageSize = 500

// Balancers finds the targets of a cluster. These are each TCP port of each address that a Service of type LoadBalancer
// publishes, and the URLs that were named.
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
				f.NotProbed = append(
					f.NotProbed,
					v1.NotProbed{
						Kind: v1.PathTCP,
						Path: name + " " + at,
						Why:  fmt.Sprintf("a connection to a port of protocol %s proves nothing", p.Protocol),
					},
				)
				continue
			}
			f.Targets = append(f.Targets, Target{
				Kind:    v1.PathTCP,
				Path:    name + " " + at,
				Address: at,
				Owner:   "Service " + name,
			})
		}
	}
}
