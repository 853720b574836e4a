package answerlimit

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clusterOf is a client of a cluster of a Total.
func clusterOf(t *testing.T, s *httptest.Server, total *Total) *kubernetes.Clientset {
	t.Helper()
	c := &rest.Config{Host: s.URL, QPS: -1, DisableCompression: true}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return Transport(rt, total, "") })
	kube, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return kube
}

// eventServer sends each watch one node, and keeps the watch open.
func eventServer(t *testing.T, n corev1.Node) *httptest.Server {
	t.Helper()
	n.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	data, err := json.Marshal(map[string]any{"type": "ADDED", "object": n})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(append(data, '\n'))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
}

// watchOne watches until the node has come. The event is an error where the watch was ended.
func watchOne(t *testing.T, kube *kubernetes.Clientset) (watch.Interface, watch.Event) {
	t.Helper()
	w, err := kube.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w, <-w.ResultChan()
}

// TestAWatchCountsWhatItHolds: client-go's buffers stay as large as the largest event, for as long as the watch lasts.
func TestAWatchCountsWhatItHolds(t *testing.T) {
	n := largeNode(0)
	n.Annotations = map[string]string{"a": strings.Repeat("x", 3<<19), "b": strings.Repeat("x", 3<<19)}
	total := NewTotal()
	kube := clusterOf(t, eventServer(t, n), total)
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	w, e := watchOne(t, kube)
	if _, ok := e.Object.(*corev1.Node); !ok {
		t.Fatalf("the event is %#v", e)
	}
	holds, counted := heap()-before, total.now()
	runtime.KeepAlive(e)
	t.Logf("an event of 3 MiB: the watch holds %d KiB, of which %d KiB are counted", holds>>10, counted>>10)
	if holds > counted {
		t.Errorf("it holds %d KiB, and %d KiB are counted", holds>>10, counted>>10)
	}
	w.Stop()
	for range w.ResultChan() { //nolint:revive // until it has ended
	}
	if now := total.now(); now != 0 {
		t.Errorf("%d bytes count when it has ended", now)
	}
}

// TestTheWatchesOfAClusterAreBoundedTogether: each of them would do alone.
func TestTheWatchesOfAClusterAreBoundedTogether(t *testing.T) {
	n := corev1.Node{}
	n.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20), "b": strings.Repeat("x", 1<<20)}
	total := NewTotal()
	s := eventServer(t, n)
	kube, other := clusterOf(t, s, total), clusterOf(t, s, total)
	var ended int
	for range 5 {
		w, e := watchOne(t, kube)
		defer w.Stop()
		if e.Type == watch.Error || e.Object == nil {
			ended++
		}
	}
	if ended == 0 || ended == 5 || total.now() > maxWatched {
		t.Errorf("%d of 5 watches with events of 2 MiB ended, and the others hold %d MiB", ended, total.now()>>20)
	}
	w, e := watchOne(t, other)
	defer w.Stop()
	if _, ok := e.Object.(*corev1.Node); !ok {
		t.Errorf("the watch of another cluster has %#v", e)
	}
}

// TestUsualWatchesTakeLittleOfTheTotal: 32 clusters have five watches each, and lists need room next to them.
func TestUsualWatchesTakeLittleOfTheTotal(t *testing.T) {
	total := NewTotal()
	kube := clusterOf(t, eventServer(t, largeNode(0)), total)
	w, e := watchOne(t, kube)
	defer w.Stop()
	if _, ok := e.Object.(*corev1.Node); !ok {
		t.Fatalf("the event is %#v", e)
	}
	t.Logf("a watch with a large node counts for %d KiB", total.now()>>10)
	if now := total.now(); now > maxTotal/32/5 {
		t.Errorf("it counts for %d KiB", now>>10)
	}
}

// TestAnEventThatIsTooMuchEndsItsWatchAlone: neither other watches nor other answers of the cluster end with it.
func TestAnEventThatIsTooMuchEndsItsWatchAlone(t *testing.T) {
	total := newTotal(100)
	c := total.cluster(1000)
	c.mostWatched = 60
	read := func(body, url string) error {
		b := &bounded{rt: answers(body), answer: 1000, event: 1000, cluster: c}
		resp, err := b.RoundTrip(httptest.NewRequest(http.MethodGet, url, nil))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		return err
	}
	if err := read(`{"a":1}{"a":1}{"a":1}`, "/x?watch=1"); err != nil { // 7 bytes, 7 times
		t.Error(err)
	}
	if err := read(`{"a":1}`, "/x?watch=1"); err == nil || !strings.Contains(err.Error(), "the events of other watches of that cluster take more than 0 MiB") {
		t.Errorf("a second watch: %v", err)
	}
	if err := read(strings.Repeat("x", 40), "/x"); err != nil {
		t.Errorf("an answer next to the watch: %v", err)
	}
}
