package userclusters

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// userAPI is the API server of a user cluster: it answers lists of nodes with its name, and only to who has the token.
type userAPI struct {
	*httptest.Server
	token    atomic.Value
	requests atomic.Int64
	// open counts connections.
	open atomic.Int64
	// hang holds every answer up until it is closed; nil for never.
	hang chan struct{}
	// status is what is answered instead of nodes; 0 for nodes.
	status atomic.Int64
	// answer is asked instead of all of these, if it is set.
	answer http.HandlerFunc
	// answering counts what is being answered. A server of HTTP/2 does not wait for it when it is closed.
	answering atomic.Int64
}

func newUserAPI(t *testing.T, name, token string) *userAPI {
	t.Helper()
	a := &userAPI{}
	a.token.Store(token)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.answering.Add(1)
		defer a.answering.Add(-1)
		a.requests.Add(1)
		if a.answer != nil {
			a.answer(w, r)
			return
		}
		if a.hang != nil {
			select {
			case <-a.hang:
			case <-r.Context().Done():
			}
		}
		if status := int(a.status.Load()); status != 0 {
			w.WriteHeader(status)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+a.token.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "true" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		if r.Method == http.MethodPost {
			_, _ = io.Copy(w, r.Body)
			return
		}
		_ = json.NewEncoder(w).
			Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: name}}}})
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			a.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			a.open.Add(-1)
		default:
		}
	}
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	s.StartTLS()
	a.Server = s
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		eventually(t, "nothing is answered any more", func() bool { return a.answering.Load() == 0 })
	})
	return a
}

func (a *userAPI) kubeconfig(t *testing.T, token string) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	return writeKubeconfig(t, &clientcmdapi.Cluster{Server: a.URL, CertificateAuthorityData: ca}, token)
}

func writeKubeconfig(t *testing.T, cluster *clientcmdapi.Cluster, token string) []byte {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = cluster
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	out, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func secret(namespace string, data []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: kubeconfig.SecretName}, Data: map[string][]byte{kubeconfig.SecretKey: data}}
}

func newPool(t *testing.T, o Options) (*Pool, *apitest.Server, *clocktesting.FakePassiveClock) {
	t.Helper()
	seed := apitest.New(t)
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	kube, _ := seed.Clients(t)
	o.Seed, o.Clock, o.QPS = kube, clock, -1
	p := New(o)
	t.Cleanup(p.Close)
	return p, seed, clock
}

func nodes(ctx context.Context, c Clients) (string, error) {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	return list.Items[0].Name, nil
}

func want(t *testing.T, c Clients, name string) {
	t.Helper()
	if got, err := nodes(t.Context(), c); err != nil || got != name {
		t.Errorf("got %q, %v; want %q", got, err, name)
	}
}

func get(t *testing.T, p *Pool, namespace string) Clients {
	t.Helper()
	c, err := p.Get(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClusterIsReachedByItsSecret(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a, b := newUserAPI(t, "a", "1"), newUserAPI(t, "b", "2")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")), secret("cluster-b", b.kubeconfig(t, "2")))
	want(t, get(t, p, "cluster-a"), "a")
	want(t, get(t, p, "cluster-b"), "b")
	want(t, get(t, p, "cluster-a"), "a")
	if got := seed.Requests()["get secrets"]; got != 2 {
		t.Errorf("Secrets were read %d times, want 2: one each", got)
	}
	if s := p.Stats(); s.Known != 2 || s.Open != 2 || s.Opened != 2 {
		t.Errorf("stats: %+v", s)
	}
}

func TestASecretThatChangesIsNoticedWhenItIsDue(t *testing.T) {
	p, seed, clock := newPool(t, Options{})
	old, moved := newUserAPI(t, "old", "1"), newUserAPI(t, "moved", "2")
	seed.Put(t, secret("cluster-a", old.kubeconfig(t, "1")))
	held := get(t, p, "cluster-a")
	want(t, held, "old")
	seed.Put(t, secret("cluster-a", moved.kubeconfig(t, "2")))
	want(t, held, "old")
	clock.SetTime(clock.Now().Add(31 * time.Second))
	get(t, p, "cluster-a")
	want(t, held, "moved") // clients that somebody holds go with it
	eventually(t, "the old connection is closed", func() bool { return old.open.Load() == 0 })
}

func TestARefusalMakesTheSecretBeReadAtOnce(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "a", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")))
	held := get(t, p, "cluster-a")
	want(t, held, "a")
	a.token.Store("2") // rotated
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "2")))
	want(t, held, "a")
	if _, err := held.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a request with a body: %v", err)
	}
}

func TestARefusalWithTheSameSecretStaysARefusal(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "a", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "wrong")))
	if _, err := nodes(t.Context(), get(t, p, "cluster-a")); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
	if got := a.requests.Load(); got != 1 {
		t.Errorf("%d requests, want 1: nothing has changed", got)
	}
}

func TestTheLeastRecentlyUsedAreClosedAndOpenAgain(t *testing.T) {
	p, seed, _ := newPool(t, Options{Open: 2})
	var apis []*userAPI
	var held []Clients
	for i := range 5 {
		a := newUserAPI(t, fmt.Sprint(i), "1")
		apis = append(apis, a)
		seed.Put(t, secret(fmt.Sprintf("cluster-%d", i), a.kubeconfig(t, "1")))
		held = append(held, get(t, p, fmt.Sprintf("cluster-%d", i)))
		want(t, held[i], fmt.Sprint(i))
	}
	if s := p.Stats(); s.Open != 2 || s.Known != 5 {
		t.Errorf("stats: %+v", s)
	}
	eventually(t, "the first ones are closed", func() bool { return apis[0].open.Load()+apis[1].open.Load()+apis[2].open.Load() == 0 })
	want(t, held[0], "0")
	if s := p.Stats(); s.Open != 2 || s.Opened != 6 {
		t.Errorf("stats: %+v", s)
	}
}

func TestWhatIsInUseIsNotClosed(t *testing.T) {
	p, seed, _ := newPool(t, Options{Open: 1})
	a, b := newUserAPI(t, "a", "1"), newUserAPI(t, "b", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")), secret("cluster-b", b.kubeconfig(t, "1")))
	w, err := get(t, p, "cluster-a").Kube.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	want(t, get(t, p, "cluster-b"), "b")
	select {
	case <-w.ResultChan():
		t.Error("the watch ended")
	case <-time.After(50 * time.Millisecond):
	}
	p.Forget("cluster-a")
	select {
	case <-w.ResultChan():
	case <-time.After(10 * time.Second):
		t.Error("the watch of a cluster that is gone goes on")
	}
}

func TestAHangingClusterHoldsNobodyElseUp(t *testing.T) {
	p, seed, _ := newPool(t, Options{Answer: time.Minute})
	good, bad := newUserAPI(t, "good", "1"), newUserAPI(t, "bad", "1")
	bad.hang = make(chan struct{})
	seed.Put(t, secret("cluster-good", good.kubeconfig(t, "1")), secret("cluster-bad", bad.kubeconfig(t, "1")))
	c := get(t, p, "cluster-bad")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := nodes(ctx, c); !errors.Is(err, context.Canceled) {
				t.Errorf("a server that hangs was not waited for until the end: %v", err)
			}
		})
	}
	for range 20 { // while all of those hang
		want(t, get(t, p, "cluster-good"), "good")
	}
	cancel()
	wg.Wait()
	close(bad.hang)
}

func TestFailuresBackOffPerClusterAndHeldClientsGoOn(t *testing.T) {
	p, seed, clock := newPool(t, Options{})
	a, b := newUserAPI(t, "a", "1"), newUserAPI(t, "b", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")), secret("cluster-b", b.kubeconfig(t, "1")))
	held := get(t, p, "cluster-a")
	a.status.Store(http.StatusBadGateway)
	var last time.Duration
	for i := range 12 {
		if _, err := nodes(t.Context(), held); err == nil {
			t.Fatal("a server that fails has answered")
		}
		_, err := p.Get(t.Context(), "cluster-a")
		var backoff *BackoffError
		if !errors.As(err, &backoff) || backoff.Failures != i+1 || !strings.Contains(err.Error(), "502") {
			t.Fatalf("after %d failures: %v", i+1, err)
		}
		wait := backoff.Until.Sub(clock.Now())
		if wait > 2*time.Minute || wait < last*3/4 {
			t.Errorf("after %d failures it is left alone for %s, before that for %s", i+1, wait, last)
		}
		last = wait
		want(t, get(t, p, "cluster-b"), "b")
		clock.SetTime(backoff.Until)
	}
	if last < 90*time.Second {
		t.Errorf("at last it is left alone for %s", last)
	}
	if p.Stats().BackingOff != 0 {
		t.Errorf("stats: %+v", p.Stats())
	}
	a.status.Store(0)
	want(t, get(t, p, "cluster-a"), "a")
	a.status.Store(http.StatusBadGateway)
	_, _ = nodes(t.Context(), held)
	var backoff *BackoffError
	if _, err := p.Get(t.Context(), "cluster-a"); !errors.As(err, &backoff) || backoff.Failures != 1 {
		t.Errorf("an answer did not end the row of failures: %v", err)
	}
}

func TestACallerThatGivesUpIsNoFailure(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "a", "1")
	a.hang = make(chan struct{})
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")))
	c := get(t, p, "cluster-a")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := nodes(ctx, c); err == nil {
		t.Error("no error")
	}
	close(a.hang)
	get(t, p, "cluster-a")
}

func TestAKubeconfigThatDoesNotStandByItselfIsRefusedWithoutItsSecrets(t *testing.T) {
	a := newUserAPI(t, "a", "1")
	for name, c := range map[string]struct {
		change func(c *clientcmdapi.Config)
		want   string
	}{
		"a program": {func(c *clientcmdapi.Config) {
			c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		}, `user "u" is authenticated by a program`},
		"a file":      {func(c *clientcmdapi.Config) { c.AuthInfos["u"].TokenFile = "/etc/shadow" }, `user "u" names a file of this machine (tokenFile)`},
		"a proxy":     {func(c *clientcmdapi.Config) { c.Clusters["c"].ProxyURL = a.URL }, `cluster "c" is reached through a proxy of its own`},
		"a broken CA": {func(c *clientcmdapi.Config) { c.Clusters["c"].CertificateAuthorityData = []byte("hush") }, "cannot be read"},
	} {
		config, err := clientcmd.Load(a.kubeconfig(t, "hush"))
		if err != nil {
			t.Fatal(err)
		}
		c.change(config)
		data, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		p, seed, _ := newPool(t, Options{})
		seed.Put(t, secret("cluster-a", data))
		_, err = p.Get(t.Context(), "cluster-a")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "cluster-a/admin-kubeconfig") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := a.open.Load() + a.requests.Load(); n != 0 {
		t.Errorf("the server of a refused kubeconfig was connected to")
	}
}

func TestAMissingSecretIsNamed(t *testing.T) {
	p, _, _ := newPool(t, Options{})
	if _, err := p.Get(t.Context(), "cluster-a"); err == nil || !strings.Contains(err.Error(), "there is no Secret cluster-a/admin-kubeconfig") {
		t.Errorf("got %v", err)
	}
}

func TestEveryRequestGoesThroughWrap(t *testing.T) {
	var count atomic.Int64
	p, seed, _ := newPool(t, Options{Wrap: func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			count.Add(1)
			return rt.RoundTrip(r)
		})
	}})
	a := newUserAPI(t, "a", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")))
	c := get(t, p, "cluster-a")
	want(t, c, "a")
	if _, err := c.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if count.Load() != 2 || a.requests.Load() != 2 {
		t.Errorf("%d requests were wrapped, %d arrived", count.Load(), a.requests.Load())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestThePoolBoundsAnswers, and says of which cluster.
func TestThePoolBoundsAnswers(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "n", "t")
	compress := make(chan bool, 1)
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		compress <- strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]`)
		for range 64 {
			if _, err := io.WriteString(w, strings.Repeat(" \n", 1<<19)); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "}")
	}
	seed.Put(t, secret("cluster-x", a.kubeconfig(t, "t")))
	c, err := p.Get(t.Context(), "cluster-x")
	if err != nil {
		t.Fatal(err)
	}
	const want = "the answer of cluster-x.user-cluster to GET /api/v1/nodes has more than 32 MiB"
	if _, err := c.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the answer ended with %v", err)
	}
	if <-compress {
		t.Error("a compressed answer was asked for")
	}
}

// TestThePoolBoundsHeaders: what is read of a header takes many times its bytes, and none of the other bounds sees it.
func TestThePoolBoundsHeaders(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "n", "t")
	a.answer = func(w http.ResponseWriter, _ *http.Request) {
		for i := range 10000 {
			w.Header().Set(fmt.Sprintf("K%d", i), "")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`)
	}
	seed.Put(t, secret("cluster-x", a.kubeconfig(t, "t")))
	c, err := p.Get(t.Context(), "cluster-x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes(t.Context(), c); err == nil {
		t.Error("an answer with 10000 keys in its header is taken")
	}
}

func TestAClosedPoolServesNobody(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "a", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")))
	c := get(t, p, "cluster-a")
	want(t, c, "a")
	p.Close()
	if _, err := nodes(t.Context(), c); !errors.Is(err, ErrClosed) {
		t.Errorf("a client: %v", err)
	}
	if _, err := p.Get(t.Context(), "cluster-a"); !errors.Is(err, ErrClosed) {
		t.Errorf("Get: %v", err)
	}
	eventually(t, "its connection is closed", func() bool { return a.open.Load() == 0 })
}

func TestAClusterThatIsForgottenWhileItIsGottenIsReadAgain(t *testing.T) {
	for name, gets := range map[string]func(*Pool) error{
		"clients": func(p *Pool) error {
			c, err := p.Get(t.Context(), "cluster-a")
			if err == nil {
				want(t, c, "a")
			}
			return err
		},
		"metadata": func(p *Pool) error {
			m, err := p.Metadata(t.Context(), "cluster-a")
			if err == nil {
				_, err = m.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(t.Context(), metav1.ListOptions{})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newUserAPI(t, "a", "1")
			seed := fake.NewClientset(secret("cluster-a", a.kubeconfig(t, "1")))
			p := New(Options{Seed: seed, QPS: -1})
			t.Cleanup(p.Close)
			reads := 0
			seed.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if reads++; reads <= 3 {
					p.Forget("cluster-a")
				}
				return false, nil, nil
			})
			if err := gets(p); err != nil {
				t.Errorf("the pool is open: %v", err)
			}
			if s := p.Stats(); reads != 4 || s.Known != 1 || s.Open != 1 || s.Opened != 1 {
				t.Errorf("%d reads, stats %+v; want the fourth to have opened the one that is left", reads, s)
			}
		})
	}
}

func TestClientsOfAForgottenClusterDoNotSayThatThePoolIsClosed(t *testing.T) {
	p, seed, _ := newPool(t, Options{})
	a := newUserAPI(t, "a", "1")
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "1")))
	held := get(t, p, "cluster-a")
	p.Forget("cluster-a")
	if _, err := nodes(t.Context(), held); !errors.Is(err, ErrForgotten) || errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "namespace cluster-a") {
		t.Errorf("got %v", err)
	}
	want(t, get(t, p, "cluster-a"), "a")
}

func TestAPoolThatIsClosedWhileAClusterIsGottenSaysSo(t *testing.T) {
	a := newUserAPI(t, "a", "1")
	seed := fake.NewClientset(secret("cluster-a", a.kubeconfig(t, "1")))
	p := New(Options{Seed: seed, QPS: -1})
	seed.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		p.Close()
		return false, nil, nil
	})
	if _, err := p.Get(t.Context(), "cluster-a"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// answer asks a cluster until it answers: clients may be forgotten between Get and the request, and a server that gets no processor for seconds closes
// connections. That the pool is closed is an answer as well.
func (p *Pool) answer(ctx context.Context, clock *clocktesting.FakePassiveClock, cluster int) (got string, err error) {
	for range 100 {
		var c Clients
		if c, err = p.Get(ctx, fmt.Sprintf("cluster-%d", cluster)); err == nil {
			got, err = nodes(ctx, c)
		}
		var backoff *BackoffError
		switch {
		case err == nil, errors.Is(err, ErrClosed):
			return got, err
		case errors.As(err, &backoff):
			clock.SetTime(backoff.Until)
		}
	}
	return got, err
}

// TestManyAtOnce lets many use few places while Secrets change, clusters are forgotten and come back.
func TestManyAtOnce(t *testing.T) {
	p, seed, clock := newPool(t, Options{Open: 3, Dial: time.Minute, Answer: time.Minute})
	const clusters = 12
	apis := make([]*userAPI, clusters)
	for i := range clusters {
		apis[i] = newUserAPI(t, fmt.Sprint(i), "1")
		seed.Put(t, secret(fmt.Sprintf("cluster-%d", i), apis[i].kubeconfig(t, "1")))
	}
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for round := range 20 {
				i := (worker*7 + round) % clusters
				if got, err := p.answer(t.Context(), clock, i); err != nil || got != fmt.Sprint(i) {
					t.Errorf("cluster %d: %q, %v", i, got, err)
					return
				}
				if round == worker {
					p.Forget(fmt.Sprintf("cluster-%d", i))
				}
			}
		})
	}
	wg.Wait()
	p.Close()
	eventually(t, "all connections are closed", func() bool {
		open := int64(0)
		for _, a := range apis {
			open += a.open.Load()
		}
		return open == 0
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Errorf("not so: %s", what)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
