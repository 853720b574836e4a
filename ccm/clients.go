package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/transport"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/mask/events"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// wrapper puts fences before the requests of a client.
type wrapper = transport.WrapperFunc

// fencedBy refuses writes once a fence is closed.
func fencedBy(fence *election.Fence) wrapper {
	return func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) }
}

// fencedByAny refuses writes while none of some fences is open. It is for the provider's own writes, which belong to no
// lease.
func fencedByAny(fences []*election.Fence) wrapper {
	return func(next http.RoundTripper) http.RoundTripper { return election.TransportOfAny(fences, next) }
}

// builder makes clients as another builder does, behind a fence. With --use-service-account-credentials the other
// builder gives each controller the token of its own service account.
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

// leaseClient returns the client that holds the leases, and watches the pods of their holders. It has no fence, which
// depends on it, and a rate limit that no controller can use up.
func leaseClient(base *rest.Config) (kubernetes.Interface, error) {
	c := rest.AddUserAgent(rest.CopyConfig(base), "leader-election")
	c.QPS, c.Burst = 50, 100
	made, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making the client of leases: %w", err)
	}
	return made, nil
}

// fenced returns the configuration of the process with what asks before each write in every client. Caches are shared.
func fenced(process *config.CompletedConfig, asks wrapper) (*config.CompletedConfig, error) {
	c := *process.Config
	c.Kubeconfig = rest.CopyConfig(process.Kubeconfig)
	c.Kubeconfig.Wrap(asks)
	client, err := kubernetes.NewForConfig(
		rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent),
	)
	versioned, err2 := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), "shared-informers"))
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("making the clients that ask a fence: %w", err)
	}
	c.Client, c.VersionedClient = client, versioned
	c.ClientBuilder = builder{process.ClientBuilder, asks}
	c.EventBroadcaster = record.NewBroadcaster()
	c.EventBroadcaster.StartStructuredLogging(0)
	c.EventBroadcaster.StartRecordingToSink(events.Sink(client.CoreV1()))
	c.EventRecorder = c.EventBroadcaster.NewRecorder(
		scheme.Scheme,
		corev1.EventSource{Component: options.CloudControllerManagerUserAgent},
	)
	return c.Complete(), nil
}

// laterFences are the fences of a process for clients that are made before there are leases, in InitCloudFunc. Until
// then they write, as upstream's do.
type laterFences struct {
	fences atomic.Pointer[[]*election.Fence]
}

func (l *laterFences) set(fences []*election.Fence) { l.fences.Store(&fences) }

// wrap refuses writes while there are fences and none of them is open.
func (l *laterFences) wrap(next http.RoundTripper) http.RoundTripper { return laterTransport{l, next} }

type laterTransport struct {
	later *laterFences
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t laterTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	passes, _ := request.Context().Value(passingKey{}).(bool)
	if fences := t.later.fences.Load(); fences != nil && !passes {
		return election.TransportOfAny(*fences, t.next).RoundTrip(request)
	}
	return t.next.RoundTrip(request)
}

// passLaterFences marks requests of clients of the process, which are made of the configuration that InitCloudFunc has
// changed. They have a fence of their own, or are those of the leases.
func passLaterFences(next http.RoundTripper) http.RoundTripper { return passing{next} }

type (
	passing    struct{ next http.RoundTripper }
	passingKey struct{}
)

// RoundTrip implements http.RoundTripper.
func (p passing) RoundTrip(request *http.Request) (*http.Response, error) {
	return p.next.RoundTrip(request.WithContext(context.WithValue(request.Context(), passingKey{}, true)))
}

// tokenCheckPeriod is how often the age of the token is looked at, and how long a renewal that failed is waited with.
const tokenCheckPeriod = 10 * time.Minute

// tokenRenewer replaces the token of the process in its file before it expires. Clients of this and of other processes
// read the file again by themselves. Every replica renews its own, the leader and the others: a standby has to be able
// to take over.
type tokenRenewer struct {
	file   string
	client kubernetes.Interface
	clock  clock.Clock
}

// newTokenRenewer returns the renewer of a token file, with the credentials of a kubeconfig.
func newTokenRenewer(file string, kubeconfig *rest.Config) (*tokenRenewer, error) {
	if file == "" {
		return nil, errors.New(
			"--renew-token is given, and the kubeconfig names no tokenFile: name one there, or leave the flag out",
		)
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(kubeconfig), "token-renewal"))
	if err != nil {
		return nil, fmt.Errorf("making the client that renews the token: %w", err)
	}
	return &tokenRenewer{file, client, clock.RealClock{}}, nil
}

// run looks after the token until ctx ends.
func (r *tokenRenewer) run(ctx context.Context) {
	for {
		if err := r.renewIfDue(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(
				err,
				"Renewing the token of this manager failed, will try again",
				"file",
				r.file,
				"after",
				tokenCheckPeriod,
			)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(tokenCheckPeriod):
		}
	}
}

// renewIfDue replaces the token once a third of its life is over. The new one lasts as long as the old one did in all.
func (r *tokenRenewer) renewIfDue(ctx context.Context) error {
	info, err := os.Stat(r.file)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	data, err := os.ReadFile(r.file)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	claims, err := boundtoken.Read(string(data))
	if err != nil {
		return fmt.Errorf("reading the token in %s: %w", r.file, err)
	}
	showTokenExpiry(claims)
	if !claims.IsDue(r.clock.Now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	token, renewed, err := tokenrequest.Create(
		ctx,
		r.client,
		claims.Namespace,
		claims.Account,
		max(claims.Lifetime(), 10*time.Minute),
	)
	if err != nil {
		return err
	}
	if err := wholefile.Write(r.file, []byte(token), info.Mode().Perm()); err != nil {
		return err
	}
	showTokenExpiry(renewed)
	klog.InfoS("Renewed the token of this manager", "file", r.file, "expires", renewed.Expires)
	return nil
}

// useTokenSource replaces the token file of a kubeconfig by one source for all its clients, and returns the file. The
// source reads the file again once the API server has refused what it read last. client-go's own way goes on with a
// refused token for up to 50 s, and by then a leader has lost its lease.
func useTokenSource(kubeconfig *rest.Config) (file string) {
	file = kubeconfig.BearerTokenFile
	if file == "" {
		return ""
	}
	kubeconfig.BearerToken, kubeconfig.BearerTokenFile = "", ""
	kubeconfig.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
	return file
}

// remakeClients makes the clients and caches of a configuration again, as upstream made them before its kubeconfig was
// changed.
func remakeClients(c *config.CompletedConfig) error {
	clients := clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	client, err := kubernetes.NewForConfig(
		rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent),
	)
	if err != nil {
		return fmt.Errorf("making the client of the process: %w", err)
	}
	versioned, err := clients.Client("shared-informers")
	if err != nil {
		return fmt.Errorf("making the client of caches: %w", err)
	}
	c.Client, c.VersionedClient, c.ClientBuilder = client, versioned, clients
	if c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		c.ClientBuilder = clientbuilder.NewDynamicClientBuilder(
			rest.AnonymousClientConfig(c.Kubeconfig), client.CoreV1(), metav1.NamespaceSystem)
	}
	c.SharedInformers = informers.NewSharedInformerFactory(versioned, ResyncPeriod(c)())
	return nil
}
