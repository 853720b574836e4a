package component

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook stamps each new Machine with the flags that the webhook was started with.
func webhook(ctx context.Context, args []string) error {
	var s settings
	var listen, cert, key string
	if err := s.parse("webhook", "node-external-cloud-provider", args, func(set *flag.FlagSet) {
		set.StringVar(&listen, "listen-address", "0.0.0.0:9876", "where it serves")
		set.StringVar(&cert, "tls-cert-path", "", "its certificate")
		set.StringVar(&key, "tls-key-path", "", "its key")
	}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/machines", func(w http.ResponseWriter, r *http.Request) { s.admit(w, r) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS(cert, key); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func (s *settings) admit(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if patch, err := s.stamp(review.Request.Object.Raw); err != nil {
		answer.Allowed, answer.Result = false, &metav1.Status{Message: err.Error()}
	} else {
		kind := admissionv1.PatchTypeJSONPatch
		answer.Patch, answer.PatchType = patch, &kind
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server may be gone
}

func (s *settings) stamp(raw []byte) ([]byte, error) {
	var m struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("reading machine: %w", err)
	}
	annotations := m.Metadata.Annotations
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationExternal] = fmt.Sprint(s.external)
	annotations[AnnotationGates+"RotateKubeletServerCertificate"] = "true"
	for _, gate := range strings.Split(s.featureGate, ",") {
		if name, value, ok := strings.Cut(gate, "="); ok {
			annotations[AnnotationGates+name] = value
		}
	}
	return json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/annotations", "value": annotations}})
}
