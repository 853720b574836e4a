package podreason

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// api is an API server that counts what is asked of pods, and has a log.
type api struct {
	*apitest.Server
	kube kubernetes.Interface

	mu    sync.Mutex
	asked map[string]int
	log   string
	query string
}

func newAPI(t *testing.T, p *corev1.Pod) *api {
	t.Helper()
	a := &api{Server: apitest.New(t), asked: map[string]int{}}
	a.kube, _ = a.Clients(t)
	a.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "/log"):
			a.asked["log"]++
			a.query = r.URL.RawQuery
			if a.log == "" {
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
				return true
			}
			_, _ = fmt.Fprint(w, a.log)
			return true
		case strings.HasSuffix(r.URL.Path, "/events"):
			a.asked["events"]++
			a.query = r.URL.Query().Get("fieldSelector") + " limit " + r.URL.Query().Get("limit")
		}
		return false
	}
	a.Put(t, p)
	return a
}

func (a *api) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[what]
}

func (a *api) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	p, err := a.kube.CoreV1().Pods("kube-system").Get(t.Context(), "ccm-cp-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func crashing() *corev1.Pod {
	return pod(container(corev1.ContainerStatus{State: waits("CrashLoopBackOff", ""), RestartCount: 1, LastTerminationState: terminated(1, "Error", "")}))
}

// TestALogIsReadOnceAMinute, bounded, of the container that ended last, and without its secrets.
func TestALogIsReadOnceAMinute(t *testing.T) {
	t.Parallel()
	a := newAPI(t, crashing())
	a.log = "starting\nerror: no access with --token=eyJhbGciOiJIUzI1NiJ9.c2VjcmV0c2VjcmV0.c2VjcmV0c2VjcmV0c2VjcmV0\x1b[2J\n"
	c := clocktesting.NewFakePassiveClock(noon)
	r := &Reader{Clock: c}
	p := a.pod(t)
	for range 100 {
		why, is := r.Explain(t.Context(), a.kube, p)
		if !is || !strings.Contains(why.Why, `its last line: "error: no access with --token=`) || strings.Contains(why.Why, "c2VjcmV0") || strings.Contains(why.Why, "\x1b") {
			t.Fatalf("%v %q", is, why)
		}
		c.SetTime(c.Now().Add(500 * time.Millisecond))
	}
	if n := a.count("log"); n != 1 {
		t.Errorf("%d requests for a log in 50 seconds", n)
	}
	for _, want := range []string{"container=ccm", "previous=true", "tailLines=20", "limitBytes=16384"} {
		if !strings.Contains(a.query, want) {
			t.Errorf("asked for %s, without %s", a.query, want)
		}
	}
	c.SetTime(c.Now().Add(time.Minute))
	if _, is := r.Explain(t.Context(), a.kube, p); !is || a.count("log") != 2 {
		t.Errorf("%d requests after a minute", a.count("log"))
	}
}

// TestALogOfAnotherPodIsNotShown: it is asked for by name, and the pod may have been made again since.
func TestALogOfAnotherPodIsNotShown(t *testing.T) {
	t.Parallel()
	a := newAPI(t, crashing())
	a.log = "error: of another one\n"
	p := a.pod(t)
	p.UID = "the one before"
	if why, _ := (&Reader{Clock: clocktesting.NewFakePassiveClock(noon)}).Explain(t.Context(), a.kube, p); strings.Contains(why.Why, "another one") {
		t.Errorf("%q", why)
	}
}

// TestWithoutRightsLessIsSaid, and what is refused is not asked for at each look.
func TestWithoutRightsLessIsSaid(t *testing.T) {
	t.Parallel()
	a := newAPI(t, crashing()) // its log is refused
	a.Deny("list", "events")
	c := clocktesting.NewFakePassiveClock(noon)
	r := &Reader{Clock: c}
	creating := pod(container(corev1.ContainerStatus{State: waits("ContainerCreating", "")}))
	for range 20 {
		why, is := r.Explain(t.Context(), a.kube, a.pod(t))
		if !is || !strings.Contains(why.Why, "it ended last with exit code 1") {
			t.Fatalf("%v %q", is, why)
		}
		if why, is = r.Explain(t.Context(), a.kube, creating); !is || why.State != "ContainerCreating" || why.Why != "" {
			t.Fatalf("%v %q", is, why)
		}
		c.SetTime(c.Now().Add(2 * time.Second))
	}
	if logs, events := a.count("log"), a.count("events"); logs != 1 || events != 1 {
		t.Errorf("%d requests for logs and %d for events in 40 seconds", logs, events)
	}
	var none *Reader
	if why, is := none.Explain(t.Context(), a.kube, creating); !is || why.State != "ContainerCreating" {
		t.Errorf("without a reader: %q", why)
	}
	if why, is := r.Explain(t.Context(), nil, creating); !is || why.State != "ContainerCreating" {
		t.Errorf("without an API: %q", why)
	}
}

// TestAWorkloadsOwnWordsAreNotRead: the reason goes into the journal, and more people may read that than the log.
func TestAWorkloadsOwnWordsAreNotRead(t *testing.T) {
	t.Parallel()
	p := crashing()
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = "invoice 4711 of Jane"
	a := newAPI(t, p)
	a.log = "invoice 4711 of Jane\n"
	r := &Reader{Clock: clocktesting.NewFakePassiveClock(noon)}
	why, is := r.ExplainWorkload(t.Context(), a.kube, a.pod(t))
	if said := why.String(); !is || !strings.Contains(said, "exit code 1") || strings.Contains(said, "Jane") || a.count("log") != 0 {
		t.Errorf("%v %q, %d logs read", is, said, a.count("log"))
	}
	if why, _ := r.Explain(t.Context(), a.kube, a.pod(t)); !strings.Contains(why.String(), "Jane") {
		t.Errorf("the test is of no use: %q", why)
	}
}

// TestARefusalIsOfItsNamespace: a right may be granted in one alone.
func TestARefusalIsOfItsNamespace(t *testing.T) {
	t.Parallel()
	other := crashing()
	other.Namespace, other.UID = "shop", "shop"
	a := newAPI(t, crashing())
	a.Put(t, other)
	r := &Reader{Clock: clocktesting.NewFakePassiveClock(noon)}
	r.Explain(t.Context(), a.kube, other) // its log is refused
	a.mu.Lock()
	a.log = "cannot open /etc/cloud.conf\n"
	a.mu.Unlock()
	if why, _ := r.Explain(t.Context(), a.kube, a.pod(t)); !strings.Contains(why.String(), "/etc/cloud.conf") || a.count("log") != 2 {
		t.Errorf("%q, %d logs read", why, a.count("log"))
	}
}

// TestEventsAreAskedForByPod: those of one pod and not of a namespace, and seldom.
func TestEventsAreAskedForByPod(t *testing.T) {
	t.Parallel()
	creating := pod(container(corev1.ContainerStatus{State: waits("ContainerCreating", "")}))
	a := newAPI(t, creating)
	e := event(time.Second, "FailedMount", "/etc/kubernetes/x is not a file")
	e.Name, e.Namespace = "ccm-cp-1.1", "kube-system"
	a.Put(t, &e)
	c := clocktesting.NewFakePassiveClock(noon)
	r := &Reader{Clock: c}
	creating = a.pod(t)
	creating.UID = "this"
	for range 40 {
		if why, _ := r.Explain(t.Context(), a.kube, creating); !strings.Contains(why.Why, "FailedMount: /etc/kubernetes/x is not a file") {
			t.Fatalf("%q", why)
		}
		c.SetTime(c.Now().Add(250 * time.Millisecond))
	}
	if n := a.count("events"); n != 2 {
		t.Errorf("%d requests in 10 seconds", n)
	}
	if want := "involvedObject.kind=Pod,involvedObject.name=ccm-cp-1,involvedObject.uid=this limit 100"; a.query != want {
		t.Errorf("asked for %q, want %q", a.query, want)
	}
}

// TestAWaitThatEndsAsksNothing: a caller that has gone is not kept.
func TestAWaitThatEndsAsksNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t, crashing())
	a.log = "error: late\n"
	p := a.pod(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if why, is := (&Reader{Clock: clocktesting.NewFakePassiveClock(noon)}).Explain(ctx, a.kube, p); !is || strings.Contains(why.Why, "late") {
		t.Errorf("%v %q", is, why)
	}
}
