package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/transplant-dev/transplant/internal/visible"
)

// reviewer answers one request.
type reviewer func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// review serves AdmissionReview of admission.k8s.io/v1 over HTTP. What is none is answered with 400, which the API
// server takes for a webhook that failed.
func (m *reviewMemory) review(answer reviewer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			http.Error(w, "an AdmissionReview has to be application/json", http.StatusUnsupportedMediaType)
			return
		}
		data, err := m.reply(r.Context(), http.MaxBytesReader(w, r.Body, maxReview), answer)
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data) // an API server that is gone has no use for an error
	})
}

// reply returns the answer to a review, as it is sent. What the review took is free when it returns, since a client may
// take its time to read.
func (m *reviewMemory) reply(ctx context.Context, body io.Reader, answer reviewer) ([]byte, error) {
	taken := &share{of: m}
	defer taken.releaseMemory()
	in, err := taken.decode(body)
	switch {
	case err != nil:
		return nil, &noReviewError{"the body is no AdmissionReview", err} // the error itself may quote the object
	case in.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") || in.Request == nil:
		return nil, &noReviewError{
			says: fmt.Sprintf("want an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion),
		}
	case len(in.Request.UID) > maxUID:
		return nil, &noReviewError{says: fmt.Sprintf("the UID of the request has more than %d bytes", maxUID)}
	}
	out := admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: answer(ctx, in.Request)}
	out.Response.UID = in.Request.UID
	shorten(out.Response)
	data, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return data, nil
}

// noReviewError is a body that is not answered as a review.
type noReviewError struct {
	says string
	err  error
}

func (e *noReviewError) Error() string { return e.says }

func (e *noReviewError) Unwrap() error { return e.err }

const (
	// maxUID bounds, in bytes, the UID of a request, which goes into the answer. An API server's has 36.
	maxUID = 128
	// maxMessage and maxDetail bound, in bytes, the message of a refusal and each other text of an answer. What they
	// quote of a Cluster is as long as a review.
	maxMessage, maxDetail = 2 << 10, 512
)

// shorten bounds an answer, which is held until the client has read it. How many texts it has is for the rules to say.
// A patch holds names of ours alone.
func shorten(r *admissionv1.AdmissionResponse) {
	for i, warning := range r.Warnings {
		r.Warnings[i] = visible.Cut(warning, maxDetail)
	}
	if r.Result == nil {
		return
	}
	r.Result.Message = visible.Cut(r.Result.Message, maxMessage)
	details := r.Result.Details
	if details == nil {
		return
	}
	for _, text := range []*string{&details.Name, &details.Group, &details.Kind} {
		*text = visible.Cut(*text, maxDetail)
	}
	for i, cause := range details.Causes {
		details.Causes[i].Message = visible.Cut(cause.Message, maxDetail)
	}
}

// statusOf is the status of a review that has no answer.
func statusOf(err error) int {
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return http.StatusRequestEntityTooLarge
	}
	if refused, is := errors.AsType[tooLargeError](err); is {
		return int(refused)
	}
	if _, is := errors.AsType[*noReviewError](err); is {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
