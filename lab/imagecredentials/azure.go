package imagecredentials

import (
	"fmt"
	"net/http"
	"strings"
)

// Azure is a tenant with a machine that has a managed identity, one application that pods may act as, and a registry.
type Azure struct {
	net *Internet
	// Tenant and Application are identifiers; pods of PodToken may act as the application.
	Tenant, Application, PodToken string
	// Registry is the host of the registry.
	Registry string
	// Password is the registry's refresh token for the machine, PodPassword that for the pod.
	Password, PodPassword string
}

const (
	azureMetadata  = "169.254.169.254"
	azureLogin     = "login.microsoftonline.com"
	azureResource  = "https://containerregistry.azure.net"
	azureNodeToken = "aad-token-of-the-machine"
	azurePodToken  = "aad-token-of-the-pod"
	// azureUser is the user name that goes with a refresh token.
	azureUser = "00000000-0000-0000-0000-000000000000"
)

// NewAzure puts the services of Azure's public cloud on an internet.
func NewAzure(n *Internet) *Azure {
	a := &Azure{
		net: n, Tenant: "11111111-2222-3333-4444-555555555555", Application: "66666666-7777-8888-9999-000000000000",
		PodToken: "pod-token-of-the-cluster", Registry: "images.azurecr.io",
		Password: "acr-refresh-token-of-the-machine", PodPassword: "acr-refresh-token-of-the-pod",
	}
	n.Handle(azureMetadata, http.HandlerFunc(a.identity))
	n.Handle(azureLogin, http.HandlerFunc(a.login))
	n.Handle(a.Registry, http.HandlerFunc(a.registry))
	return a
}

// Config is the cloud config that the program reads, of a machine with a managed identity.
func (a *Azure) Config() string {
	return fmt.Sprintf(`{"cloud": "AzurePublicCloud", "tenantId": %q, "useManagedIdentityExtension": true}`+"\n", a.Tenant)
}

// identity is the metadata service, as far as it gives tokens.
func (a *Azure) identity(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/metadata/identity/oauth2/token" || r.Header.Get("Metadata") != "true":
		a.net.refuse(w, r, http.StatusBadRequest, "no such metadata, or no header Metadata")
	case strings.TrimSuffix(q.Get("resource"), "/") != azureResource || q.Get("api-version") == "":
		a.net.refuse(w, r, http.StatusBadRequest, "unknown resource "+q.Get("resource"))
	default:
		writeJSON(w, map[string]string{
			"access_token": azureNodeToken, "expires_in": "86399", "expires_on": "4102444800", "not_before": "0",
			"resource": azureResource, "token_type": "Bearer",
		})
	}
}

// login is Entra ID, as far as an application with a federated credential needs it.
func (a *Azure) login(w http.ResponseWriter, r *http.Request) {
	base := "https://" + azureLogin + "/" + a.Tenant
	switch {
	case r.URL.Path == "/common/discovery/instance":
		writeJSON(w, map[string]any{
			"tenant_discovery_endpoint": base + "/v2.0/.well-known/openid-configuration", "api-version": "1.1",
			"metadata": []any{map[string]any{
				"preferred_network": azureLogin, "preferred_cache": azureLogin, "aliases": []string{azureLogin},
			}},
		})
	case r.URL.Path == "/"+a.Tenant+"/v2.0/.well-known/openid-configuration":
		writeJSON(w, map[string]any{
			"authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token",
			"issuer": base + "/v2.0", "jwks_uri": base + "/discovery/v2.0/keys",
		})
	case r.Method == http.MethodPost && r.URL.Path == "/"+a.Tenant+"/oauth2/v2.0/token":
		a.federated(w, r)
	default:
		a.net.refuse(w, r, http.StatusNotFound, "no such endpoint")
	}
}

func (a *Azure) federated(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "client_credentials" ||
		!strings.HasPrefix(r.PostForm.Get("scope"), azureResource+"/.default") {
		a.net.refuse(w, r, http.StatusBadRequest, "unknown grant or scope "+r.PostForm.Get("scope"))
		return
	}
	if r.PostForm.Get("client_assertion") != a.PodToken || r.PostForm.Get("client_id") != a.Application {
		w.WriteHeader(http.StatusUnauthorized)
		writeJSON(w, map[string]any{"error": "invalid_client", "error_description": "AADSTS70021: no matching federated identity", "error_codes": []int{70021}})
		return
	}
	writeJSON(w, map[string]any{"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": azurePodToken})
}

// registry is the registry's own token service: its challenge and the exchange of a token of Entra ID.
func (a *Azure) registry(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v2/":
		w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/oauth2/token",service="%s"`, a.Registry, a.Registry))
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPost && r.URL.Path == "/oauth2/exchange":
		passwords := map[string]string{azureNodeToken: a.Password, azurePodToken: a.PodPassword}
		if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "access_token_refresh_token" ||
			r.PostForm.Get("service") != a.Registry {
			a.net.refuse(w, r, http.StatusBadRequest, "unknown grant or service")
			return
		}
		password := passwords[r.PostForm.Get("access_token")]
		if password == "" || r.PostForm.Get("tenant") != a.Tenant {
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		writeJSON(w, map[string]string{"refresh_token": password})
	default:
		a.net.refuse(w, r, http.StatusNotFound, "no such endpoint")
	}
}
