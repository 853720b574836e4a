package term

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/election"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // events that are dropped are logged, each
	m.Run()
}

// slowAPI takes its time for each event.
type slowAPI struct {
	mu     sync.Mutex
	writes int
	takes  time.Duration
}

func (a *slowAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.writes++
	a.mu.Unlock()
	timer := time.NewTimer(a.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: r.Body, Request: r, // the event as it is
	}, nil
}

func (a *slowAPI) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// TestManyEventsOfAControllerHoldNoneOfItsWorkersUp: 100,000 events of its own in a minute, at an API server that takes a
// second for each, are neither waited for nor kept.
func TestManyEventsOfAControllerHoldNoneOfItsWorkersUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{takes: time.Second}
		fence := election.Unfenced(time.Now())
		client := kubernetes.NewForConfigOrDie(&rest.Config{
			Host: "http://api.test", QPS: -1, Transport: election.Transport(fence, api),
			ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		})
		ctx := election.NewContext(t.Context(), fence)
		_, begun := Begin(ctx, Config{Name: "test", EventSource: "test", Verbosity: 9, Client: client, Clock: clock.RealClock{}})
		began, goroutines := time.Now(), runtime.NumGoroutine()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		message := strings.Repeat("the cloud says no. ", 20)
		for i := range 100_000 {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i%5000), UID: types.UID(fmt.Sprint("uid-", i%5000))}}
			begun.Recorder.Eventf(node, corev1.EventTypeWarning, "ReadingInstanceFailed", "%d: %s", i, message)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the workers have waited for %s", waited)
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("%d bytes are kept of the events", grown)
		}
		if more := runtime.NumGoroutine() - goroutines; more > 10 {
			t.Errorf("%d goroutines wait with events", more)
		}
		<-time.After(time.Minute)
		if n := api.count(); n < 10 || n > 70 {
			t.Errorf("%d events were written in a minute, one a second is what the API server takes", n)
		}
		fence.Revoke("another holder was seen")
		written := api.count()
		<-time.After(10 * time.Minute)
		if n := api.count(); n > written {
			t.Errorf("%d events were written after the fence closed", n-written)
		}
		begun.End()
	})
}
