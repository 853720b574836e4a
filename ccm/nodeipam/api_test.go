package nodeipam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// api is a kube-apiserver that knows nodes and events, in memory, with what allocation depends on: resourceVersions, preconditions, podCIDRs that
// cannot be changed, lists that are consistent and watches that may lag. It notes when two nodes get the same podCIDR.
type api struct {
	t   *testing.T
	lag func() time.Duration // of watches

	mu       sync.Mutex
	version  int
	uids     int
	nodes    map[string]*corev1.Node
	history  []event
	changed  chan struct{} // closed at each change
	patches  int
	events   []string
	doubles  []string
	markLess bool // marks are accepted, but change nothing: what the guarantee rests on is taken away
}

type event struct {
	kind string
	node *corev1.Node
	at   time.Time
}

func newAPI(t *testing.T) *api {
	return &api{t: t, nodes: map[string]*corev1.Node{}, changed: make(chan struct{}), lag: func() time.Duration { return 0 }}
}

// note is called with the lock held, for every change.
func (a *api) note(kind string, node *corev1.Node) {
	a.version++
	node.ResourceVersion = strconv.Itoa(a.version)
	a.history = append(a.history, event{kind, node.DeepCopy(), time.Now().Add(a.lag())})
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *api) add(name string, cidrs ...string) *corev1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uids++
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, a.uids))}}
	if len(cidrs) > 0 {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = cidrs[0], cidrs
	}
	a.nodes[name] = node
	a.note("ADDED", node)
	return node.DeepCopy()
}

func (a *api) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if node := a.nodes[name]; node != nil {
		delete(a.nodes, name)
		a.note("DELETED", node)
	}
}

// touch is somebody else's write.
func (a *api) touch(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if node := a.nodes[name]; node != nil {
		a.note("MODIFIED", node)
	}
}

// cidrs returns the podCIDRs of each node.
func (a *api) cidrs() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]string{}
	for name, node := range a.nodes {
		all[name] = strings.Join(node.Spec.PodCIDRs, " ")
	}
	return all
}

func (a *api) take() (patches int, events []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	patches, events = a.patches, a.events
	a.patches, a.events = 0, nil
	return patches, events
}

var resource = schema.GroupResource{Resource: "nodes"}

type patchBody struct {
	Metadata struct {
		UID             types.UID          `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Annotations     map[string]*string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR  string   `json:"podCIDR"`
		PodCIDRs []string `json:"podCIDRs"`
	} `json:"spec"`
}

func (a *api) patch(name string, body []byte) (*corev1.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var patch patchBody
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	a.patches++
	node := a.nodes[name]
	switch {
	case node == nil:
		return nil, apierrors.NewNotFound(resource, name)
	case patch.Metadata.UID == "" || patch.Metadata.ResourceVersion == "":
		a.t.Errorf("a patch without preconditions: %s", body)
	case patch.Metadata.UID != node.UID, patch.Metadata.ResourceVersion != node.ResourceVersion:
		return nil, apierrors.NewConflict(resource, name, errors.New("the object has been modified"))
	case len(patch.Spec.PodCIDRs) > 0 && len(node.Spec.PodCIDRs) > 0:
		return nil, apierrors.NewForbidden(resource, name, errors.New("podCIDRs may not be changed"))
	case len(patch.Spec.PodCIDRs) == 0 && a.markLess:
		return node.DeepCopy(), nil
	}
	for key, value := range patch.Metadata.Annotations {
		if value == nil {
			delete(node.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, *value)
	}
	for _, cidr := range patch.Spec.PodCIDRs {
		for _, other := range a.nodes {
			if other != node && slices.Contains(other.Spec.PodCIDRs, cidr) {
				a.doubles = append(a.doubles, fmt.Sprintf("%s and %s: %s", name, other.Name, cidr))
			}
		}
	}
	if len(patch.Spec.PodCIDRs) > 0 {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = patch.Spec.PodCIDR, patch.Spec.PodCIDRs
	}
	a.note("MODIFIED", node)
	return node.DeepCopy(), nil
}

// line is one client's connection to the API. What goes wrong on it is decided by fault.
type line struct {
	api *api
	// fault is asked before each request that changes nodes, or reads one.
	fault  func(request *http.Request) fault
	asking sync.Mutex
}

type fault struct {
	refuse error         // the request does not arrive
	lost   error         // the answer does not
	late   chan struct{} // the request arrives when this is closed, though the client has given up long before
}

func (a *api) client(f func(*http.Request) fault) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://api", Transport: &line{api: a, fault: f}, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return client
}

func (l *line) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		body, _ = io.ReadAll(request.Body)
		_ = request.Body.Close()
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	query := request.URL.Query()
	if query.Get("watch") != "" {
		return answer(200, l.api.watch(request, query.Get("resourceVersion"), query.Get("sendInitialEvents") == "true")), nil
	}
	var f fault
	if name, isNode := strings.CutPrefix(request.URL.Path, "/api/v1/nodes/"); isNode && name != "" && l.fault != nil {
		l.asking.Lock()
		f = l.fault(request)
		l.asking.Unlock()
	}
	if f.refuse != nil {
		return nil, f.refuse
	}
	if f.late != nil {
		go func() {
			<-f.late
			l.api.serve(request, body)
		}()
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	response := l.api.serve(request, body)
	if f.lost != nil {
		return nil, f.lost
	}
	return response, nil
}

func answer(code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

func (a *api) serve(request *http.Request, body []byte) *http.Response {
	reply := func(object any, err error) *http.Response {
		code := 200
		if err != nil {
			var status apierrors.APIStatus
			errors.As(err, &status)
			s := status.Status()
			s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			object, code = s, int(s.Code)
		}
		raw, err := json.Marshal(object)
		if err != nil {
			a.t.Error(err)
		}
		return answer(code, io.NopCloser(bytes.NewReader(raw)))
	}
	typed := func(node *corev1.Node, err error) (any, error) {
		if node != nil {
			node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		}
		return node, err
	}
	path := request.URL.Path
	name, isNode := strings.CutPrefix(path, "/api/v1/nodes/")
	switch {
	case strings.HasSuffix(path, "/events") && request.Method == http.MethodPost:
		var e corev1.Event
		if err := json.Unmarshal(body, &e); err != nil {
			a.t.Error(err)
		}
		a.mu.Lock()
		a.events = append(a.events, fmt.Sprintf("%s %s %s %s: %s", e.Source.Component, e.Type, e.Reason, e.InvolvedObject.UID, e.Message))
		a.mu.Unlock()
		return reply(e, nil)
	case isNode && request.Method == http.MethodPatch:
		return reply(typed(a.patch(name, body)))
	case isNode && request.Method == http.MethodGet:
		a.mu.Lock()
		defer a.mu.Unlock()
		if node := a.nodes[name]; node != nil {
			return reply(typed(node.DeepCopy(), nil))
		}
		return reply(nil, apierrors.NewNotFound(resource, name))
	case path == "/api/v1/nodes":
		a.mu.Lock()
		defer a.mu.Unlock()
		list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		list.ResourceVersion = strconv.Itoa(a.version)
		for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
			list.Items = append(list.Items, *a.nodes[name])
		}
		return reply(list, nil)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return reply(nil, apierrors.NewMethodNotSupported(resource, request.Method))
}

// stream is the body of a watch.
type stream struct {
	api     *api
	request *http.Request
	next    int // in the history
	pending bytes.Buffer
	closed  chan struct{}
	once    sync.Once
}

func (a *api) watch(request *http.Request, from string, initial bool) io.ReadCloser {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &stream{api: a, request: request, closed: make(chan struct{})}
	if version, err := strconv.Atoi(from); err == nil {
		s.next = version
	}
	if initial {
		for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
			s.push("ADDED", a.nodes[name].DeepCopy())
		}
		bookmark := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(a.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		s.push("BOOKMARK", bookmark)
		s.next = a.version
	}
	return s
}

func (s *stream) push(kind string, node *corev1.Node) {
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	raw, err := json.Marshal(map[string]any{"type": kind, "object": node})
	if err != nil {
		s.api.t.Error(err)
	}
	s.pending.Write(append(raw, '\n'))
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.pending.Len() > 0 {
			return s.pending.Read(p)
		}
		s.api.mu.Lock()
		changed, wait := s.api.changed, time.Duration(-1)
		if s.next < len(s.api.history) {
			if e := s.api.history[s.next]; !e.at.After(time.Now()) {
				s.push(e.kind, e.node.DeepCopy())
				s.next++
				wait = 0
			} else {
				wait = time.Until(e.at)
			}
		}
		s.api.mu.Unlock()
		if wait == 0 {
			continue
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer, changed = time.After(wait), nil
		}
		select {
		case <-changed:
		case <-timer:
		case <-s.closed:
			return 0, io.EOF
		case <-s.request.Context().Done():
			return 0, io.EOF
		}
	}
}

func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
