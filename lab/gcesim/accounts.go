package gcesim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/lab/simhttp"
)

// grantType is that of a token for a statement that a service account's key has signed.
const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// keySize is that of the keys of service accounts, in bits.
const keySize = 2048

// account is a service account of some project.
type account struct {
	key       *rsa.PublicKey
	keyID     string
	isGranted bool // it has every permission in the project
}

// AddAccount makes a service account of some project, without a permission in the cloud's. It returns the file of its
// key.
func (c *Cloud) AddAccount(email, project string) ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keySize)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	added := &account{key: &key.PublicKey, keyID: fmt.Sprintf("key-%d", c.number)}
	c.accounts[email] = added
	return json.Marshal(object{
		"type": "service_account", "project_id": project, "private_key_id": added.keyID, "client_email": email,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		"token_uri":   c.server.URL + "/token",
	})
}

// Grant gives an account every permission in the project.
func (c *Cloud) Grant(email string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accounts[email].isGranted = true
}

// DeleteAccount deletes an account. Tokens that it has are taken no more.
func (c *Cloud) DeleteAccount(email string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.accounts, email)
	for token, of := range c.tokens {
		if of == email {
			delete(c.tokens, token)
		}
	}
}

// serveToken answers as the token service of service accounts.
func (c *Cloud) serveToken(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method != http.MethodPost || r.PostFormValue("grant_type") != grantType {
		simhttp.WriteJSON(w, http.StatusBadRequest, object{"error": "unsupported_grant_type", "error_description": "Invalid grant_type"})
		return
	}
	email, problem := c.signerOf(r.PostFormValue("assertion"), "http://"+r.Host+r.URL.Path)
	if problem != "" {
		simhttp.WriteJSON(w, http.StatusBadRequest, object{"error": "invalid_grant", "error_description": problem})
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, c.issue(email))
}

// issue is the answer with a new token of an account.
func (c *Cloud) issue(email string) object {
	c.number++
	token := fmt.Sprintf("token-%d", c.number)
	c.tokens[token] = email
	return object{"access_token": token, "expires_in": int(time.Hour.Seconds()), "token_type": "Bearer"}
}

// signerOf is the account that has signed a statement for the token service at an address, or what is wrong with it.
func (c *Cloud) signerOf(assertion, address string) (email, problem string) {
	var head struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		KeyID     string `json:"kid"`
	}
	var claims struct {
		Issuer   string `json:"iss"`
		Scope    string `json:"scope"`
		Audience string `json:"aud"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 || !decode(parts[0], &head) || !decode(parts[1], &claims) {
		return "", "Invalid JWT: it has to be three parts of base64"
	}
	by, now := c.accounts[claims.Issuer], time.Now().Unix()
	switch {
	case by == nil:
		return "", "Invalid grant: account not found"
	case head.Algorithm != "RS256" || head.Type != "JWT" || head.KeyID != by.keyID:
		return "", "Invalid JWT: it is not signed by a key of the account"
	case claims.Audience != address:
		return "", "Invalid JWT: the audience is another token service"
	case claims.Scope == "":
		return "", "Invalid JWT: it has no scope"
	case claims.Issued > now+60 || claims.Expires <= now || claims.Expires > claims.Issued+3600+60:
		return "", "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe"
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(by.key, crypto.SHA256, sum[:], signature) != nil {
		return "", "Invalid JWT Signature."
	}
	return claims.Issuer, ""
}

// decode reports whether a part of a signed statement could be read.
func decode(part string, into any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, into) == nil
}

// checkPermission refuses a request of an account that has no permission in the project.
func (c *Cloud) checkPermission(identity string, in *request) *refusal {
	if by := c.accounts[identity]; identity == Account || by != nil && by.isGranted {
		return nil
	}
	kind, verb := permissionOf(in)
	return refuse(http.StatusForbidden, "forbidden", "Required 'compute.%s.%s' permission for 'projects/%s'", kind, verb,
		strings.TrimSuffix(Project+"/"+in.path, "/"))
}

// permissionOf is what a request needs: the kind of the object, and what is done with it.
func permissionOf(in *request) (kind, verb string) {
	verb = map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodDelete: "delete",
		http.MethodPatch: "update", http.MethodPut: "update",
	}[in.method]
	parts := strings.Split(in.path, "/")
	isIn := func(scopes ...string) bool { return slices.Contains(scopes, parts[0]) }
	switch {
	case in.path == "":
		return "projects", verb
	case isIn("zones", "regions") && len(parts) > 2:
		parts = parts[2:]
	case isIn("global", "aggregated"):
		parts = parts[1:]
	}
	switch {
	case len(parts) == 1 && in.method == http.MethodGet:
		verb = "list"
	case len(parts) == 3:
		verb = parts[2]
	}
	return parts[0], verb
}
