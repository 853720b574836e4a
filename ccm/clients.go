package ccm

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/transport"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
)

// wrapper puts fences before the requests of a client.
type wrapper = transport.WrapperFunc

// fencedBy refuses writes once a fence is closed.
func fencedBy(fence *election.Fence) wrapper {
	return func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) }
}

// fencedByAny refuses writes while none of some fences is open. It is for the provider's own writes, which belong to no lease.
func fencedByAny(fences []*election.Fence) wrapper {
	return func(next http.RoundTripper) http.RoundTripper { return election.TransportOfAny(fences, next) }
}

// builder makes clients as another builder does, behind a fence. With --use-service-account-credentials the other builder gives each controller the token
// of its own service account.
type builder struct {
	cloudprovider.ControllerClientBuilder
	wrap wrapper
}

var _ clientbuilder.ControllerClientBuilder = builder{}

// Config implements clientbuilder.ControllerClientBuilder.
func (b builder) Config(name string) (*rest.Config, error) {
	made, err := b.ControllerClientBuilder.Config(name)
	if err != nil {
		return nil, fmt.Errorf("configuring the client of %q: %w", name, err)
	}
	fenced := rest.CopyConfig(made)
	fenced.Wrap(b.wrap)
	return fenced, nil
}

// Client implements clientbuilder.ControllerClientBuilder.
func (b builder) Client(name string) (kubernetes.Interface, error) {
	c, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(c)
}

// DiscoveryClient implements clientbuilder.ControllerClientBuilder.
func (b builder) DiscoveryClient(name string) (discovery.DiscoveryInterface, error) {
	c, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = 20, 200 // discovery asks for much at once and seldom
	return kubernetes.NewForConfig(c)
}

// ConfigOrDie implements clientbuilder.ControllerClientBuilder, whose other users cannot go on without.
func (b builder) ConfigOrDie(name string) *rest.Config { return orDie(b.Config(name)) }

// ClientOrDie implements clientbuilder.ControllerClientBuilder.
func (b builder) ClientOrDie(name string) kubernetes.Interface { return orDie(b.Client(name)) }

// DiscoveryClientOrDie implements clientbuilder.ControllerClientBuilder.
func (b builder) DiscoveryClientOrDie(name string) discovery.DiscoveryInterface {
	return orDie(b.DiscoveryClient(name))
}

func orDie[T any](made T, err error) T {
	if err != nil {
		klog.ErrorS(err, "A client cannot be made")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return made
}

// leaseClient returns the client that holds the leases: without a fence, which depends on it, and with a rate limit that no controller can use up.
func leaseClient(base *rest.Config) (coordinationv1client.LeasesGetter, error) {
	c := rest.AddUserAgent(rest.CopyConfig(base), "leader-election")
	c.QPS, c.Burst = 50, 100
	made, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making the client of leases: %w", err)
	}
	return made.CoordinationV1(), nil
}

// fenced returns the configuration of the process as the controllers of a lease get it: every client in it asks the fence. Caches are shared.
func fenced(process *config.CompletedConfig, fence *election.Fence) (*config.CompletedConfig, error) {
	c := *process.Config
	c.Kubeconfig = rest.CopyConfig(process.Kubeconfig)
	c.Kubeconfig.Wrap(fencedBy(fence))
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent))
	versioned, err2 := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), "shared-informers"))
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("making the clients of lease %q: %w", fence.Lease(), err)
	}
	c.Client, c.VersionedClient = client, versioned
	c.ClientBuilder = builder{process.ClientBuilder, fencedBy(fence)}
	c.EventBroadcaster = record.NewBroadcaster()
	c.EventBroadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	c.EventRecorder = c.EventBroadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: options.CloudControllerManagerUserAgent})
	return c.Complete(), nil
}
