package imagecredentials

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Google is a project with an instance that has a service account, a workload identity pool that trusts the cluster,
// and one service account that pods may act as.
type Google struct {
	net *Internet
	// IdentityProvider is the provider of the pool, PodToken a token that it trusts, Account what pods may act as.
	IdentityProvider, PodToken, Account string
	// Password is the access token of the instance, PodPassword that of the pool, AccountPassword that of Account.
	Password, PodPassword, AccountPassword string
	// TokenLife is how long the instance's token still lasts.
	TokenLife time.Duration
	// Attributes are those of the instance.
	Attributes map[string]string
}

const googleFlavor = "Google"

// NewGoogle puts the services of Google that give tokens on an internet.
func NewGoogle(n *Internet) *Google {
	g := &Google{
		net: n, IdentityProvider: "projects/1234/locations/global/workloadIdentityPools/clusters/providers/lab",
		PodToken: "pod-token-of-the-cluster", Account: "pulls@project.iam.gserviceaccount.com",
		Password: "ya29.instance", PodPassword: "ya29.pool", AccountPassword: "ya29.account",
		TokenLife: 3599 * time.Second, Attributes: map[string]string{},
	}
	n.Handle("sts.googleapis.com", http.HandlerFunc(g.exchange))
	n.Handle("iamcredentials.googleapis.com", http.HandlerFunc(g.impersonate))
	return g
}

// Metadata answers as the metadata server. It is asked at the address of the internet's proxy, which GCE_METADATA_HOST
// names.
func (g *Google) Metadata() http.Handler {
	const base, attributes = "/computeMetadata/v1/instance/", "attributes/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", googleFlavor)
		at, below := strings.CutPrefix(r.URL.Path, base)
		name, isAttribute := strings.CutPrefix(at, attributes)
		value, set := g.Attributes[name]
		switch {
		case r.Method != http.MethodGet || !below || r.Header.Get("Metadata-Flavor") != googleFlavor:
			g.net.refuse(w, r, http.StatusForbidden, "no such metadata, or no header Metadata-Flavor")
		case at == "service-accounts/default/token":
			writeJSON(w, map[string]any{
				"access_token": g.Password, "expires_in": int(g.TokenLife / time.Second), "token_type": "Bearer",
			})
		case isAttribute && set:
			_, _ = w.Write([]byte(value))
		default:
			http.NotFound(w, r)
		}
	})
}

// exchange is Google's security token service.
func (g *Google) exchange(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.URL.Path != "/v1/token" ||
		r.PostForm.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" ||
		r.PostForm.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt" {
		g.net.refuse(w, r, http.StatusBadRequest, "unknown grant "+r.PostForm.Get("grant_type"))
		return
	}
	if r.PostForm.Get("subject_token") != g.PodToken || r.PostForm.Get("audience") != "//iam.googleapis.com/"+g.IdentityProvider {
		w.WriteHeader(http.StatusForbidden)
		// Google's answers say what was wrong with the token; this one repeats it, as no client may.
		writeJSON(w, map[string]string{"error": "invalid_grant", "error_description": "untrusted: " + r.PostForm.Get("subject_token")})
		return
	}
	writeJSON(w, map[string]any{
		"access_token": g.PodPassword, "expires_in": 3599, "token_type": "Bearer",
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
	})
}

// impersonate gives a token of a service account to a token of the pool.
func (g *Google) impersonate(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Scope []string `json:"scope"`
	}
	known := r.URL.Path == "/v1/projects/-/serviceAccounts/"+g.Account+":generateAccessToken"
	err := json.NewDecoder(r.Body).Decode(&body)
	if r.Method != http.MethodPost || err != nil || len(body.Scope) == 0 || !strings.HasSuffix(r.URL.Path, ":generateAccessToken") {
		g.net.refuse(w, r, http.StatusNotFound, "no such endpoint")
		return
	}
	if !known || bearer(r) != g.PodPassword {
		http.Error(w, `{"error":{"code":403,"status":"PERMISSION_DENIED"}}`, http.StatusForbidden)
		return
	}
	writeJSON(w, map[string]string{
		"accessToken": g.AccountPassword, "expireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	})
}
