package answerlimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/transplant-dev/transplant/internal/jsonweight"
)

const (
	// maxWeight bounds what an answer takes when it is decoded. An empty node is two bytes of an answer, and hundreds of
	// what it is decoded into. A page of 500 nodes takes some 30 MiB.
	maxWeight = 64 << 20
	// maxEventWeight is that of an event of a watch. A cluster has several watches, each with two events in memory.
	maxEventWeight = 8 << 20
	// maxProblemWeight is that of an answer that says why something failed.
	maxProblemWeight = 1 << 20
	// heaviest is more than any element of a list takes, apart from its own elements.
	heaviest = 2 << 10
	// listed is what each element of a list without types takes next to what was sent of it. Client-go gives it a kind
	// and a version.
	listed = 512
	// typeless divides the limit of an answer that does not say what it is, and is decoded into what was asked for.
	typeless = 16
)

const (
	jsonType = "application/json"
	protobuf = "protobuf"
)

// What clients without types, and those of metadata, decode answers into whatever they say that they are.
var (
	untyped      = []reflect.Type{reflect.TypeFor[any]()}
	metadataOnly = []reflect.Type{
		reflect.TypeFor[metav1.PartialObjectMetadataList](),
		reflect.TypeFor[metav1.PartialObjectMetadata](),
	}
)

// discovered is what a client of discovery decodes lists of groups and versions into, whatever they say that they are.
var discovered = []reflect.Type{
	reflect.TypeFor[apidiscoveryv2.APIGroupDiscoveryList](),
	reflect.TypeFor[metav1.APIGroupList](),
	reflect.TypeFor[metav1.APIVersions](),
}

// askJSON makes a request ask for JSON, where it would take something else, too. What an answer in protobuf takes is
// not known before it is decoded. It returns what the answer is decoded into, if not into what it says that it is.
func askJSON(req *http.Request) (_ *http.Request, as []reflect.Type) {
	accept := req.Header.Get("Accept")
	switch {
	case strings.Contains(accept, "as=PartialObjectMetadata"):
		as = metadataOnly
	case strings.Contains(accept, "as=APIGroupDiscoveryList"):
		as = discovered
	}
	if !strings.Contains(accept, protobuf) {
		return req, slices.Concat(as, untyped)
	}
	var kept []string
	for part := range strings.SplitSeq(accept, ",") {
		if part = strings.TrimSpace(part); strings.HasPrefix(part, jsonType) {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		kept = []string{jsonType}
	}
	req = req.Clone(req.Context())
	req.Header.Set("Accept", strings.Join(kept, ","))
	return req, as
}

// isRefusedType reports whether clients decode a content type that was not asked for. An answer without one is decoded
// as what the client prefers.
func isRefusedType(kind string) bool {
	switch kind {
	case "", "application/yaml", "application/cbor", "application/cbor-seq":
		return true
	}
	return strings.Contains(kind, protobuf)
}

// weighed is an answer that is read to its end before its reader gets any of it, and refused where it is too heavy.
type weighed struct {
	weighing

	isRead bool
	data   bytes.Reader
}

// weighing is what answers and events that are weighed have in common.
type weighing struct {
	*answer

	name string
	as   []reflect.Type
	err  error
}

// taken counts what was weighed with the other pages of a list, and with what else its reader has.
func (w *weighing) taken(weight int64) error {
	r := readerOf(w.ctx)
	if _, isPassing := r.(*passing); !isPassing && w.lists.addWeight(w.count, weight) {
		return fmt.Errorf("the pages of %s would take more than %d MiB of memory together",
			listName(w.host, w.path), w.lists.weight>>20)
	}
	if r != nil {
		return r.countAnswer(w.answer, weight)
	}
	return nil
}

// refusal says which answer is refused.
func (w *weighing) refusal(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is not decoded: %w: look at what that API server runs", w.name, err)
}

// Read implements io.Reader.
func (w *weighed) Read(p []byte) (int, error) {
	if !w.isRead {
		w.isRead = true
		var data []byte
		if data, w.err = io.ReadAll(w.answer); w.err == nil {
			data, w.err = w.weighAnswer(data)
			w.err = w.refusal(w.err)
		}
		w.data.Reset(data)
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.data.Read(p)
}

// weighAnswer is the answer as its reader gets it, and an error where that would take too much.
func (w *weighed) weighAnswer(data []byte) ([]byte, error) {
	data, err := tidy(data)
	if err != nil {
		return nil, err
	}
	if w.isProblem {
		_, err := weighObject(data, w.as, maxProblemWeight)
		return data, err
	}
	if err := checkTypeMeta(data); err != nil {
		return nil, err
	}
	if len(data) > maxProblem && isStatus(data) {
		return nil, fmt.Errorf("it says why something failed in more than %d KiB", maxProblem>>10)
	}
	weight, err := weighObject(data, w.as, maxWeight)
	if err != nil {
		return nil, err
	}
	return data, w.taken(weight)
}

// isStatus reports whether clients take an object for an error.
func isStatus(data []byte) bool {
	var kind kindOf
	return json.Unmarshal(data, &kind) == nil && kind.Kind == "Status"
}

// weighedEvents is a watch whose events are weighed. A reader decodes an event when it has all of it.
type weighedEvents struct {
	weighing

	values jsonValues
	event  []byte
}

// usualEvent is how long an event is for which memory is kept.
const usualEvent = 64 << 10

// Read implements io.Reader.
func (w *weighedEvents) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.answer.Read(p)
	for _, c := range p[:n] {
		w.event = append(w.event, c)
		if !w.values.ends(c) {
			continue
		}
		if w.err = w.weighEvent(); w.err != nil {
			return 0, w.err
		}
		if w.event = w.event[:0]; cap(w.event) > usualEvent {
			w.event = nil
		}
	}
	return n, err
}

// weighEvent weighs an event, and counts what it takes if none of its watch took more.
func (w *weighedEvents) weighEvent() error {
	event, err := tidy(w.event)
	if err != nil {
		return w.refusal(err)
	}
	object, err := objectOf(event)
	if err != nil {
		return w.refusal(err)
	}
	limit := int64(maxEventWeight)
	if boundOf(event) <= maxWeight/typeless {
		limit = maxWeight // it takes little in any type
	}
	weight, err := weighObject(object, w.as, limit)
	if err != nil || weight <= w.events.heaviest {
		return w.refusal(err)
	}
	w.events.heaviest = weight
	return w.hold(w.events.grown(0))
}

// errNoEvent says that a watch has something else. Clients decode that whole, whatever it is.
var errNoEvent = errors.New("it is no event of a watch")

// objectOf is the object of an event. It refuses what is no event, and one that does not say what its object is, or
// says at length why the watch failed.
func objectOf(event []byte) ([]byte, error) {
	var e eventOf
	if utiljson.Unmarshal(event, &e) != nil || len(e.Type) > maxName {
		return nil, errNoEvent
	}
	var kind kindOf
	if _ = json.Unmarshal(event, &kind); kind.Kind != "" || kind.APIVersion != "" {
		return nil, errNoEvent
	}
	if len(event) > maxProblem && (e.Type == string(watch.Error) || isStatus(e.Object)) {
		return nil, fmt.Errorf("it says why the watch failed in more than %d KiB", maxProblem>>10)
	}
	return e.Object, checkTypeMeta(e.Object)
}

// kindOf is what clients take to find out what an answer is.
type kindOf struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// eventOf is what clients take of an event for its object.
type eventOf struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// boundOf is more than data takes in any type.
func boundOf(data []byte) int64 {
	structure := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("["))
	return int64(len(data) + structure*heaviest)
}

// weighObject is what an object would take in the heaviest of the types that it may be decoded into.
func weighObject(data []byte, as []reflect.Type, limit int64) (most int64, _ error) {
	var kind kindOf
	if json.Unmarshal(data, &kind) != nil {
		kind.Kind = ""
	}
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	into := slices.Clone(as)
	switch known, isKnown := typeOf(gvk); {
	case isKnown:
		into = append(into, known)
	case len(into) == 0:
		into, limit = untyped, limit/typeless
	case gvk.Kind == "" || gvk.Version == "":
		limit /= typeless
	}
	for _, t := range into {
		var elements int64
		if t.Kind() == reflect.Interface {
			elements = listed * elementsOf(data)
		}
		weight, err := jsonweight.Of(data, t, limit-elements)
		if errors.Is(err, jsonweight.ErrQuantity) {
			return 0, err
		}
		if err != nil || elements > limit {
			return 0, fmt.Errorf("it would take more than %d MiB of memory, or nests too deep", limit>>20)
		}
		most = max(most, elements+weight)
	}
	return most, nil
}

// elementsOf is how many elements a list has; 0 for what is none.
func elementsOf(data []byte) int64 {
	var list struct {
		Items []skipped `json:"items"`
	}
	_ = utiljson.Unmarshal(data, &list) // a client of a list may go on where this one ends
	return int64(len(list.Items))
}

// skipped is an element that is counted and not kept.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// typeOf is the type that clients decode a kind into. That of metadata is in the scheme of its client alone.
func typeOf(gvk schema.GroupVersionKind) (reflect.Type, bool) {
	if gvk.Group == metav1.GroupName {
		switch gvk.Kind {
		case "PartialObjectMetadata":
			return reflect.TypeFor[metav1.PartialObjectMetadata](), true
		case "PartialObjectMetadataList":
			return reflect.TypeFor[metav1.PartialObjectMetadataList](), true
		}
	}
	known, isKnown := scheme.Scheme.AllKnownTypes()[gvk]
	return known, isKnown
}

// mediaType is the content type of an answer without its parameters.
func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}
