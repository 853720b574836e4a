package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

func reviewOf(object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",` +
		`"resource":{"group":"kubermatic.k8c.io","version":"v1","resource":"clusters"},"object":` + object + `}}`
}

// TestAReviewIsBoundedByTheMemoryThatItTakes: whoever reaches the port may send one, and no certificate is asked for.
func TestAReviewIsBoundedByTheMemoryThatItTakes(t *testing.T) {
	const n = 1_500_000
	for name, body := range map[string]string{
		"owners":           reviewOf(`{"metadata":{"name":"x","ownerReferences":[` + strings.Repeat("0,", n) + `0]}}`),
		"anything":         reviewOf(`{"spec":{"x":[` + strings.Repeat("{},", n) + `{}]}}`),
		"the review's own": strings.TrimSuffix(reviewOf(`{}`), "}}") + `,"userInfo":{"groups":[` + strings.Repeat(`"",`, n) + `""]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			answer := post(t, Options{}, MutatePath, "application/json", body)
			runtime.ReadMemStats(&after)
			took := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d KiB: status %d, %d MiB allocated in all", len(body)>>10, answer.Code, took>>20)
			if answer.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("it was answered with %d", answer.Code)
			}
			if took > 256<<20 {
				t.Errorf("a review of %d KiB took %d MiB", len(body)>>10, took>>20)
			}
		})
	}
}

// TestALargeClusterIsAnswered: one with as many annotations and fields of others as an API server takes.
func TestALargeClusterIsAnswered(t *testing.T) {
	var annotations []string
	for i := range 2000 {
		annotations = append(annotations, fmt.Sprintf(`"example.com/%d":"%s"`, i, strings.Repeat("x", 100)))
	}
	cluster := `{"metadata":{"annotations":{` + strings.Join(annotations, ",") + `}},"spec":{` + aws + `}}`
	if answer := send(t, Options{}, MutatePath, request(cluster, cluster)); !answer.Allowed {
		t.Errorf("it was answered with %+v", answer)
	}
}

// TestReviewsThatAreAnsweredAtTheSameTimeAreBoundedTogether, and what one took is free when it has been answered.
func TestReviewsThatAreAnsweredAtTheSameTimeAreBoundedTogether(t *testing.T) {
	m := &reviewMemory{most: 64 << 10}
	hold, answering := make(chan struct{}), make(chan struct{})
	handler := m.review(func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Name == "slow" {
			close(answering)
			<-hold
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
	send := func(body string) int {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		_, _ = io.Copy(io.Discard, w.Body)
		return w.Code
	}
	large := reviewOf(`{"spec":{"x":"` + strings.Repeat("x", 7<<10) + `"}}`)
	answered := make(chan int)
	go func() { answered <- send(strings.Replace(large, `"uid":"1"`, `"uid":"1","name":"slow"`, 1)) }()
	<-answering
	if code := send(large); code != http.StatusServiceUnavailable {
		t.Errorf("the second one was answered with %d", code)
	}
	if code := send(reviewOf(`{}`)); code != http.StatusOK {
		t.Errorf("a small one was answered with %d", code)
	}
	close(hold)
	if code := <-answered; code != http.StatusOK {
		t.Errorf("the first one was answered with %d", code)
	}
	if code := send(large); code != http.StatusOK || m.held.Load() != 0 {
		t.Errorf("one after it was answered with %d; %d bytes are held", code, m.held.Load())
	}
}

// written is a client that tells how many bytes reviews hold when its answer comes.
type written struct {
	*httptest.ResponseRecorder
	of   *reviewMemory
	held int64
}

func (w *written) Write(p []byte) (int, error) {
	w.held = max(w.held, w.of.held.Load())
	return w.ResponseRecorder.Write(p)
}

// TestWhatAReviewTookIsFreeBeforeItsAnswerIsWritten: how long that takes is for the client to say.
func TestWhatAReviewTookIsFreeBeforeItsAnswerIsWritten(t *testing.T) {
	for name, body := range map[string]string{
		"a review":            reviewOf(`{}`),
		"no review":           `{"x":"` + strings.Repeat("x", 1<<10),
		"a review of another": strings.Replace(reviewOf(`{}`), "k8s.io/v1", "k8s.io/v2", 1),
	} {
		t.Run(name, func(t *testing.T) {
			webhooks := New(Options{})
			w := &written{ResponseRecorder: httptest.NewRecorder(), of: &webhooks.memory}
			r := httptest.NewRequest(http.MethodPost, ValidatePath, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			webhooks.Handler().ServeHTTP(w, r)
			if w.Body.Len() == 0 || w.held != 0 {
				t.Errorf("%d bytes are held while status %d is written", w.held, w.Code)
			}
		})
	}
}

// TestAnAnswerIsSmallWhateverTheReviewHolds: it is held until the client has read it.
func TestAnAnswerIsSmallWhateverTheReviewHolds(t *testing.T) {
	long := strings.Repeat("<", 100<<10)
	away := func(context.Context, string) (*rules.Datacenter, error) { return nil, errors.New("away") }
	annotations := `"metadata":{"name":"` + long + `","annotations":{"transplant.dev/strategy":"` + long + `","transplant.dev/max-unavailable":"` + long +
		`","transplant.dev/restart-machine-deployments":"` + long + `"}}`
	for name, body := range map[string]string{
		"refused":        reviewOf(`{` + annotations + `,"spec":{"version":"1.` + long + `","cloud":{"providerName":"` + long + `","aws":{},"dc":"` + long + `"}}}`),
		"warned of":      reviewOf(`{"spec":{"cloud":{"dc":"` + long + `"}}}`),
		"of a long name": strings.Replace(reviewOf(`{`+annotations+`}`), `"uid":"1"`, `"uid":"1","name":"`+long+`","kind":{"group":"`+long+`","kind":"`+long+`"}`, 1),
	} {
		for _, path := range []string{MutatePath, ValidatePath} {
			answer := post(t, Options{Datacenter: away}, path, "application/json", body)
			if answer.Code != http.StatusOK || answer.Body.Len() > 64<<10 {
				t.Errorf("%s, %s: status %d with %d bytes", path, name, answer.Code, answer.Body.Len())
			}
		}
	}
}

func TestAUIDThatIsLongIsNotRepeated(t *testing.T) {
	for size, want := range map[int]int{maxUID: http.StatusOK, maxUID + 1: http.StatusBadRequest} {
		body := strings.Replace(reviewOf(`{}`), `"uid":"1"`, `"uid":"`+strings.Repeat("x", size)+`"`, 1)
		answer := post(t, Options{}, MutatePath, "application/json", body)
		if answer.Code != want || strings.Contains(answer.Body.String(), "xxx") != (want == http.StatusOK) {
			t.Errorf("one of %d bytes: status %d, %s", size, answer.Code, answer.Body)
		}
	}
}
