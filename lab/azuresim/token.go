package azuresim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/lab/simhttp"
)

const (
	identityHeader = "lab-identity-header"
	tokenPrefix    = "token-of-"
	tokenLife      = time.Hour
)

// serveEndpoints says where the parts of the cloud are, to upstream's provider in a list of clouds. The in-tree
// provider asks as one asks Azure Stack.
func (c *Cloud) serveEndpoints(w http.ResponseWriter, r *http.Request) {
	login := object{"loginEndpoint": c.login.URL + "/", "audiences": []any{"https://manager.lab.invalid/"}}
	switch r.URL.Query().Get("api-version") {
	case "2019-05-01":
		simhttp.WriteJSON(w, http.StatusOK, []any{object{
			"name": "AzureCloud", "resourceManager": "http://" + r.Host, "authentication": login,
		}})
	case "1.0":
		simhttp.WriteJSON(w, http.StatusOK, object{
			"galleryEndpoint": "https://gallery.lab.invalid/", "graphEndpoint": "https://graph.lab.invalid/",
			"authentication": login,
		})
	default:
		simhttp.WriteJSON(w, unknown.status, unknown.body())
	}
}

// serveIdentity answers as the endpoint of managed identities.
func (c *Cloud) serveIdentity(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-IDENTITY-HEADER") != identityHeader {
		simhttp.WriteJSON(w, http.StatusUnauthorized, object{"error": "unauthorized"})
		return
	}
	c.giveToken(w, r)
}

// serveMachineIdentity answers as the metadata service of a machine, at 169.254.169.254. Clients of a lab come to it
// over the cloud as their proxy.
func (c *Cloud) serveMachineIdentity(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Get("api-version") != "2018-02-01":
		simhttp.WriteJSON(w, unknown.status, unknown.body())
	case r.Header.Get("Metadata") != "true":
		simhttp.WriteJSON(w, http.StatusBadRequest, object{
			"error": "invalid_request", "error_description": "Required metadata header not specified",
		})
	default:
		c.giveToken(w, r)
	}
}

// giveToken answers with a token of the managed identity.
func (c *Cloud) giveToken(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noTokens {
		simhttp.WriteJSON(w, http.StatusBadRequest, object{"error": "invalid_request", "error_description": "Identity not found"})
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, object{
		"access_token": tokenPrefix + Identity, "token_type": "Bearer", "resource": r.URL.Query().Get("resource"),
		"expires_on": strconv.FormatInt(time.Now().Add(tokenLife).Unix(), 10), "client_id": Identity,
	})
}

// RefuseTokens has no token given any more, and none taken.
func (c *Cloud) RefuseTokens(refuse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noTokens = refuse
}

// LoginCertificate is the PEM text of the authority of the login's certificate.
func (c *Cloud) LoginCertificate() []byte { return pemOf(c.login.Certificate()) }

// serveLogin answers as the directory of a tenant "adfs", which is asked for no discovery elsewhere.
func (c *Cloud) serveLogin(w http.ResponseWriter, r *http.Request) {
	at := c.login.URL + "/adfs"
	switch {
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		simhttp.WriteJSON(w, http.StatusOK, object{
			"issuer": at, "authorization_endpoint": at + "/oauth2/authorize", "token_endpoint": at + "/oauth2/token",
		})
	case r.URL.Path == "/adfs/oauth2/token" && r.Method == http.MethodPost:
		if r.FormValue("client_id") != ClientID || r.FormValue("client_secret") != Secret {
			simhttp.WriteJSON(w, http.StatusUnauthorized, object{
				"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided.",
			})
			return
		}
		simhttp.WriteJSON(w, http.StatusOK, object{
			"access_token": tokenPrefix + ClientID, "token_type": "Bearer", "expires_in": int(tokenLife.Seconds()),
		})
	default:
		http.NotFound(w, r)
	}
}

// identityOf is whose a token is; empty for one that is not taken.
func (c *Cloud) identityOf(r *http.Request) string {
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+tokenPrefix)
	if !isBearer || c.noTokens {
		return ""
	}
	return token
}

func (c *Cloud) operationURL(at string) string {
	c.number++
	id := fmt.Sprintf("operation-%d", c.number)
	c.operations[id] = max(1, c.options.Polls)
	return at + "/subscriptions/" + Subscription + "/providers/Microsoft.Network/locations/" + Location +
		"/operations/" + id + "?api-version=" + apiVersions[0]
}
