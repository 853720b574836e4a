package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Tokens of people, and what those may: alice everything, vera look at everything, otto look at c1 and nothing else, nora nothing.
var people = map[string]string{"token-of-alice": "alice", "token-of-vera": "vera", "token-of-otto": "otto", "token-of-nora": "nora"}

// world is a page with a seed's API server and clusters behind it.
type world struct {
	t      testing.TB
	page   *httptest.Server
	plane  *fakePlane
	logged *bytes.Buffer

	mu       sync.Mutex
	objects  []view.Object
	versions int // of objects that were changed
	waiting  map[chan struct{}]bool
	revoked  map[string]bool
	patches  []string // token and body of each write
	reviews  int
	said     string // what the event of the cluster says; empty for findings
	refusing string // what a write is answered with; empty for yes
}

type withOptions func(*Options)

func newWorld(t testing.TB, change ...withOptions) *world {
	t.Helper()
	w := &world{t: t, versions: 7, waiting: map[chan struct{}]bool{}, revoked: map[string]bool{}, plane: &fakePlane{}, logged: &bytes.Buffer{}}
	api := httptest.NewServer(http.HandlerFunc(w.api))
	t.Cleanup(api.Close)
	cfg := &rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, BearerToken: "operators-own-token"}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Clusters: w, Kube: kube, Config: cfg, ToolVersion: "v0.1.0", Seed: v1.Cluster{Server: "https://seed:6443"}, EnableActions: true,
		Plane: func(context.Context, view.Object) (Plane, error) { return w.plane, nil },
		Log:   mask.Logger(funcr.New(func(_, args string) { w.mu.Lock(); defer w.mu.Unlock(); w.logged.WriteString(args + "\n") }, funcr.Options{Verbosity: 9})),
	}
	for _, f := range change {
		f(&o)
	}
	w.page = httptest.NewUnstartedServer(Handler(o))
	w.page.StartTLS()
	t.Cleanup(func() {
		w.page.CloseClientConnections()
		w.page.Close()
	})
	return w
}

// api answers as the seed's API server does.
func (w *world) api(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		_ = json.Unmarshal(body, &review)
		answer = w.review(review)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.Unmarshal(body, &review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = a.Resource == "clusters" && mayDo(review.Spec.User, a.Verb, a.Name)
		answer = review
	case strings.HasSuffix(r.URL.Path, "/events"):
		answer = map[string]any{
			"kind":       "EventList",
			"apiVersion": "v1",
			"items": []any{
				map[string]any{
					"kind":     "Event",
					"metadata": map[string]any{"name": "e1", "namespace": "default"},
					"involvedObject": map[string]any{
						"kind": "Cluster",
						"name": "c1",
					},
					"type":          "Warning",
					"reason":        "Blocked",
					"message":       cmp.Or(w.said, "2 findings"),
					"count":         3,
					"lastTimestamp": "2026-11-21T11:00:00Z",
				},
			},
		}
	case r.Method == http.MethodPatch:
		w.mu.Lock()
		w.patches = append(w.patches, r.Header.Get("Authorization")+" "+string(body))
		refusing := w.refusing
		w.mu.Unlock()
		if refusing != "" {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, refusing)
			return
		}
		answer = map[string]any{"kind": "Cluster", "apiVersion": "kubermatic.k8c.io/v1", "metadata": map[string]any{"name": "c1"}}
	default:
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(answer)
}

func (w *world) review(review authenticationv1.TokenReview) authenticationv1.TokenReview {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reviews++
	name := people[review.Spec.Token]
	review.Status.Authenticated = name != "" && !w.revoked[review.Spec.Token]
	review.Status.User.Username = name
	return review
}

func mayDo(user, verb, name string) bool {
	switch user {
	case "alice":
		return true
	case "vera":
		return verb == "get" || verb == "list"
	case "otto":
		return verb == "get" && name == "c1"
	}
	return false
}

// List and Changed are the cache of the operator.
func (w *world) List() ([]view.Object, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.objects), true
}

func (w *world) Changed(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[ch] = true
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, ch)
	})
	return ch
}

// put sets a cluster and tells everybody.
func (w *world) put(objects ...view.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range objects {
		at := slices.IndexFunc(w.objects, func(old view.Object) bool { return old.Key() == o.Key() })
		if at < 0 {
			w.objects = append(w.objects, o)
		} else {
			w.versions++ // as an API server's: what has the version of before is what it was
			o.Cluster.ResourceVersion = strconv.Itoa(w.versions)
			w.objects[at] = o
		}
	}
	for ch := range w.waiting {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// cluster makes a Cluster; an empty phase is one that is not enabled.
func cluster(name, phase, message string) view.Object {
	c := &kubermaticv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
	}
	c.Spec.HumanReadableName, c.Spec.Version, c.Spec.Cloud.ProviderName = "people-call-it-"+name, "1.26.0", "aws"
	if phase != "" {
		c.Spec.Features = map[string]bool{kubermaticv1.FeatureExternalCloudProvider: true}
		c.Annotations = map[string]string{kubermaticv1.CCMMigrationNeeded: "", kubermaticv1.CSIMigrationNeeded: ""}
		condition(c, kubermaticv1.ConditionMigration, phase, message, phase == kubermaticv1.PhaseCompleted)
	}
	return view.Object{Group: kubermaticv1.GroupName, Cluster: c}
}

func condition(c *kubermaticv1.Cluster, t kubermaticv1.ClusterConditionType, reason, message string, is bool) {
	if c.Status.Conditions == nil {
		c.Status.Conditions = kubermaticv1.ClusterConditions{}
	}
	s := corev1.ConditionFalse
	if is {
		s = corev1.ConditionTrue
	}
	at := metav1.NewTime(time.Now().Add(-17 * time.Minute))
	c.Status.Conditions[t] = kubermaticv1.ClusterCondition{Status: s, Reason: reason, Message: message, LastTransitionTime: at, LastHeartbeatTime: at}
}

// fakePlane is a control plane whose plan is what the test says.
type fakePlane struct {
	mu      sync.Mutex
	steps   []v1.Step
	blocked bool
	begun   bool // the handover was
	broken  error
}

func (p *fakePlane) Gather(context.Context) *v1.Snapshot { return &v1.Snapshot{} }

func (p *fakePlane) Check(*v1.Snapshot) v1.CheckReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := v1.CheckReport{Summary: v1.CheckSummary{Passed: 31}, Findings: []v1.Finding{{Code: "CP-001", Outcome: v1.Pass, Summary: "all is well"}}}
	if p.blocked {
		r.Summary.Failed, r.Summary.Blocked = 1, true
		r.Findings = append(
			r.Findings,
			v1.Finding{
				Code:     "NODE-001",
				Outcome:  v1.Fail,
				Level:    "critical",
				Summary:  "1 of 3 nodes has no providerID",
				Objects:  []string{"Node/worker-3"},
				Expected: "aws:///...",
				Found:    `""`,
				Fix:      "transplant explain NODE-001",
			},
		)
	}
	return r
}

func (p *fakePlane) Plan(*v1.Snapshot, hosted.Part) (*v1.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked {
		p.mu.Unlock()
		report := p.Check(nil)
		p.mu.Lock()
		return nil, &hosted.BlockedError{Report: report}
	}
	steps := p.steps
	if steps == nil {
		steps = []v1.Step{
			{
				ID:      "edit/controller-manager",
				Kind:    v1.StepEditWorkload,
				Title:   "controller-manager gives the cloud loops up",
				Changes: []v1.Change{{Field: "--controllers", Before: "*", After: "*,-cloud-node-lifecycle,-route,-service"}},
			},
			{ID: "ensure/ccm", Kind: v1.StepEnsureObject, Title: "Deployment aws-cloud-controller-manager"},
		}
	}
	return &v1.Plan{Strategy: "downtime", Steps: steps, Effects: []string{"load balancers: 3 kept, 0 recreated"}}, nil
}

func (p *fakePlane) Owners(context.Context) (hosted.Owners, error) {
	if p.broken != nil {
		return hosted.Owners{}, p.broken
	}
	kcm := hosted.Owner{Component: "kube-controller-manager", Pod: "controller-manager-7d9f-x2v"}
	return hosted.Owners{Time: time.Now(), Loops: map[string]hosted.Owner{"service": kcm, "route": kcm, "cloud-node-lifecycle": kcm}}, nil
}

func (p *fakePlane) Status(_ context.Context, part hosted.Part) (v1.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if part == hosted.Finish || !p.begun {
		return v1.Status{}, p.broken
	}
	return v1.Status{
		Run:        "20261121-110000",
		State:      v1.StateApplying,
		Phase:      "applying",
		StepsDone:  4,
		StepsTotal: 11,
		Current:    []v1.StepStatus{{ID: "ensure/ccm", Waiting: "0 of 1 pods are ready"}},
	}, nil
}

// browser is a client with cookies of its own.
type browser struct {
	w      *world
	cookie *http.Cookie
	csrf   string
	bearer string
}

type reply struct {
	code   int
	header http.Header
	body   string
}

func (r reply) into(t testing.TB, doc any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), doc); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
}

func (b *browser) ask(method, path string, body any, header ...string) reply {
	b.w.t.Helper()
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			b.w.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequest(method, b.w.page.URL+path, in)
	if err != nil {
		b.w.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
		r.Header.Set(csrfHeader, b.csrf)
	}
	if b.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+b.bearer)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := b.w.page.Client().Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(data)}
}

// as is somebody who sends a token with each request.
func (w *world) as(who string) *browser { return &browser{w: w, bearer: "token-of-" + who} }

// signIn is a browser with a session.
func (w *world) signIn(who string) *browser {
	w.t.Helper()
	b := &browser{w: w}
	r := b.ask("POST", "/api/session", map[string]string{"token": "token-of-" + who})
	if r.code != http.StatusOK {
		w.t.Fatalf("signing in: %d %s", r.code, r.body)
	}
	var s signedIn
	r.into(w.t, &s)
	b.csrf = s.Csrf
	b.cookie = (&http.Response{Header: r.header}).Cookies()[0]
	return b
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged.String()
}

func (w *world) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.patches)
}

// aClock is one that the test moves.
func aClock(c *clocktesting.FakeClock) withOptions { return func(o *Options) { o.Clock = c } }
