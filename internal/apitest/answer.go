package apitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/transplant-dev/transplant/internal/mergepatch"
)

// request is what a path asks about.
type request struct{ group, version, namespace, resource, name, sub string }

func parsePath(path string) request {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var r request
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		r.version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		r.group, r.version, parts = parts[1], parts[2], parts[3:]
	default:
		return r
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&r.resource, &r.name, &r.sub} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return r
}

// named is the request about one object of a collection; about all of them when the name is empty.
func (r request) named(name string) request {
	if name != "" {
		r.name = name
	}
	return r
}

// coversObject reports whether an object is one that a request asks for.
func (r request) coversObject(o request) bool {
	return o.group == r.group && o.resource == r.resource && (r.namespace == "" || r.namespace == o.namespace) &&
		(r.name == "" || r.name == o.name)
}

var writeVerbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// verb is what the authorizer would call a request.
func verb(method string, r request, watch bool) string {
	switch {
	case writeVerbs[method] != "":
		return writeVerbs[method]
	case watch:
		return "watch"
	case r.name == "":
		return "list"
	}
	return "get"
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if s.Intercept != nil && s.Intercept(w, req) {
		return
	}
	if req.URL.Path == "/version" {
		write(w, http.StatusOK, map[string]string{"major": "1", "minor": "26", "gitVersion": "v1.26.0"})
		return
	}
	if s.serveDiscovery(w, req) {
		return
	}
	r := parsePath(req.URL.Path)
	if r.resource == "" || !s.serves(r) {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	v := verb(req.Method, r, req.URL.Query().Get("watch") == "true")
	s.count(v, r)
	if s.isDenied(v, r) {
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden, refusal(v, r))
		return
	}
	var body map[string]any
	if v == "create" || v == "update" || v == "patch" || v == "delete" {
		var err error
		if body, err = decodeBody(req); err != nil {
			status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return
		}
	}
	if v == "watch" {
		s.watch(w, req)
		return
	}
	if why := tooLarge(r, body); why != "" {
		status(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve(w, req, v, r, body)
}

// maxContent is what the values of a ConfigMap or a Secret may come to.
const maxContent = 1 << 20

// tooLarge says that an object holds more than a real server lets it; empty when it does not.
func tooLarge(r request, body map[string]any) string {
	if r.resource != "configmaps" && r.resource != "secrets" || r.sub != "" {
		return ""
	}
	size := 0
	for field, encoded := range map[string]bool{"data": r.resource == "secrets", "binaryData": true} {
		values, _ := body[field].(map[string]any)
		for _, v := range values {
			text, _ := v.(string)
			if size += len(text); encoded {
				size += base64.StdEncoding.DecodedLen(len(text)) - len(text)
			}
		}
	}
	if size <= maxContent {
		return ""
	}
	return fmt.Sprintf(
		"%s %q is invalid: []: Too long: must have at most %d bytes",
		r.resource,
		metadata(body)["name"],
		maxContent,
	)
}

// decodeBody reads a body: typed clients write Protobuf, dynamic ones JSON, and a deletion may have none.
func decodeBody(req *http.Request) (map[string]any, error) {
	data, err := io.ReadAll(req.Body)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	if !strings.HasPrefix(req.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		var body map[string]any
		return body, json.Unmarshal(data, &body)
	}
	o, kind, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(o)
}

func (s *Server) isDenied(verb string, r request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denied[verb+" "+r.full()]
}

func (r request) full() string {
	if r.sub != "" {
		return r.resource + "/" + r.sub
	}
	return r.resource
}

func refusal(verb string, r request) string {
	name, scope := "", " at the cluster scope"
	if r.name != "" {
		name = fmt.Sprintf(" %q", r.name)
	}
	if r.namespace != "" {
		scope = fmt.Sprintf(" in the namespace %q", r.namespace)
	}
	return fmt.Sprintf(
		"%s%s is forbidden: User %q cannot %s resource %q in API group %q%s",
		r.resource,
		name,
		User,
		verb,
		r.full(),
		r.group,
		scope,
	)
}

func (s *Server) serve(w http.ResponseWriter, req *http.Request, verb string, r request, body map[string]any) {
	path, dry := req.URL.Path, isDryRun(req, body)
	object, found := s.objects[strings.TrimSuffix(path, "/"+r.sub)]
	switch {
	case strings.HasSuffix(r.resource, "subjectaccessreviews"):
		s.review(w, body)
	case verb == "list":
		s.page(w, req, r)
	case verb == "create" && r.sub == "":
		s.create(w, path+"/"+fmt.Sprint(metadata(body)["name"]), r, body, dry)
	case !found:
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", r.resource, r.name))
	case r.sub == "token":
		write(w, http.StatusCreated, s.token(object, r, body))
	case verb == "get":
		write(w, http.StatusOK, object)
	case verb == "update":
		s.update(w, path, r, object, body, dry)
	case verb == "patch":
		s.update(w, path, r, object, mergepatch.Apply(object, body), dry)
	case verb == "delete":
		if pre, ok := body["preconditions"].(map[string]any); ok && pre["resourceVersion"] != nil &&
			pre["resourceVersion"] != metadata(object)["resourceVersion"] {
			status(w, http.StatusConflict, metav1.StatusReasonConflict, "the precondition does not hold")
			return
		}
		if !dry {
			s.log = append(s.log, verb+" "+path)
			s.remove(path)
		}
		write(w, http.StatusOK, object)
	default:
		status(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, verb+" is not supported")
	}
}

// isDryRun reports whether nothing is to be stored. The options of a deletion are its body.
func isDryRun(req *http.Request, body map[string]any) bool {
	inBody, _ := body["dryRun"].([]any)
	return req.URL.Query().Get("dryRun") == "All" || req.Method == http.MethodDelete && len(inBody) > 0
}

func (s *Server) create(w http.ResponseWriter, path string, r request, body map[string]any, dry bool) {
	if _, there := s.objects[path]; there {
		status(
			w,
			http.StatusConflict,
			metav1.StatusReasonAlreadyExists,
			fmt.Sprintf("%s %q already exists", r.resource, metadata(body)["name"]),
		)
		return
	}
	if r.namespace != "" {
		metadata(body)["namespace"] = r.namespace
	}
	if !dry {
		s.log = append(s.log, "create "+path)
		s.store(path, body)
	}
	write(w, http.StatusCreated, body)
}

func (s *Server) update(w http.ResponseWriter, path string, r request, object, body map[string]any, dry bool) {
	if rv := metadata(body)["resourceVersion"]; rv != nil && rv != "" && rv != metadata(object)["resourceVersion"] {
		status(
			w,
			http.StatusConflict,
			metav1.StatusReasonConflict,
			fmt.Sprintf("%s %q: the object has been modified", r.resource, r.name),
		)
		return
	}
	if !dry {
		s.log = append(s.log, "update "+path)
		s.store(path, body)
	}
	write(w, http.StatusOK, body)
}

func groupVersion(r request) string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// listKind is the kind of a list of a resource, which a client needs to read it.
func listKind(r request) string {
	gv := schema.GroupVersion{Group: r.group, Version: r.version}
	for kind := range scheme.Scheme.KnownTypes(gv) {
		if plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind)); plural.Resource == r.resource {
			return kind + "List"
		}
	}
	return "List"
}

// review answers whether a user may do something: every user may do everything but what was denied.
func (s *Server) review(w http.ResponseWriter, body map[string]any) {
	spec, _ := body["spec"].(map[string]any)
	a, _ := spec["resourceAttributes"].(map[string]any)
	resource := fmt.Sprint(a["resource"])
	if sub, ok := a["subresource"]; ok {
		resource += "/" + fmt.Sprint(sub)
	}
	body["status"] = map[string]any{"allowed": !s.denied[fmt.Sprint(a["verb"])+" "+resource]}
	write(w, http.StatusCreated, body)
}

// eventsSince returns what a client has missed that has seen a version; nothing for one that has seen none. The server
// is locked.
func (s *Server) eventsSince(seen int, asked request) (missed []event) {
	if seen <= 0 {
		return nil
	}
	for _, t := range s.told {
		if t.version > seen && asked.coversObject(parsePath(t.path)) {
			missed = append(missed, t.event)
		}
	}
	return missed
}

// watch sends what has changed in a collection since the version that the client has seen. It goes on with later
// changes until the client goes away.
func (s *Server) watch(w http.ResponseWriter, req *http.Request) {
	ch := make(chan event, 1000)
	s.mu.Lock()
	name, _ := strings.CutPrefix(req.URL.Query().Get("fieldSelector"), "metadata.name=")
	if strings.Contains(name, "=") {
		name = "" // another field is left to who asks: a watch may send more than was asked for here
	}
	asked := parsePath(req.URL.Path).named(name)
	seen, _ := strconv.Atoi(req.URL.Query().Get("resourceVersion")) // zero for a client that has seen nothing
	if seen > 0 && seen < s.forgot {
		s.mu.Unlock()
		status(
			w,
			http.StatusGone,
			metav1.StatusReasonExpired,
			fmt.Sprintf("too old resource version: %d (%d)", seen, s.forgot),
		)
		return
	}
	s.watchers[ch] = asked
	missed := s.eventsSince(seen, asked)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, ch)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	encoder := json.NewEncoder(w)
	shown := func(e event) event { return e }
	if strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata;") {
		shown = func(e event) event {
			return event{
				e.Type,
				map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": e.Object["metadata"]},
			}
		}
	}
	for _, e := range missed {
		if encoder.Encode(shown(e)) != nil {
			return
		}
	}
	flusher.Flush()
	for {
		select {
		case <-req.Context().Done():
			return
		case e := <-ch:
			if encoder.Encode(shown(e)) != nil {
				return
			}
			flusher.Flush()
		}
	}
}
