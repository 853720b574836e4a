package azuresim

import (
	"crypto/sha1" //nolint:gosec // of certificates, as the directory has it
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
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
	traceID        = "e9a899ac-eed7-4828-a580-2c0b8ffb2100"
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

// ServeLogin answers as the directory, under whatever name it is reached. It has the tenants Tenant and "adfs", the
// second of which is asked for no discovery elsewhere.
func (c *Cloud) ServeLogin(w http.ResponseWriter, r *http.Request) {
	tenant, what, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	at := "https://" + r.Host + "/" + tenant
	switch {
	case r.URL.Path == "/common/discovery/instance":
		simhttp.WriteJSON(w, http.StatusOK, object{"tenant_discovery_endpoint": strings.TrimSuffix(
			r.URL.Query().Get("authorization_endpoint"), "/oauth2/v2.0/authorize") + "/v2.0/.well-known/openid-configuration",
			"metadata": []any{object{"preferred_network": r.Host, "preferred_cache": r.Host, "aliases": []any{r.Host}}},
		})
	case tenant != Tenant && tenant != "adfs":
		simhttp.WriteJSON(w, http.StatusBadRequest, object{
			"error": "invalid_tenant", "error_description": "AADSTS90002: Tenant '" + tenant + "' not found. Check to make " +
				"sure you have the correct tenant ID and are signing into the correct cloud. Check with your subscription " +
				"administrator, this may happen if there are no active subscriptions for the tenant. Trace ID: " + traceID,
			"error_codes": []any{90002}, "trace_id": traceID, "error_uri": "https://" + r.Host + "/error?code=90002",
		})
	case strings.HasSuffix(what, ".well-known/openid-configuration"):
		simhttp.WriteJSON(w, http.StatusOK, object{
			"issuer": at, "authorization_endpoint": at + "/oauth2/authorize", "token_endpoint": at + "/oauth2/token",
		})
	case what == "oauth2/token" && r.Method == http.MethodPost:
		if problem := c.checkClient(r, at+"/oauth2/token"); problem != "" {
			simhttp.WriteJSON(w, http.StatusUnauthorized, object{"error": "invalid_client", "error_description": problem})
			return
		}
		simhttp.WriteJSON(w, http.StatusOK, object{
			"access_token": tokenPrefix + ClientID, "token_type": "Bearer", "expires_in": int(tokenLife.Seconds()),
		})
	default:
		http.NotFound(w, r)
	}
}

// checkClient says what is wrong with the credentials of a request for a token: a secret, or a statement that the key
// of a registered certificate has signed. It is empty where they are good.
func (c *Cloud) checkClient(r *http.Request, address string) (problem string) {
	assertion := r.FormValue("client_assertion")
	switch {
	case r.FormValue("client_id") != ClientID:
		return "AADSTS700016: Application was not found in the directory."
	case r.FormValue("grant_type") != "client_credentials":
		return "AADSTS70003: The app requested an unsupported grant type."
	case assertion == "" && r.FormValue("client_secret") != Secret:
		return "AADSTS7000215: Invalid client secret provided."
	case assertion == "":
		return ""
	case r.FormValue("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
		return "AADSTS50027: The type of the client assertion is not supported."
	}
	return c.checkAssertion(assertion, address)
}

// RegisterCertificate has the directory take statements that a certificate's key has signed, as those of ClientID.
func (c *Cloud) RegisterCertificate(certificate *x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.certificates = append(c.certificates, certificate)
}

// checkAssertion says what is wrong with a signed statement; empty where it is good.
func (c *Cloud) checkAssertion(assertion, address string) (problem string) {
	var head struct {
		Algorithm  string `json:"alg"`
		Thumbprint string `json:"x5t"` // the SHA-1 sum of the certificate
	}
	var claims struct {
		Issuer    string `json:"iss"`
		Subject   string `json:"sub"`
		Audience  string `json:"aud"`
		NotBefore int64  `json:"nbf"`
		Expires   int64  `json:"exp"`
	}
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 || !decode(parts[0], &head) || !decode(parts[1], &claims) || head.Algorithm != "RS256" {
		return "AADSTS50027: JWT token is invalid or malformed."
	}
	by := c.certificateOf(head.Thumbprint)
	now := time.Now().Unix()
	switch {
	case by == nil:
		return "AADSTS700027: The certificate that signed the client assertion is not registered on application."
	case by.NotAfter.Before(time.Now()):
		return "AADSTS700027: The certificate used to sign the client assertion has expired."
	case claims.Issuer != ClientID || claims.Subject != ClientID:
		return "AADSTS700021: The client assertion's application identifier doesn't match."
	case claims.Audience != address:
		return "AADSTS700023: Client assertion audience claim does not match."
	case claims.NotBefore > now+60 || claims.Expires <= now:
		return "AADSTS700024: Client assertion is not within its valid time range."
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err == nil {
		err = by.CheckSignature(x509.SHA256WithRSA, []byte(parts[0]+"."+parts[1]), signature)
	}
	if err != nil {
		return "AADSTS700027: Client assertion failed signature validation."
	}
	return ""
}

// certificateOf is the registered certificate with a thumbprint; nil for none. Clients write it in either base64.
func (c *Cloud) certificateOf(thumbprint string) *x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.certificates {
		sum := sha1.Sum(one.Raw) //nolint:gosec // the directory asks for it
		for _, form := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			if thumbprint == form.EncodeToString(sum[:]) {
				return one
			}
		}
	}
	return nil
}

// decode reports whether a part of a signed statement could be read.
func decode(part string, into any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, into) == nil
}

// identityOf is whose a token is; empty for one that is not taken.
func (c *Cloud) identityOf(r *http.Request) string {
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+tokenPrefix)
	if !isBearer || c.noTokens {
		return ""
	}
	return token
}
