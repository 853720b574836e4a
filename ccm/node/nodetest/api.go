// Package nodetest decides how much of an API server and of a cloud the tests of the node controllers need. The API
// server holds nodes and events, honours merge patches, subresources, resource versions, UIDs and preconditions, and
// refuses what a real one refuses about nodes. It is reached through a real client, without a socket, so that it works
// within testing/synctest.
package nodetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/internal/mergepatch"
)

// API is an API server that knows nodes and events.
type API struct {
	// Fault is asked before each request for nodes, as "PATCH n/status"; an error is given to the client instead of an
	// answer. It may change the API's state.
	Fault func(request string) error
	// Latency is how long each request takes.
	Latency time.Duration

	mu       sync.Mutex
	version  int
	nodes    map[string]*corev1.Node
	events   map[string]corev1.Event
	order    []string // of events
	requests []string
	watches  map[*stream]bool
}

// New returns an API server with nodes.
func New(nodes ...*corev1.Node) *API {
	a := &API{nodes: map[string]*corev1.Node{}, events: map[string]corev1.Event{}, watches: map[*stream]bool{}}
	for _, node := range nodes {
		a.Put(node)
	}
	return a
}

// Client reaches the server. Each of wrap is put around its transport.
func (a *API) Client(wrap ...func(http.RoundTripper) http.RoundTripper) kubernetes.Interface {
	config := &rest.Config{
		Host:          "http://api.test",
		QPS:           -1,
		Transport:     a,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
	for _, w := range wrap {
		config.Wrap(w)
	}
	return kubernetes.NewForConfigOrDie(config)
}

// Put creates a node, past clients; with the name of another it takes its place as a new object.
func (a *API) Put(node *corev1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.nodes[node.Name]; ok {
		a.remove(node.Name)
	}
	node = node.DeepCopy()
	a.version++
	if node.UID == "" {
		node.UID = types.UID(fmt.Sprintf("uid-%d", a.version))
	}
	a.store("ADDED", node)
}

// Change changes a node, past clients.
func (a *API) Change(name string, change func(*corev1.Node)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := a.nodes[name].DeepCopy()
	change(node)
	a.store("MODIFIED", node)
}

// Remove deletes a node, past clients.
func (a *API) Remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(name)
}

// Node returns a node, or nil if there is none.
func (a *API) Node(name string) *corev1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes[name].DeepCopy()
}

// Nodes returns all nodes.
func (a *API) Nodes() []*corev1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	var nodes []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		nodes = append(nodes, a.nodes[name].DeepCopy())
	}
	return nodes
}

// Requests returns the requests for nodes so far, as "PATCH n/status", without lists and watches.
func (a *API) Requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Events returns the events so far, as "n: Normal Synced: message", with " (xN)" if one has happened several times.
func (a *API) Events() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var events []string
	for _, name := range a.order {
		e := a.events[name]
		text := fmt.Sprintf("%s: %s %s: %s", e.InvolvedObject.Name, e.Type, e.Reason, e.Message)
		if e.Count > 1 {
			text += fmt.Sprintf(" (x%d)", e.Count)
		}
		events = append(events, text)
	}
	return events
}

func (a *API) store(kind string, node *corev1.Node) {
	a.version++
	node.ResourceVersion = strconv.Itoa(a.version)
	a.nodes[node.Name] = node
	a.sendEvent(kind, node)
}

func (a *API) remove(name string) {
	if node, ok := a.nodes[name]; ok {
		a.version++
		node = node.DeepCopy()
		node.ResourceVersion = strconv.Itoa(a.version)
		delete(a.nodes, name)
		a.sendEvent("DELETED", node)
	}
}

func (a *API) sendEvent(kind string, node *corev1.Node) {
	if len(a.watches) == 0 {
		return
	}
	line := encodeJSON(map[string]any{"type": kind, "object": typed(node)})
	for s := range a.watches {
		s.send(line)
	}
}

// RoundTrip implements http.RoundTripper.
func (a *API) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.Latency > 0 {
		timer := time.NewTimer(a.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	switch {
	case path == "nodes" && r.URL.Query().Get("watch") != "":
		return a.watch(r), nil
	case path == "nodes":
		return a.list(r), nil
	case strings.HasPrefix(path, "nodes/"):
		answer, err := a.node(r, strings.TrimPrefix(path, "nodes/"), body)
		return respond(r, answer, err)
	case strings.Contains(path, "/events"):
		answer, err := a.event(r, body)
		return respond(r, answer, err)
	}
	return respond(r, nil, apierrors.NewNotFound(schema.GroupResource{}, path))
}

func (a *API) node(r *http.Request, path string, body []byte) (any, error) {
	name, subresource, _ := strings.Cut(path, "/")
	request := r.Method + " " + path
	if a.Fault != nil {
		if err := a.Fault(request); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, request)
	node, ok := a.nodes[name]
	if !ok {
		return nil, apierrors.NewNotFound(resource, name)
	}
	switch r.Method {
	case http.MethodGet:
		return typed(node), nil
	case http.MethodDelete:
		return a.delete(node, body)
	case http.MethodPatch:
		patched, err := applyPatch(types.PatchType(r.Header.Get("Content-Type")), node, body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return a.patch(node, subresource, patched)
	}
	return nil, apierrors.NewMethodNotSupported(resource, r.Method)
}

var resource = schema.GroupResource{Resource: "nodes"}

func (a *API) delete(node *corev1.Node, body []byte) (any, error) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(body, &options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if pre := options.Preconditions; pre != nil {
		if pre.UID != nil && *pre.UID != node.UID ||
			pre.ResourceVersion != nil && *pre.ResourceVersion != node.ResourceVersion {
			return nil, apierrors.NewConflict(resource, node.Name, fmt.Errorf("the preconditions do not hold"))
		}
	}
	if len(node.Finalizers) > 0 {
		node = node.DeepCopy()
		now := metav1.Now()
		node.DeletionTimestamp = &now
		a.store("MODIFIED", node)
		return typed(node), nil
	}
	a.remove(node.Name)
	return typed(node), nil
}

// applyPatch returns what a patch makes of a node.
func applyPatch(kind types.PatchType, old *corev1.Node, body []byte) (node corev1.Node, err error) {
	var patched []byte
	switch kind {
	case types.StrategicMergePatchType:
		patched, err = strategicpatch.StrategicMergePatch(encodeJSON(old), body, corev1.Node{})
	case types.MergePatchType:
		var object, patch map[string]any
		err = errors.Join(json.Unmarshal(encodeJSON(old), &object), json.Unmarshal(body, &patch))
		patched = encodeJSON(mergepatch.Apply(object, patch))
	default:
		err = fmt.Errorf("unexpected patch %s", kind)
	}
	if err != nil {
		return node, err
	}
	return node, json.Unmarshal(patched, &node)
}

func (a *API) patch(old *corev1.Node, subresource string, node corev1.Node) (any, error) {
	if node.UID != old.UID || node.ResourceVersion != old.ResourceVersion {
		return nil, apierrors.NewConflict(resource, old.Name, fmt.Errorf("the object has been modified"))
	}
	if subresource == "status" {
		status := node.Status
		node = *old.DeepCopy()
		node.Status = status
	} else {
		node.Status = old.Status
	}
	if old.Spec.ProviderID != "" && node.Spec.ProviderID != old.Spec.ProviderID {
		return nil, invalid(old.Name, "spec.providerID cannot be changed")
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(node.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		return nil, invalid(old.Name, "spec.podCIDRs cannot be changed")
	}
	for key, value := range node.Labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return nil, invalid(old.Name, "metadata.labels: "+strings.Join(problems, "; "))
		}
	}
	if reflect.DeepEqual(node, *old) {
		return typed(old), nil // it is not written, and watchers are told nothing
	}
	a.store("MODIFIED", &node)
	return typed(&node), nil
}

func invalid(name, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("Node %q is invalid: %s", name, message),
	}}
}

func (a *API) event(r *http.Request, body []byte) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPatch {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		e := a.events[name]
		if err := json.Unmarshal(body, &e); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		a.events[name] = e
		return e, nil
	}
	var e corev1.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	key := e.Name // which is made of the time, that does not pass in a bubble
	for n := 2; a.events[key].Name != ""; n++ {
		key = fmt.Sprintf("%s-%d", e.Name, n)
	}
	a.events[key] = e
	a.order = append(a.order, key)
	return e, nil
}

func (a *API) list(r *http.Request) *http.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	list.ResourceVersion = strconv.Itoa(a.version)
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		list.Items = append(list.Items, *a.nodes[name])
	}
	return response(r, http.StatusOK, io.NopCloser(bytes.NewReader(encodeJSON(list))))
}

func (a *API) watch(r *http.Request) *http.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := newStream(r.Context())
	a.watches[s] = true
	s.closed = func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watches, s)
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
			s.send(encodeJSON(map[string]any{"type": "ADDED", "object": typed(a.nodes[name])}))
		}
		bookmark := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(a.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		s.send(encodeJSON(map[string]any{"type": "BOOKMARK", "object": typed(bookmark)}))
	}
	return response(r, http.StatusOK, s)
}

func typed(node *corev1.Node) *corev1.Node {
	out := *node
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	return &out
}

func respond(r *http.Request, answer any, err error) (*http.Response, error) {
	var status apierrors.APIStatus
	switch s, ok := err.(apierrors.APIStatus); { //nolint:errorlint // tests make it, unwrapped
	case ok:
		status = s
	case err != nil:
		return nil, err
	default:
		return response(r, http.StatusOK, io.NopCloser(bytes.NewReader(encodeJSON(answer)))), nil
	}
	body := status.Status()
	body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return response(r, int(body.Code), io.NopCloser(bytes.NewReader(encodeJSON(body)))), nil
}

func response(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

func encodeJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return append(data, '\n')
}
