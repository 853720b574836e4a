package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/waiting"
)

// api is an API whose watches can be broken off, refused and silenced.
type api struct {
	*fake.Clientset
	mu      sync.Mutex
	refused error
	// open are the watches by resource.
	open  map[string][]*watch.RaceFreeFakeWatcher
	lease coordinationv1.Lease
	// silent watches deliver nothing.
	silent bool
	rv     int
}

func newAPI(objects ...runtime.Object) *api {
	a := &api{Clientset: fake.NewClientset(objects...), open: map[string][]*watch.RaceFreeFakeWatcher{}}
	a.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return true, &coordinationv1.LeaseList{Items: []coordinationv1.Lease{a.lease}}, a.refused
	})
	a.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.refused != nil, nil, a.refused
	})
	a.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.refused != nil {
			return true, nil, a.refused
		}
		w := watch.NewRaceFreeFake()
		resource := action.GetResource().Resource
		a.open[resource] = append(a.open[resource], w)
		return true, w, nil
	})
	return a
}

// run renews the lease every two seconds, as managers do.
func (a *api) run(ctx context.Context) {
	for ctx.Err() == nil {
		a.mu.Lock()
		a.rv++
		a.lease.Name, a.lease.ResourceVersion = "kube-controller-manager", fmt.Sprint(a.rv)
		if !a.silent {
			a.send("leases", a.lease.DeepCopy())
		}
		a.mu.Unlock()
		waiting.For(ctx, 2*time.Second)
	}
}

func (a *api) send(resource string, o runtime.Object) {
	for _, w := range a.open[resource] {
		if !w.IsStopped() {
			w.Modify(o)
		}
	}
}

// cut breaks every watch off, and refuses new ones with an error until it is nil.
func (a *api) cut(refused error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = refused
	for resource, list := range a.open {
		for _, w := range list {
			w.Stop()
		}
		a.open[resource] = nil
	}
}

func (a *api) quiet(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = is
}

// ready sets the endpoints of shop/web.
func (a *api) ready(t *testing.T, ready ...bool) {
	t.Helper()
	s := endpointSlice("web", ready...)
	if _, err := a.DiscoveryV1().EndpointSlices("shop").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send("endpointslices", s)
}

func endpointSlice(service string, ready ...bool) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
	}
	for _, r := range ready {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(r)}})
	}
	return s
}

// watching runs the watches of a prober while f does something to the API.
func watching(t *testing.T, a *api, f func()) *v1.Disruption {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go a.run(ctx)
	w := newWorld()
	return w.probed(t, Options{Kube: a, Sink: w.sink}, func() { f() })
}

func cluster() *api {
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	return newAPI(web, endpointSlice("web", true, true), endpointSlice("never", false))
}

func TestTheAPIWatch(t *testing.T) {
	bubble(t, "a watch that is broken off and opened again is a reconnect and next to no outage", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(10 * time.Second)
			a.cut(nil)
			sleep(10 * time.Second)
		})
		p := pathOf(t, d, v1.PathAPIWatch, watched)
		if p.Reconnects != 1 || len(p.Outages) != 1 || p.LongestSeconds > 0.1 || p.Outages[0].Error != "the watch was broken off" {
			t.Errorf("path is %+v", p)
		}
	})
	bubble(t, "until it can be opened again there is none", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(10 * time.Second)
			a.cut(errRefused)
			sleep(7 * time.Second)
			a.cut(nil)
			sleep(10 * time.Second)
		})
		p := pathOf(t, d, v1.PathAPIWatch, watched)
		if len(p.Outages) != 1 {
			t.Fatalf("path is %+v", p)
		}
		within(t, "the time without a watch", p.LongestSeconds, 7, 7.6)
		e := pathOf(t, d, v1.PathEndpoints, "shop/web")
		if len(e.Outages) > 0 || len(e.Unobserved) != 1 {
			t.Fatalf("endpoints are %+v, want no outage and a time in which they were not looked at", e)
		}
		within(t, "the time in which endpoints were not looked at", e.Unobserved[0].Seconds, 7, 7.6)
	})
	bubble(t, "one that hangs is no watch since its last event", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(20*time.Second + 100*time.Millisecond)
			a.quiet(true)
			sleep(30 * time.Second)
			a.quiet(false)
			sleep(10 * time.Second)
		})
		p := pathOf(t, d, v1.PathAPIWatch, watched)
		if len(p.Outages) == 0 || !strings.Contains(p.Outages[0].Error, "the watch is silent") {
			t.Fatalf("path is %+v", p)
		}
		within(t, "the first silence", p.Outages[0].Seconds, 7, 9.1)
		if e := pathOf(t, d, v1.PathEndpoints, "shop/web"); len(e.Unobserved) == 0 {
			t.Error("endpoints count as looked at over a connection that delivered nothing")
		}
	})
	bubble(t, "one that hangs with everything else is no watch since it was last known to have delivered all", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(20*time.Second + 100*time.Millisecond)
			a.mu.Lock()
			a.silent, a.refused = true, errRefused
			a.mu.Unlock()
			sleep(9 * time.Second)
			a.cut(nil)
			a.quiet(false)
			sleep(10 * time.Second)
		})
		p := pathOf(t, d, v1.PathAPIWatch, watched)
		if len(p.Outages) != 1 || !strings.Contains(p.Outages[0].Error, "cannot be asked: connection refused") {
			t.Fatalf("path is %+v", p)
		}
		within(t, "the time without a watch", p.LongestSeconds, 9, 11)
		within(t, "what is certain of it", p.Outages[0].LeastSeconds, 3, 6)
	})
	bubble(t, "nothing changes: silence is no outage", func(t *testing.T) {
		a := cluster()
		w := newWorld()
		d := w.probed(t, Options{Kube: a, Sink: w.sink}, func() { sleep(time.Minute) })
		if p := pathOf(t, d, v1.PathAPIWatch, watched); len(p.Outages) > 0 {
			t.Errorf("path is %+v", p)
		}
	})
}

func TestEndpoints(t *testing.T) {
	bubble(t, "a Service that had ready endpoints and has none is out; one that never had any is no path", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(10 * time.Second)
			a.ready(t, false, true)
			sleep(10 * time.Second)
			a.ready(t, false, false)
			sleep(4 * time.Second)
			a.ready(t, true, false)
			sleep(10 * time.Second)
			a.ready(t)
			sleep(2 * time.Second)
		})
		p := pathOf(t, d, v1.PathEndpoints, "shop/web")
		if len(p.Outages) != 2 || p.Outages[0].Seconds != 4 || p.Outages[0].LeastSeconds != 4 || p.Outages[0].Error != "none of its 2 endpoints is ready" ||
			!strings.Contains(p.Outages[1].Error, "no endpoints") ||
			!p.Outages[1].Open {
			t.Errorf("outages are %+v", p.Outages)
		}
		for _, p := range d.Paths {
			if p.Path == "shop/never" {
				t.Errorf("path is %+v", p)
			}
		}
	})
	bubble(t, "a Service that somebody deletes was not out", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(10 * time.Second)
			if err := a.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			a.ready(t)
			sleep(10 * time.Second)
		})
		if p := pathOf(t, d, v1.PathEndpoints, "shop/web"); len(p.Outages) > 0 || !p.Gone {
			t.Errorf("path is %+v", p)
		}
	})
	bubble(t, "what changed while nobody could look shows behind it", func(t *testing.T) {
		a := cluster()
		d := watching(t, a, func() {
			sleep(10 * time.Second)
			a.cut(errors.New("gone"))
			a.ready(t, false)
			sleep(5 * time.Second)
			a.cut(nil)
			sleep(10 * time.Second)
			a.ready(t, true)
			sleep(time.Second)
		})
		p := pathOf(t, d, v1.PathEndpoints, "shop/web")
		if len(p.Outages) != 1 || len(p.Unobserved) != 1 {
			t.Fatalf("path is %+v", p)
		}
		within(t, "the outage", p.LongestSeconds, 9.4, 10)
	})
}
