package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
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
		taken := &share{of: m}
		defer taken.free()
		in, err := taken.decode(http.MaxBytesReader(w, r.Body, maxReview))
		if err != nil {
			http.Error(w, "the body is no AdmissionReview", statusOf(err)) // the error itself may quote the object
			return
		}
		if in.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") || in.Request == nil {
			http.Error(
				w,
				fmt.Sprintf("want an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion),
				http.StatusBadRequest,
			)
			return
		}
		out := admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: answer(r.Context(), in.Request)}
		out.Response.UID = in.Request.UID
		data, err := json.Marshal(out)
		if err != nil {
			http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data) // an API server that is gone has no use for an error
	})
}

// statusOf is the status of a body that is not read, or not to its end.
func statusOf(err error) int {
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return http.StatusRequestEntityTooLarge
	}
	if refused, is := errors.AsType[tooLargeError](err); is {
		return int(refused)
	}
	return http.StatusBadRequest
}
