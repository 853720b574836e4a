package operator

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// heavyNodes answers with a list whose nodes take most of what an answer may when it is decoded.
type heavyNodes struct{}

func (heavyNodes) RoundTrip(*http.Request) (*http.Response, error) {
	body := `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[` + strings.Repeat("{},", 30_000) + `{}]}`
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(body)),
	}, nil
}

// lister returns what lists the nodes of one user cluster, which has one turn at a time.
func lister(t *testing.T) func(context.Context) error {
	t.Helper()
	kube, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://user-cluster.invalid", Transport: answerlimit.Transport(heavyNodes{}, answerlimit.NewTotal(), ""), QPS: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error {
		_, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 500})
		return err
	}
}

// TestLooksDecodeHeavyAnswersInTurns: many user clusters of one administrator must not fill the operator's memory.
func TestLooksDecodeHeavyAnswersInTurns(t *testing.T) {
	bubble(t, nil, func(w *world) {
		list := lister(t)
		look := func(name string, listed, end chan struct{}) {
			if err := w.jobs.bounded(w.t.Context(), name, "machines", func(ctx context.Context) error {
				err := list(ctx)
				close(listed)
				<-end
				return err
			}); err != nil {
				t.Errorf("the look at %s: %v", name, err)
			}
		}
		first, second, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go look("first", first, end)
		<-first
		go look("second", second, end)
		synctest.Wait()
		select {
		case <-second:
			t.Error("the second look has its answer while the first has")
		default:
		}
		close(end)
		<-second
	})
}

// TestRunsDecodeHeavyAnswersInTurns, and one that waits for something else keeps the next one up for a second.
func TestRunsDecodeHeavyAnswersInTurns(t *testing.T) {
	bubble(t, nil, func(w *world) {
		list := lister(t)
		listed := make(chan time.Time, 2)
		run := func(ctx context.Context, _ func(step.Event), _ <-chan struct{}) error {
			err := list(ctx)
			listed <- time.Now()
			<-time.After(time.Minute) // for a lease in the seed
			return err
		}
		for _, name := range []string{"first", "second"} {
			w.change(name, func(c *userCluster) { c.run = run })
			w.cluster(name, enabled)
		}
		one, two := <-listed, <-listed
		if d := two.Sub(one); d < time.Second || d > 2*time.Second {
			t.Errorf("the second run has its answer %v after the first", d)
		}
	})
}
