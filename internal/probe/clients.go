package probe

import (
	"context"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Clients makes what the probes ask the API with, from the configuration that everything else uses, but over connections of their own: over a shared one a
// probe would see what else goes on there. Requests are neither limited in rate nor counted.
//
// Two kinds of reads are made. A controller keeps its connection, and notices when the API server at its other end restarts; kubectl makes a new one each
// time, and is led to another API server by the balancer.
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
		"over a kept connection":          read(reader),
		"over a new connection each time": read(fresh),
	}, nil
}

// own is a configuration whose transport is shared with nobody.
func own(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.Timeout, c.QPS, c.WrapTransport = 0, -1, nil // a timeout of the client would end its watches
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	c.Dial = dialer.DialContext
	return c
}

// read asks for an object that every cluster has, past the caches of the API server, and does not try again as client-go does by itself.
func read(kube kubernetes.Interface) func(context.Context) error {
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
