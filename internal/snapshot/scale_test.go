package snapshot

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// crowd adds nodes with four pods of kube-system each, a CSINode and a volume.
func crowd(t *testing.T, s *apitest.Server, nodes int) {
	t.Helper()
	objects := make([]runtime.Object, 0, 7*nodes)
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		objects = append(objects, node(name), &storagev1.CSINode{ObjectMeta: meta("", name)},
			volumeOf("pv-"+name, func(pv *corev1.PersistentVolume) {
				pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
			}))
		for _, owner := range []string{"calico-node", "kube-proxy", "ebs-csi-node", "node-local-dns"} {
			objects = append(objects, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:       component.Namespace,
					Name:            owner + "-" + name,
					OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: ptr.To(true)}},
				},
				Spec: corev1.PodSpec{NodeName: name},
			})
		}
	}
	s.Put(t, objects...)
}

func TestTheCostOfGatheringDoesNotGrowWithTheCluster(t *testing.T) {
	requests := func(nodes int) (map[string]int, *v1.Snapshot) {
		s := everything(t)
		crowd(t, s, nodes)
		got := Gather(t.Context(), live(t, s), collect.Options{})
		return s.Requests(), got
	}
	few, _ := requests(5)
	many, got := requests(500)
	lists := 0
	for request, n := range many {
		verb, resource, _ := strings.Cut(request, " ")
		if verb == "list" {
			lists += n
		}
		// 501 nodes and as many CSINodes and volumes are two pages each; 2,002 pods are five.
		pages := map[string]int{"nodes": 2, "csinodes": 2, "persistentvolumes": 2, "pods": 5}[resource]
		if verb == "list" && pages > 0 {
			if n != pages {
				t.Errorf("%s: asked %d times, want %d", request, n, pages)
			}
		} else if n != few[request] {
			t.Errorf("%s: asked %d times with 500 nodes and %d times with 5", request, n, few[request])
		}
	}
	if lists >= 50 {
		t.Errorf("%d list calls for 500 nodes", lists)
	}
	if len(got.Nodes) != 501 || len(got.Volumes.CSINodes) != 501 || got.Counts["pods in kube-system"] != 2002 {
		t.Errorf("got %d nodes, %d CSINodes, %d pods", len(got.Nodes), len(got.Volumes.CSINodes), got.Counts["pods in kube-system"])
	}
	for _, w := range got.Workloads {
		if w.Ref == "DaemonSet/kube-system/calico-node" && (len(w.Nodes) != 500 || w.Nodes[0] != "node-0000") {
			t.Errorf("%s runs on %d nodes", w.Ref, len(w.Nodes))
		}
	}
	if size := answerlimit.Size(got); size > 1<<20 { // a run on a hosted cluster of 5,000 nodes keeps ten times that
		t.Errorf("the snapshot of 500 nodes takes %d KiB of memory", size>>10)
	} else {
		t.Logf("the snapshot of 500 nodes takes %d KiB of memory", size>>10)
	}
	told := 0
	for _, n := range got.Calls {
		told += n
	}
	if got.Calls["list"] != lists || told < lists {
		t.Errorf("the snapshot tells of %v, the server of %d lists", got.Calls, lists)
	}
}

func TestAListWhoseRestHasExpiredIsReadAgain(t *testing.T) {
	s := everything(t)
	crowd(t, s, 600)
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Get("continue") == "" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"The provided continue parameter is too old"}`)
		return true
	}
	got := Gather(t.Context(), live(t, s), collect.Options{})
	if len(got.Nodes) != 601 {
		t.Errorf("got %d nodes; errors %+v", len(got.Nodes), got.Errors)
	}
}

func TestAListThatNeverEndsIsUnknown(t *testing.T) {
	s := everything(t)
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/nodes" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"again"},"items":[{"metadata":{"name":"a"}}]}`)
		return true
	}
	got := Gather(t.Context(), live(t, s), collect.Options{})
	if got, want := why(got, "nodes"), "listing nodes: the API server answers every page with the same one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTrafficComparesClocks(t *testing.T) {
	start := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// answers are what our clock says at sending and receiving, and the Date in between, in milliseconds after start.
		answers         [][3]int
		want, uncertain int64
	}{
		"one answer is known to a second and its own time": {[][3]int{{0, 200, 0}}, 400, 601},
		"several narrow it down":                           {[][3]int{{0, 100, 0}, {900, 950, 1000}, {1500, 1510, 1000}}, 275, 226},
		"a clock that is ahead":                            {[][3]int{{0, 10, 60000}}, 60495, 506},
		"servers that contradict each other":               {[][3]int{{0, 10, 0}, {0, 10, 10000}}, 5495, 5506},
	} {
		t.Run(name, func(t *testing.T) {
			traffic := &collect.Traffic{}
			for _, a := range tc.answers {
				at := start.Add(time.Duration(a[1]) * time.Millisecond)
				traffic.Now = func() time.Time { return at }
				resp := &http.Response{Header: http.Header{"Date": {start.Add(time.Duration(a[2]) * time.Millisecond).Format(http.TimeFormat)}}}
				traffic.Saw(httptest.NewRequest(http.MethodGet, "/api/v1/nodes", nil), resp, start.Add(time.Duration(a[0])*time.Millisecond))
			}
			_, clock := traffic.Since(collect.Mark{})
			if diff := cmp.Diff(&v1.Clock{Who: "api", OffsetMillis: tc.want, UncertaintyMillis: tc.uncertain}, clock); diff != "" {
				t.Errorf("clock (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrafficCountsByVerb(t *testing.T) {
	traffic := &collect.Traffic{}
	for _, r := range []string{
		"GET /api/v1/nodes", "GET /api/v1/nodes?limit=500", "GET /api/v1/nodes/a", "GET /apis/apps/v1/deployments", "GET /apis/apps/v1/namespaces/x/deployments/y", "GET /version",
		"GET /apis", "GET /apis/apps/v1", "GET /api/v1/namespaces", "GET /api/v1/namespaces/kube-system", "GET /api/v1/namespaces/kube-system/pods", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"PATCH /api/v1/nodes/a", "PUT /api/v1/nodes/a", "DELETE /api/v1/nodes/a", "GET /api/v1/nodes?watch=true",
	} {
		method, target, _ := strings.Cut(r, " ")
		traffic.Saw(httptest.NewRequest(method, target, nil), nil, time.Time{})
	}
	calls, clock := traffic.Since(collect.Mark{})
	want := map[string]int{"list": 5, "get": 3, "discovery": 3, "create": 1, "patch": 1, "update": 1, "delete": 1, "watch": 1}
	if diff := cmp.Diff(want, calls); diff != "" || clock != nil {
		t.Errorf("calls (-want +got):\n%s clock %v", diff, clock)
	}
}

// TestDiscoveryEndsWithItsTime: an API server may want to be asked again in years, and one answer a byte at a time. The
// operator's clients have no timeout of their own.
func TestDiscoveryEndsWithItsTime(t *testing.T) {
	s := everything(t)
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/version" && r.URL.Path != "/api" && r.URL.Path != "/apis" {
			return false
		}
		w.Header().Set("Retry-After", "2000000000")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	got := Gather(t.Context(), live(t, s), collect.Options{Timeout: time.Second})
	for _, fact := range []string{"cluster/version", "apigroups"} {
		if why(got, fact) == "" {
			t.Errorf("%s is known: %+v", fact, got.Errors)
		}
	}
}
