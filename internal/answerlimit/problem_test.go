package answerlimit

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// TestDiscoveryIsBoundedByTheMemoryThatItTakes: its client decodes the groups of an API server whatever type they have.
func TestDiscoveryIsBoundedByTheMemoryThatItTakes(t *testing.T) {
	for name, c := range map[string]struct{ kind, answer, want string }{
		"as text":           {"text/plain", repeated(`{"groups":[`, `{}`, 900_000, `]}`), "more than 64 KiB"},
		"without a kind":    {jsonType, repeated(`{"groups":[`, `{}`, 900_000, `]}`), "does not say what kind and version"},
		"of its kind":       {jsonType, repeated(`{"kind":"APIGroupList","apiVersion":"v1","groups":[`, `{}`, 900_000, `]}`), "MiB of memory"},
		"of another kind":   {jsonType, repeated(`{"kind":"X","apiVersion":"v1","groups":[`, `{}`, 900_000, `]}`), "MiB of memory"},
		"in its own format": {jsonType + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", repeated(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[`, `{}`, 900_000, `]}`), "MiB of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				_, _ = io.WriteString(w, c.answer)
			})
			var err error
			took := allocated(func() {
				_, err = discovery.ToDiscoveryInterfaceWithContext(boundedClient(t, s).Discovery()).ServerGroupsWithContext(t.Context())
			})
			if err == nil || !strings.Contains(err.Error(), c.want) || took > 100<<20 {
				t.Errorf("%d MiB were allocated in all, and it ended with %v", took>>20, err)
			}
		})
	}
}

// TestAProblemIsBounded: each layer that adds to an error copies it.
func TestAProblemIsBounded(t *testing.T) {
	long := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"%s"}`, strings.Repeat("x", 1<<20))
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"a refusal":               {http.StatusForbidden, long, "has more than 64 KiB"},
		"a refusal as an answer":  {http.StatusOK, long, "says why something failed in more than 64 KiB"},
		"a refusal of many nodes": {http.StatusForbidden, repeated(`{"kind":"NodeList","apiVersion":"v1","items":[`, `{}`, 20_000, `]}`), "would take more than 1 MiB"},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		})
		_, err := boundedClient(t, s).CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestAnEventThatSaysWhyAWatchFailedIsBounded, too.
func TestAnEventThatSaysWhyAWatchFailedIsBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","message":"%s"}}`, strings.Repeat("x", 1<<20))
	})
	w, err := boundedClient(t, s).CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if status, ok := e.Object.(*metav1.Status); ok && len(status.Message) > 1000 {
			t.Errorf("an event of %d bytes says why", len(status.Message))
		}
	}
}

// TestAWatchThatIsNoJSONIsRefused, and its body is not left open.
func TestAWatchThatIsNoJSONIsRefused(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // until the body is closed
	})
	_, err := boundedClient(t, s).CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "no stream of events") {
		t.Errorf("the watch: %v", err)
	}
}

// TestManagedFieldsWeighWhatTheyHave: they keep the bytes of the answer.
func TestManagedFieldsWeighWhatTheyHave(t *testing.T) {
	const long = 3 << 20
	node := fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"managedFields":[{"fieldsV1":{"%s":{}}}]}}`, strings.Repeat("x", long))
	weight, err := weighObject([]byte(node), nil, maxWeight)
	if err != nil || weight < long || weight > 2*long {
		t.Errorf("%d bytes weigh %d: %v", len(node), weight, err)
	}
}

// TestSizeIsWhatAValueTakes, with all that it leads to.
func TestSizeIsWhatAValueTakes(t *testing.T) {
	text := strings.Repeat("x", 1000)
	type record struct {
		Name   string
		Labels map[string]string
		Next   *record
		Raw    []byte
		Any    any
		At     metav1.Time
	}
	for name, c := range map[string]struct {
		value    any
		from, to int64
	}{
		"nothing":             {nil, 0, 0},
		"a number":            {int64(7), 8, 8},
		"a text":              {text, 1016, 1016},
		"texts":               {[]string{text, text}, 2056, 2056},
		"a time":              {metav1.Now(), 24, 24},
		"a map":               {map[string]string{text: text}, 2000, 2200},
		"what a pointer has":  {&record{Next: &record{Name: text}}, 1200, 1400},
		"bytes":               {record{Raw: make([]byte, 10, 1000)}, 1050, 1200},
		"what any value has":  {record{Any: []any{text}}, 1100, 1300},
		"an unexported field": {struct{ text string }{text}, 1016, 1016},
		"a resource":          {schema.GroupVersionResource{Resource: text}, 1048, 1048},
	} {
		if n := Size(c.value); n < c.from || n > c.to {
			t.Errorf("%s takes %d bytes, want %d to %d", name, n, c.from, c.to)
		}
	}
}
