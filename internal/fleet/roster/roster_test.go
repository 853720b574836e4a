package roster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
)

func TestMain(m *testing.M) {
	// The API server of these tests lists, then watches.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// seed is an API server that serves these groups.
func seed(t *testing.T, groups ...string) (*apitest.Server, dynamic.Interface) {
	t.Helper()
	s := apitest.New(t)
	var served []string
	for _, g := range groups {
		served = append(served, g+"/v1")
	}
	s.Serve(served...)
	_, dyn := s.Clients(t)
	return s, dyn
}

func put(t *testing.T, dyn dynamic.Interface, group, name string, spec map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Cluster", "metadata": map[string]any{"name": name}, "spec": spec}}
	if _, err := dyn.Resource(objects.Resource(group)).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestClustersOfBothGroupsAreRead(t *testing.T) {
	_, dyn := seed(t, Groups()...)
	for i := range pageSize + 3 { // more than one page
		put(t, dyn, Groups()[0], fmt.Sprintf("c%03d", i), nil)
	}
	put(t, dyn, Groups()[1], "old", nil)
	put(t, dyn, Groups()[1], "odd", map[string]any{"features": "none"})
	all, notRead, err := Read(t.Context(), dyn)
	if err != nil || len(all) != pageSize+4 || all[len(all)-1].Key().String() != "old.kubermatic.k8s.io" {
		t.Errorf("%d clusters, %v", len(all), err)
	}
	if len(notRead) != 1 || !strings.Contains(notRead[0], `reading cluster "odd"`) {
		t.Errorf("an object that is none: %v", notRead)
	}
}

func TestASeedMayServeOneGroupOfTheTwo(t *testing.T) {
	_, dyn := seed(t, Groups()[1])
	put(t, dyn, Groups()[1], "old", nil)
	if all, notRead, err := Read(t.Context(), dyn); err != nil || len(all) != 1 || len(notRead) > 0 {
		t.Errorf("%v, %v, %v", all, notRead, err)
	}
	_, none := seed(t, "apps")
	if _, _, err := Read(t.Context(), none); !errors.Is(err, ErrNoClusters) {
		t.Errorf("no group: %v", err)
	}
	if _, _, err := Follow(t.Context(), none); !errors.Is(err, ErrNoClusters) {
		t.Errorf("following no group: %v", err)
	}
}

func TestWhatMayNotBeReadIsSaid(t *testing.T) {
	s, dyn := seed(t, Groups()...)
	put(t, dyn, Groups()[0], "a", nil)
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, Groups()[1]) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"it is forbidden"}`)
		return true
	}
	all, notRead, err := Read(t.Context(), dyn)
	if err != nil || len(all) != 1 || len(notRead) != 1 || !strings.Contains(notRead[0], "listing clusters of kubermatic.k8s.io: it is forbidden") {
		t.Errorf("%v, %v, %v", all, notRead, err)
	}
	f, wait := follow(t, dyn)
	until(t, f, func() bool { all, complete := f.List(); return complete && len(all) == 1 })
	if notRead := f.NotRead(); len(notRead) != 1 || !strings.Contains(notRead[0], "it is forbidden") {
		t.Errorf("%v", notRead)
	}
	wait()
	s.Deny("list", "clusters")
	if _, _, err := Read(t.Context(), dyn); err == nil || !strings.Contains(err.Error(), "listing clusters of kubermatic.k8c.io") {
		t.Errorf("nothing may be read: %v", err)
	}
}

func TestClustersAreFollowed(t *testing.T) {
	s, dyn := seed(t, Groups()...)
	put(t, dyn, Groups()[0], "b", nil)
	f, wait := follow(t, dyn)
	names := func() (out string) {
		all, _ := f.List()
		for _, o := range all {
			out += o.Key().String() + " "
		}
		return out
	}
	until(t, f, func() bool { return names() == "b " })
	put(t, dyn, Groups()[0], "a", nil)
	put(t, dyn, Groups()[1], "c", nil)
	until(t, f, func() bool { return names() == "a b c.kubermatic.k8s.io " })
	s.Delete("/apis/kubermatic.k8c.io/v1/clusters/b")
	until(t, f, func() bool { return names() == "a c.kubermatic.k8s.io " })
	wait()
}

// TestACompleteListHasAllClusters is about the moment in which an informer has listed, and its handlers were not called
// yet: a rollout passed over every cluster, as if it had been deleted.
func TestACompleteListHasAllClusters(t *testing.T) {
	_, dyn := seed(t, Groups()...)
	for i := range pageSize - 1 {
		put(t, dyn, Groups()[i%2], fmt.Sprintf("c%03d", i), nil)
	}
	for range 20 {
		f, wait := follow(t, dyn)
		all, complete := f.List()
		for !complete && t.Context().Err() == nil {
			runtime.Gosched()
			all, complete = f.List()
		}
		wait()
		if len(all) != pageSize-1 {
			t.Fatalf("%d clusters", len(all))
		}
	}
}

// follow begins to follow, and returns what ends it.
func follow(t *testing.T, dyn dynamic.Interface) (*Following, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f, wait, err := Follow(ctx, dyn)
	if err != nil {
		t.Fatal(err)
	}
	return f, func() { cancel(); wait() }
}

// until waits for a condition, which is looked at whenever something changed.
func until(t *testing.T, f *Following, holds func() bool) {
	t.Helper()
	changed := f.Changed(t.Context())
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	end := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-changed:
		case <-again.C:
		case <-end:
			all, complete := f.List()
			t.Fatalf("it does not come to that: %v, complete: %v", all, complete)
		}
	}
}
