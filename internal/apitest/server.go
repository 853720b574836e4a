// Package apitest decides how much of an API server the tests of the product need. Objects are created, read, updated,
// deleted, listed and watched as in a real one, with resource versions, conflicts, preconditions and refusals. So real
// clients are tested and not their fakes. It validates nothing and knows no kinds but what it is given.
package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/transplant-dev/transplant/internal/component"
)

// remembered is how many changes a watch can go back at least.
const remembered = 1024

// User is who asks, in refusals.
const User = "tester"

// UID of the namespace kube-system, and so of the cluster.
const UID = "cluster-uid"

// Server is an API server in memory.
type Server struct {
	URL string
	// Intercept answers a request instead of the server when it returns true; nil for never.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
	// Now is the time in tokens; that of this machine when nil. MaxTokenLife is --service-account-max-token-expiration; 0
	// for none.
	Now          func() time.Time
	MaxTokenLife time.Duration

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]any // by path
	denied   map[string]bool           // "verb resource"
	watchers map[chan event]request    // what each asks for
	told     []told                    // what changed lately, in order
	forgot   int                       // the last version that told does not have
	// closeAll ends every connection of a client.
	closeAll func()
	log      []string
	groups   []string       // group/version; nil for those of a current API server
	requests map[string]int // "verb resource"
}

type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// told is a change, and the version that it made.
type told struct {
	version int
	path    string
	event   event
}

// New starts a server with the namespace kube-system in it.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		objects:  map[string]map[string]any{},
		denied:   map[string]bool{},
		watchers: map[chan event]request{},
		requests: map[string]int{},
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections() // watches end
		server.Close()
	})
	s.URL, s.closeAll = server.URL, server.CloseClientConnections
	s.objects["/api/v1/namespaces/kube-system"] = map[string]any{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata":   map[string]any{"name": component.Namespace, "uid": UID, "resourceVersion": "1"},
	}
	return s
}

// CloseConnections ends the connections of all clients, as a restart of an API server does: their watches break off.
func (s *Server) CloseConnections() { s.closeAll() }

// Config reaches the server.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.URL, QPS: -1} }

// Clients reach the server.
func (s *Server) Clients(t testing.TB) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return kube, dyn
}

// Kubeconfig writes a kubeconfig with the context "test" that reaches the server, and returns its path.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	return WriteKubeconfig(t, configOf(clientcmdapi.Cluster{Server: s.URL}, User, clientcmdapi.AuthInfo{}))
}

// Deny refuses a verb on a resource from now on, and answers so when it is asked who may do what.
func (s *Server) Deny(verb, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[verb+" "+resource] = true
}

// Writes returns the writes so far, as "verb path", in order.
func (s *Server) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

// Put creates or replaces objects, past everything that clients have to go through.
func (s *Server) Put(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, o := range objects {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			t.Fatal(err)
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		access, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
		path := "/apis/" + kinds[0].Group + "/" + kinds[0].Version
		if kinds[0].Group == "" {
			path = "/api/" + kinds[0].Version
		}
		if ns := access.GetNamespace(); ns != "" {
			path += "/namespaces/" + ns
		}
		s.mu.Lock()
		s.store(path+"/"+plural.Resource+"/"+access.GetName(), m)
		s.mu.Unlock()
	}
}

// Delete takes an object away by its path, e.g. /api/v1/nodes/a.
func (s *Server) Delete(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(path)
}

func (s *Server) store(path string, o map[string]any) {
	s.version++
	// a patch that leaves the metadata alone shares it with the version before, which watchers may be reading
	m := maps.Clone(metadata(o))
	o["metadata"] = m
	kind := "ADDED"
	if old, ok := s.objects[path]; ok {
		kind = "MODIFIED"
		m["uid"] = metadata(old)["uid"]
	} else if m["uid"] == nil || m["uid"] == "" {
		m["uid"] = fmt.Sprintf("uid-%d", s.version)
	}
	m["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[path] = o
	s.sendEvent(kind, path, o)
}

func (s *Server) remove(path string) {
	if o, ok := s.objects[path]; ok {
		s.version++
		delete(s.objects, path)
		s.sendEvent("DELETED", path, o)
	}
}

func (s *Server) sendEvent(kind, path string, o map[string]any) {
	s.told = append(s.told, told{s.version, path, event{kind, o}})
	if n := len(s.told) / 2; n >= remembered {
		s.forgot, s.told = s.told[n-1].version, append([]told(nil), s.told[n:]...)
	}
	for ch, asked := range s.watchers {
		if asked.coversObject(parsePath(path)) {
			select {
			case ch <- event{kind, o}:
			default: // a watcher that is this far behind lists again
			}
		}
	}
}

func metadata(o map[string]any) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

// list returns the objects of a collection, sorted by path. A namespaced collection without a namespace is that of all
// of them.
func (s *Server) list(r request) []map[string]any {
	var paths []string
	for path := range s.objects {
		in := parsePath(path)
		if in.group == r.group && in.resource == r.resource && in.name != "" &&
			(r.namespace == "" || r.namespace == in.namespace) {
			paths = append(paths, path)
		}
	}
	sort.Strings(paths)
	out := []map[string]any{}
	for _, p := range paths {
		out = append(out, s.objects[p])
	}
	return out
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	write(
		w,
		code,
		metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   "Failure",
			Code:     int32(code),
			Reason:   reason,
			Message:  message,
		},
	)
}

// Get returns an object by its path, past everything that clients have to go through; false when it is absent.
func (s *Server) Get(t testing.TB, path string, into runtime.Object) bool {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[path]
	if !ok {
		return false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, into); err != nil {
		t.Fatal(err)
	}
	return true
}

// Below returns the objects whose paths begin with a prefix, in the order of their paths. It asks the store itself: a
// simulated controller looks at each step of a clock.
func Below[T any](t testing.TB, s *Server, prefix string) []T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		var into T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.objects[path], &into); err != nil {
			t.Fatal(err)
		}
		out = append(out, into)
	}
	return out
}

// Field returns a text of an object by its path and the names of the fields that lead to it; empty when there is none.
func (s *Server) Field(path string, fields ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _, _ := unstructured.NestedString(s.objects[path], fields...)
	return text
}
