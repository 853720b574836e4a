package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	compute "google.golang.org/api/compute/v1"
)

// Token is what a request is authorized with.
type Token struct {
	Value string
	// Expires is when Google takes it no more.
	Expires time.Time
}

// GoString keeps the token out of logs.
func (Token) GoString() string { return "client.Token{...}" }

// String keeps the token out of logs.
func (Token) String() string { return "a token" }

// TokenSource gets new tokens. Errors hold no secret.
type TokenSource interface {
	Token(ctx context.Context) (Token, error)
}

// TokenError is that there is no token: the request was not sent.
type TokenError struct{ err error }

func (e *TokenError) Error() string { return "getting a token for Compute Engine: " + e.err.Error() }
func (e *TokenError) Unwrap() error { return e.err }

// tokenRefusal is an answer without a token. Whatever its status is, the credentials are not good for a request.
type tokenRefusal struct {
	status int
	from   string
	// code and account are what the token service said, and whose token it was to give; empty where that is not known.
	code, account string
}

func (e *tokenRefusal) Error() string {
	text := fmt.Sprintf("%s answers %d %s", e.from, e.status, http.StatusText(e.status))
	if e.code != "" {
		text += ", " + e.code
	}
	if e.account != "" {
		text += " (the key is of " + e.account + ": check that the account and the key still exist, and this machine's clock)"
	}
	return text
}

// HTTPStatusCode counts a refusal as one of credentials.
func (e *tokenRefusal) HTTPStatusCode() int {
	if e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests {
		return e.status
	}
	return http.StatusUnauthorized
}

// metadataHost is where Compute Engine serves metadata to its instances.
const metadataHost = "169.254.169.254"

// Metadata reads the metadata server of the instance that the process runs on.
type Metadata struct {
	// Host is the server's address with its port; empty for that of GCE_METADATA_HOST, or of every instance.
	Host string
}

// direct is a client without a proxy: the server is next to each instance.
var direct = sync.OnceValue(func() *http.Client {
	next := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is net/http's own
	next.Proxy = nil
	return &http.Client{Transport: next, Timeout: DefaultRequestTimeout}
})

// Get reads a value, such as "instance/zone".
func (m Metadata) Get(ctx context.Context, path string) (string, error) {
	host := cmp.Or(m.Host, os.Getenv("GCE_METADATA_HOST"), metadataHost)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/computeMetadata/v1/"+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("reading %s from the metadata server: %w", path, err)
	}
	request.Header.Set("Metadata-Flavor", "Google")
	body, err := readAnswer(request, "the metadata server")
	if err != nil {
		return "", fmt.Errorf("reading %s from the metadata server: %w", path, err)
	}
	return strings.TrimSpace(string(body)), nil
}

// Token implements TokenSource: it is that of the instance's service account.
func (m Metadata) Token(ctx context.Context) (Token, error) {
	body, err := m.Get(ctx, "instance/service-accounts/default/token")
	if err != nil {
		return Token{}, err
	}
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"` // seconds
	}
	if json.Unmarshal([]byte(body), &answer) != nil || answer.AccessToken == "" || answer.ExpiresIn <= 0 {
		return Token{}, errors.New("the metadata server answers without a token")
	}
	return Token{answer.AccessToken, time.Now().Add(time.Duration(answer.ExpiresIn) * time.Second)}, nil
}

// Exchange gets tokens at an address, as in-tree cloud configs have it with token-url and token-body.
type Exchange struct {
	URL, Body string
	// Instance has the token with which the address is asked.
	Instance Metadata
}

// String keeps the body out of logs.
func (Exchange) String() string { return "tokens of token-url" }

// GoString keeps the body out of logs.
func (Exchange) GoString() string { return "client.Exchange{...}" }

// Token implements TokenSource.
func (e Exchange) Token(ctx context.Context) (Token, error) {
	own, err := e.Instance.Token(ctx)
	if err != nil {
		return Token{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, strings.NewReader(e.Body))
	if err != nil {
		return Token{}, errors.New("[global] token-url is no address")
	}
	request.Header.Set("Authorization", "Bearer "+own.Value)
	body, err := readAnswer(request, "the address of token-url")
	if err != nil {
		return Token{}, err
	}
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.AccessToken == "" {
		return Token{}, errors.New("the address of token-url answers without a token")
	}
	return Token{answer.AccessToken, answer.ExpireTime}, nil
}

// maxToken bounds an answer with a token.
const maxToken = 1 << 20

func readAnswer(request *http.Request, from string) ([]byte, error) {
	answer, err := direct().Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, &tokenRefusal{status: answer.StatusCode, from: from}
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxToken))
}

// Default gets tokens from where Google's libraries look by default: a file, the user's login, or the metadata server.
type Default struct{}

// Token implements TokenSource.
func (Default) Token(ctx context.Context) (Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: DefaultRequestTimeout})
	source, err := google.DefaultTokenSource(ctx, compute.CloudPlatformScope, compute.ComputeScope)
	if err != nil {
		return Token{}, err
	}
	token, err := source.Token()
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.Response != nil { // its text may quote what was sent
			return Token{}, &tokenRefusal{
				refused.Response.StatusCode, "the token service", codeOf(refused.Body), Default{}.account(ctx),
			}
		}
		return Token{}, err
	}
	return Token{token.AccessToken, token.Expiry}, nil
}

// early is how long before its end a token is renewed.
const early = 4 * time.Minute

// renewal is how long a new token is waited for.
const renewal = 10 * time.Second

// cache keeps a token until shortly before its end. One caller renews it, and the others wait.
type cache struct {
	source TokenSource
	turn   chan struct{} // holds one value while the token is looked at

	token Token
}

func newCache(source TokenSource) *cache { return &cache{source: source, turn: make(chan struct{}, 1)} }

func (c *cache) get(ctx context.Context) (string, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	if c.token.Value != "" && time.Until(c.token.Expires) > early {
		return c.token.Value, nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewal)
	defer cancel()
	token, err := c.source.Token(ctx)
	switch {
	case err == nil:
		c.token = token
	case c.token.Value != "" && time.Until(c.token.Expires) > 0: // it is good for a while yet
	default:
		return "", &TokenError{err}
	}
	return c.token.Value, nil
}

// forget drops a token that Compute Engine does not take.
func (c *cache) forget(value string) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.token.Value == value {
		c.token = Token{}
	}
}

// authorizing adds the token.
type authorizing struct {
	next   http.RoundTripper
	tokens *cache
}

// RoundTrip implements http.RoundTripper.
func (a *authorizing) RoundTrip(in *http.Request) (*http.Response, error) {
	ctx := in.Context()
	token, err := a.tokens.get(ctx)
	if err != nil {
		if in.Body != nil {
			_ = in.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	in = in.Clone(ctx)
	in.Header.Set("Authorization", "Bearer "+token)
	out, err := a.next.RoundTrip(in)
	if err != nil {
		return nil, err
	}
	switch out.StatusCode {
	case http.StatusUnauthorized:
		a.tokens.forget(token)
	case http.StatusForbidden:
		err = nameAccount(ctx, out, a.tokens.source)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer to compute %s: %w", Describe(in).Operation, err)
	}
	return out, nil
}
