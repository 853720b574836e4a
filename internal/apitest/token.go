package apitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// TokenMark is in every token that the server gives out, as it would be found in a file.
const TokenMark = "ccm-token-signature"

// token answers a TokenRequest with a token of an account that says when it ends. No one signs it.
func (s *Server) token(account map[string]any, r request, body map[string]any) map[string]any {
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	life := time.Hour
	spec, _ := body["spec"].(map[string]any)
	switch seconds := spec["expirationSeconds"].(type) {
	case int64:
		life = time.Duration(seconds) * time.Second
	case float64:
		life = time.Duration(seconds) * time.Second
	}
	if s.MaxTokenLife > 0 {
		life = min(life, s.MaxTokenLife)
	}
	claims := map[string]any{
		"sub": "system:serviceaccount:" + r.namespace + ":" + r.name,
		"iat": now.Unix(),
		"exp": now.Add(life).Unix(),
		"kubernetes.io": map[string]any{
			"namespace":      r.namespace,
			"serviceaccount": map[string]any{"name": r.name, "uid": fmt.Sprint(metadata(account)["uid"])},
		},
	}
	payload, _ := json.Marshal(claims) // of maps and strings, which cannot fail
	token := base64.RawURLEncoding.EncodeToString(
		[]byte(`{"alg":"none"}`),
	) + "." + base64.RawURLEncoding.EncodeToString(
		payload,
	) + "." + TokenMark
	return map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"status": map[string]any{"token": token, "expirationTimestamp": now.Add(life).UTC().Format(time.RFC3339)},
	}
}
