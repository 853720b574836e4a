package machines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// watching watches the user cluster until the test ends or the function is called, which returns how the watch ended.
func (p *place) watching() (news <-chan struct{}, end func() error) {
	p.t.Helper()
	client, err := metadata.NewForConfig(p.user.Config())
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	told, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- Watch(ctx, p.restarter.Kube, client, func() { told <- struct{}{} })
	}()
	return told, func() error { return p.wait(ended, cancel) }
}

func (p *place) wait(ended <-chan error, cancel func()) error {
	p.t.Helper()
	cancel()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		p.t.Fatal("the watch does not end")
		return nil
	}
}

// hears fails the test unless something is told.
func (p *place) hears(news <-chan struct{}, what string) {
	p.t.Helper()
	select {
	case <-news:
	case <-time.After(time.Minute):
		p.t.Fatalf("nothing is told of %s", what)
	}
}

// lists is how many lists the user cluster has answered.
func (p *place) lists() (n int) {
	for what, times := range p.user.Requests() {
		if strings.HasPrefix(what, "list ") {
			n += times
		}
	}
	return n
}

func TestAWatchTellsOfWhatALookWouldFind(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	news, end := p.watching()
	p.hears(news, "the beginning")
	lists := p.lists()

	p.user.Put(t, node("node", "kubelet", nil)) // the first word of a node may be news
	p.hears(news, "a node")
	same := node("node", "kubelet", nil)
	same.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(before.Add(time.Hour))
	same.Status.Images = []corev1.ContainerImage{{Names: []string{"pulled"}}}
	p.user.Put(t, same) // its kubelet says that it is alive

	away := node("node", "kubelet", nil)
	away.Status.Conditions[0].Status = corev1.ConditionUnknown
	p.user.Put(t, away)
	p.hears(news, "a node that is away")
	select {
	case <-news:
		t.Error("a node that is as it was is told of")
	default:
	}
	if _, err := p.restarter.Dynamic.Resource(MachinesResource).
		Namespace("kube-system").
		Patch(t.Context(), "machine", types.MergePatchType, []byte(`{"status":{"errorMessage":"none"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.hears(news, "a machine")
	p.user.Delete("/api/v1/nodes/node")
	p.hears(news, "a node that is gone")
	if now := p.lists(); now != lists {
		t.Errorf("watching has listed %d times more", now-lists)
	}
	if err := end(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestAWatchThatBreaksOffEndsAndOneThatMayNotBeIsAnError(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	client, err := metadata.NewForConfig(p.user.Config())
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { ended <- Watch(t.Context(), p.restarter.Kube, client, func() { begun <- struct{}{} }) }()
	p.hears(begun, "the beginning")
	p.user.CloseConnections()
	select {
	case err := <-ended: // in order or not: the API server is gone
		t.Log(err)
	case <-time.After(time.Minute):
		t.Fatal("the watch does not end")
	}
	p.user.Deny("watch", "machines")
	if err := Watch(t.Context(), p.restarter.Kube, client, func() { t.Error("something is told") }); err == nil {
		t.Error("a watch that may not be is none")
	}
}

func TestAClusterWithoutMachineControllerIsWatchedByItsNodes(t *testing.T) {
	p := newPlace(t)
	p.user.Serve("apps/v1", "storage.k8s.io/v1")
	news, end := p.watching()
	p.hears(news, "the beginning")
	p.user.Put(t, node("node", "kubelet", nil))
	p.hears(news, "a node")
	if err := end(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestAWatchThatTellsOfMoreNodesThanThereCanBeEnds: a user cluster's API server may tell of new ones for ever.
func TestAWatchThatTellsOfMoreNodesThanThereCanBeEnds(t *testing.T) {
	seen, told := newNodes(), node("node", "kubelet", nil)
	tell := func(i int, what watch.EventType) (bool, error) {
		told.UID = types.UID(fmt.Sprint(i) + strings.Repeat("x", 1000))
		return seen.differ(watch.Event{Type: what, Object: told})
	}
	for i := range maxObjects {
		if isNews, err := tell(i, watch.Added); !isNews || err != nil {
			t.Fatalf("node %d: %v, %v", i, isNews, err)
		}
	}
	if isNews, err := tell(0, watch.Modified); isNews || err != nil {
		t.Errorf("a node that is known: %v, %v", isNews, err)
	}
	if _, err := tell(maxObjects, watch.Added); err == nil || err.Error() != "there are more than 10000" {
		t.Errorf("one more: %v", err)
	}
	if isNews, err := tell(0, watch.Deleted); !isNews || err != nil {
		t.Errorf("a node that goes: %v, %v", isNews, err)
	}
	if isNews, err := tell(maxObjects, watch.Added); !isNews || err != nil {
		t.Errorf("another in its place: %v, %v", isNews, err)
	}
	for uid := range seen {
		if len(uid) > maxName {
			t.Fatalf("%d bytes of a UID are kept", len(uid))
		}
	}

	events := watch.NewFake()
	ended := make(chan error, 1)
	w := watched{Interface: events, resource: "nodes", news: seen.differ}
	go func() { ended <- w.watchChanges(t.Context(), func() {}) }()
	told.UID = "one more"
	events.Add(told)
	if err := <-ended; err == nil || err.Error() != "watching nodes: there are more than 10000" {
		t.Errorf("the watch ends with %v", err)
	}
}

// askLater is an API server that wants to be asked again in an hour.
type askLater struct{}

func (askLater) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header:     http.Header{"Retry-After": {"3600"}},
		Body:       http.NoBody,
	}, nil
}

// TestAWatchThatDoesNotBeginEnds: what has begun of it takes the operator's memory.
func TestAWatchThatDoesNotBeginEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "https://user-cluster.invalid", Transport: askLater{}}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = Watch(t.Context(), kube, meta, func() { t.Error("it has begun") })
		if took := time.Since(begun); !errors.Is(err, errLate) || took != startWithin {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
