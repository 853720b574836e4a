package answerlimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// repeated is an object with many elements in a place.
func repeated(before, element string, n int, after string) string {
	return before + strings.Repeat(element+",", n-1) + element + after
}

// protobufNodes is a list of empty nodes, of two bytes each.
func protobufNodes(t *testing.T, n int) string {
	t.Helper()
	u := kruntime.Unknown{TypeMeta: kruntime.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Raw: append([]byte{0x0a, 0x00}, bytes.Repeat([]byte{0x12, 0x00}, n)...)}
	data, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(data)
}

// allocated is what f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAnAnswerIsBoundedByTheMemoryThatItTakes: an empty node is two bytes of an answer, and hundreds of its reader.
func TestAnAnswerIsBoundedByTheMemoryThatItTakes(t *testing.T) {
	const n = 300_000
	machines := kschema.GroupVersionResource{Group: "cluster.k8s.io", Version: "v1alpha1", Resource: "machines"}
	nodes := kschema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	for name, c := range map[string]struct {
		kind, answer string
		dynamic      *kschema.GroupVersionResource
		isMetadata   bool
		want         string
	}{
		"nodes":                 {answer: repeated(`{"kind":"NodeList","apiVersion":"v1","items":[`, `{}`, n, `]}`)},
		"their kind at the end": {answer: repeated(`{"items":[`, `{}`, n, `],"kind":"NodeList","apiVersion":"v1"}`)},
		"without their kind":    {answer: repeated(`{"items":[`, `{}`, n, `]}`), want: "does not say what kind"},
		"without their version": {answer: repeated(`{"kind":"NodeList","items":[`, `{}`, n, `]}`), want: "does not say what kind"},
		"of another form":       {answer: repeated(`{"kind":"NodeList","apiVersion":"v1","items":[`, `0`, n, `]}`)},
		"taints of a node":      {answer: repeated(`{"kind":"NodeList","apiVersion":"v1","items":[{"spec":{"taints":[`, `{}`, 4*n, `]}}]}`)},
		"another list":          {answer: repeated(`{"kind":"PodList","apiVersion":"v1","items":[`, `{}`, n, `]}`)},
		"a status": {
			answer: repeated(`{"kind":"Status","apiVersion":"v1","status":"Failure","details":{"causes":[`, `{}`, 6*n, `]}}`),
			want:   "says why something failed in more than 64 KiB",
		},
		"nodes in protobuf": {kind: protobufType, answer: protobufNodes(t, n), want: "was not asked for"},
		"nodes in no type":  {kind: "none", answer: protobufNodes(t, n), want: "was not asked for"},
		"what machines hold": {
			answer:  repeated(`{"kind":"MachineList","apiVersion":"cluster.k8s.io/v1alpha1","items":[{"kind":"Machine","spec":{"x":[`, `{"":0}`, n, `]}}]}`),
			dynamic: &machines,
		},
		"machines that get a kind": {
			answer:  repeated(`{"kind":"MachineList","apiVersion":"cluster.k8s.io/v1alpha1","items":[`, `{}`, 3*n, `]}`),
			dynamic: &machines,
		},
		"nodes as they are":   {answer: repeated(`{"kind":"NodeList","apiVersion":"v1","items":[{"kind":"Node","x":[`, `{}`, 5*n, `]}]}`), dynamic: &nodes},
		"metadata":            {answer: repeated(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[`, `{}`, n, `]}`)},
		"metadata as a node":  {answer: repeated(`{"kind":"Node","apiVersion":"v1","items":[`, `{}`, n, `]}`), isMetadata: true},
		"metadata of no type": {answer: repeated(`{"kind":"X","apiVersion":"x/v1","items":[`, `{}`, n, `]}`), isMetadata: true},
		"more levels than stack": {
			answer:  `{"kind":"NodeList","apiVersion":"v1","items":[{"x":` + repeated(``, `[`, 5000, ``) + strings.Repeat(`]`, 5000) + `}]}`,
			dynamic: &nodes,
			want:    " ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.Header.Get("Accept"), "protobuf") {
					t.Errorf("asked for %s", r.Header.Get("Accept"))
				}
				if c.kind == "" {
					c.kind = "application/json"
				}
				w.Header().Set("Content-Type", c.kind)
				if c.kind == "none" {
					w.Header()["Content-Type"] = nil
				}
				_, _ = io.WriteString(w, c.answer)
			})
			var err error
			took := allocated(func() {
				if c.isMetadata {
					config := metadata.ConfigFor(&rest.Config{Host: s.URL, QPS: -1})
					Config(config)
					_, err = metadata.NewForConfigOrDie(config).Resource(nodes).List(t.Context(), metav1.ListOptions{})
					return
				}
				if c.dynamic == nil {
					_, err = boundedClient(t, s).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
					return
				}
				config := &rest.Config{Host: s.URL, QPS: -1}
				Config(config)
				_, err = dynamic.NewForConfigOrDie(config).Resource(*c.dynamic).List(t.Context(), metav1.ListOptions{})
			})
			t.Logf("%d KiB of answer: %d MiB allocated in all", len(c.answer)>>10, took>>20)
			if c.want == "" {
				c.want = "MiB of memory"
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ended with %.300v", err)
			}
			if took > 200<<20 {
				t.Errorf("%d KiB took %d MiB", len(c.answer)>>10, took>>20)
			}
		})
	}
}

// largeNode has what nodes of large clusters have: many images and conditions, and fields that several managers own.
func largeNode(i int) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{}}}
	for l := range 40 {
		n.Labels[fmt.Sprintf("example.com/label-%d", l)] = "value"
	}
	for m := range 4 {
		fields := repeated(`{"f:metadata":{"f:labels":{`, fmt.Sprintf(`"f:example.com/label-%d":{}`, m), 30, `}}}`)
		raw := &metav1.FieldsV1{}
		raw.SetRawString(fields)
		n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: "m", FieldsV1: raw})
	}
	for range 100 {
		name := "registry.example.com/some/image/with/a/name@sha256:" + strings.Repeat("0", 64)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name, name[:60]}, SizeBytes: 1 << 30})
	}
	for range 12 {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Ready", Status: "True", Reason: "r", Message: "m"})
	}
	return n
}

// TestALargePageIsDecoded: of 500 nodes, with types and without.
func TestALargePageIsDecoded(t *testing.T) {
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	for i := range 500 {
		list.Items = append(list.Items, largeNode(i))
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	for name, as := range map[string][]reflect.Type{"types": nil, "metadata": metadataOnly, "no types": untyped} {
		if _, err := weighObject(data, as, maxWeight); err != nil {
			t.Errorf("%d KiB, with %s: %v", len(data)>>10, name, err)
		}
	}
}

// TestAnEventIsBoundedByTheMemoryThatItTakes, and the ones before it are read.
func TestAnEventIsBoundedByTheMemoryThatItTakes(t *testing.T) {
	const node = `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"x"}}}`
	for name, heavy := range map[string]string{
		"its object": repeated(`{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","spec":{"taints":[`, `{}`, 2_000_000, `]}}}`),
		"named twice": repeated(
			`{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","spec":{"taints":[`, `{}`, 2_000_000,
			`]}},"OBJECT":{"kind":"Node","apiVersion":"v1"}}`,
		),
		"a list as events": repeated(`{"kind":"NodeList","apiVersion":"v1","type":"ADDED","object":{},"items":[`, `{}`, 500_000, `]}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, node+"\n"+heavy+"\n"+node+"\n")
			})
			took := allocated(func() {
				w, err := boundedClient(t, s).CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				n := 0
				for e := range w.ResultChan() {
					if _, is := e.Object.(*corev1.Node); is {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%d events were read", n)
				}
			})
			t.Logf("%d KiB of event: %d MiB allocated in all", len(heavy)>>10, took>>20)
			if took > 200<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}
