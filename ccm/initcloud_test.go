package ccm

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
)

// traced notes which requests pass it.
type traced struct {
	mu    sync.Mutex
	paths []string
}

func (s *traced) wrap(next http.RoundTripper) http.RoundTripper {
	return sendFunc(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		s.paths = append(s.paths, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		return next.RoundTrip(r)
	})
}

func (s *traced) has(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.paths, func(p string) bool { return strings.Contains(p, part) })
}

type sendFunc func(*http.Request) (*http.Response, error)

func (f sendFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// authorsClient is a client of the author's own.
type authorsClient struct{ kubernetes.Interface }

// Authors trace the requests of a manager, send them elsewhere, and put recorders and clients of their own in place.
func TestWhatInitCloudPutsInPlaceIsUsed(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			requests, told := &traced{}, make(chan string, 1)
			var (
				recorder record.EventRecorder
				client   *kubernetes.Clientset
			)
			m := l.startWith(t, newAuthorsServer(t), func(c *config.CompletedConfig) cloudprovider.Interface {
				c.Kubeconfig.Wrap(requests.wrap)
				c.Kubeconfig.UserAgent = "authors"
				c.Client, c.VersionedClient = kubernetes.NewForConfigOrDie(c.Kubeconfig), authorsClient{c.VersionedClient}
				client = c.Client
				t.Cleanup(c.EventBroadcaster.Shutdown)
				c.EventBroadcaster = record.NewBroadcaster()
				recorder = c.EventBroadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "authors"})
				c.EventRecorder = recorder
				return &authored{}
			}, map[string]app.ControllerInitFuncConstructor{
				"mine": authorsController(func(c *config.CompletedConfig, _ cloudprovider.Interface) {
					_, isAuthors := c.VersionedClient.(authorsClient)
					if c.Client != client || !isAuthors || c.EventRecorder != recorder || c.Kubeconfig.UserAgent != "authors" {
						t.Errorf("a constructor gets the clients %p and %T, the recorder %T and the user agent %q", c.Client, c.VersionedClient, c.EventRecorder, c.Kubeconfig.UserAgent)
					}
					if _, err := c.ClientBuilder.ClientOrDie("mine").Discovery().ServerVersion(); err != nil {
						t.Error(err)
					}
					recorder.Event(&corev1.Node{}, corev1.EventTypeNormal, "Mine", "the author tells")
				}, func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
					told <- "started"
					return true
				}),
			}, l.alone()...)
			receive(t, told)
			if !requests.has("GET /version") {
				t.Errorf("a client of the builder does not pass what the author has wrapped: %q", requests.paths)
			}
			m.until("/healthz", http.StatusOK, "ok")
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The leases are held with the author's configuration too, and are not behind the fences that depend on them.
func TestTheLeasesPassWhatInitCloudHasWrapped(t *testing.T) {
	requests, w := &traced{}, newWorker("work")
	m := libraries[1].startWith(t, newAuthorsServer(t), func(c *config.CompletedConfig) cloudprovider.Interface {
		c.Kubeconfig.Wrap(requests.wrap)
		return &authored{}
	}, map[string]app.ControllerInitFuncConstructor{"work": w.constructor()})
	w.leads(t)
	if !requests.has("/leases") {
		t.Errorf("the leases are asked for past the author's transport: %q", requests.paths)
	}
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestSharedInformersThatAConstructorPutsInPlaceAreStarted(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			synced := make(chan bool, 1)
			m := l.start(t, newAuthorsServer(t), &authored{}, map[string]app.ControllerInitFuncConstructor{
				"mine": authorsController(func(c *config.CompletedConfig, _ cloudprovider.Interface) {
					c.SharedInformers = informers.NewSharedInformerFactory(c.VersionedClient, 0)
				}, func(ctx context.Context, c *config.CompletedConfig, _ cloudprovider.Interface, _ genericcontrollermanager.ControllerContext) bool {
					nodes := c.SharedInformers.Core().V1().Nodes().Informer()
					go func() { synced <- cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced) }()
					return true
				}),
			}, l.alone()...)
			if !receive(t, synced) {
				t.Error("the informers have not been started")
			}
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Service level indicators are counted from these series, at /metrics/slis.
func TestHealthChecksAreSeries(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			w := newWorker("work")
			m := l.start(t, newAuthorsServer(t), &authored{}, map[string]app.ControllerInitFuncConstructor{"work": w.constructor()},
				append(l.alone(), "--authorization-always-allow-paths=/*")...)
			w.leads(t)
			m.until("/healthz?verbose", http.StatusOK, "[+]work ok") // its check is there
			_, text := m.get("/metrics/slis")
			for _, series := range []string{`kubernetes_healthcheck{name="work",type="healthz"} 1`, `kubernetes_healthchecks_total{name="work",status="success",type="healthz"}`} {
				if !strings.Contains(text, series) {
					t.Errorf("%s is not there:\n%s", series, text)
				}
			}
			if err := m.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatInitCloudChangesIsAtConfigz(t *testing.T) {
	w := newWorker("work")
	m := libraries[1].startWith(t, newAuthorsServer(t), func(c *config.CompletedConfig) cloudprovider.Interface {
		c.ComponentConfig.KubeCloudShared.ClusterName = "from-cloud-config"
		return &authored{}
	}, map[string]app.ControllerInitFuncConstructor{"work": w.constructor()}, append(libraries[1].alone(), "--authorization-always-allow-paths=/*")...)
	w.leads(t)
	if _, text := m.get("/configz"); !strings.Contains(text, "from-cloud-config") {
		t.Errorf("/configz shows another name of the cluster:\n%s", text)
	}
	if err := m.end(); err != nil {
		t.Error(err)
	}
}
