package gcr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/externalaccount"
	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

const (
	// identityProviderPattern is the form of a provider's name in path.Match.
	identityProviderPattern = "projects/*/locations/global/workloadIdentityPools/*/providers/*"
	// accountAnnotation of a pod's service account names the Google service account that its pods act as.
	accountAnnotation = "iam.gke.io/gcp-service-account"
	accountURL        = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/%s:generateAccessToken"
	scope             = "https://www.googleapis.com/auth/cloud-platform"
	webLimit          = 10 << 20
)

// accountName is the e-mail address of a Google service account. It becomes a part of a URL.
var accountName = regexp.MustCompile(`^[a-z0-9-]+@[a-z0-9.-]+$`)

// podToken exchanges the token of a pod's service account for an access token of Google, and says for how long that may
// be used. A pod for which that fails does not get the instance's token instead, which may read more.
func (p provider) podToken(
	ctx context.Context,
	request *credentialv1.CredentialProviderRequest,
) (string, time.Duration, error) {
	if p.identityProvider == "" {
		return "", 0, errors.New("the kubelet sent the token of a pod's service account, and --workload-identity-provider " +
			"does not say where it is exchanged: add it to args in the kubelet's CredentialProviderConfig, " +
			"or remove tokenAttributes there")
	}
	config := externalaccount.Config{
		Audience:             "//iam.googleapis.com/" + p.identityProvider,
		SubjectTokenType:     "urn:ietf:params:oauth:token-type:jwt",
		SubjectTokenSupplier: subject(request.ServiceAccountToken),
		Scopes:               []string{scope},
	}
	if account := request.ServiceAccountAnnotations[accountAnnotation]; account != "" {
		if !accountName.MatchString(account) {
			return "", 0, fmt.Errorf("annotation %s of the pod's service account is no e-mail address of a service account",
				accountAnnotation)
		}
		config.ServiceAccountImpersonationURL = fmt.Sprintf(accountURL, account)
	}
	web := &statusOnly{next: http.DefaultTransport}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: web})
	source, err := externalaccount.NewTokenSource(ctx, config)
	if err != nil {
		return "", 0, fmt.Errorf("preparing the exchange of the pod's token: %w", err)
	}
	token, err := source.Token()
	switch {
	case web.failed != nil:
		return "", 0, fmt.Errorf("exchanging the token of the pod's service account: %w", web.failed)
	case err != nil || token.AccessToken == "": // the library's error may quote the answer
		return "", 0, errors.New("exchanging the token of the pod's service account: the answer has no access token")
	}
	return token.AccessToken, time.Until(token.Expiry) - margin, nil
}

// subject is the token that is exchanged.
type subject string

// SubjectToken returns the token.
func (s subject) SubjectToken(context.Context, externalaccount.SupplierOptions) (string, error) {
	return string(s), nil
}

// statusOnly turns an answer that is no success into an error. The libraries above it quote such answers, which may
// repeat a token.
type statusOnly struct {
	next http.RoundTripper
	// failed is the last request's, which the libraries do not wrap.
	failed error
}

// statusError is an answer that was no success.
type statusError struct {
	host   string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.host, e.status, http.StatusText(e.status))
}

// RoundTrip sends a request, and returns its answer if that is a success.
func (t *statusOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err == nil && answer.StatusCode/100 != 2 {
		_ = answer.Body.Close()
		err = &statusError{host: r.URL.Host, status: answer.StatusCode}
	}
	if t.failed = err; err != nil {
		return nil, err
	}
	return answer, nil
}

// fetch reads a URL that an administrator of the project has put into the metadata.
func (p provider) fetch(ctx context.Context, at string) ([]byte, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("it is no URL with https or http")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, errors.New("it is no URL that can be asked")
	}
	answer, err := p.web.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", u.Host, errors.Unwrap(err)) // without the URL, which may hold a key
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, &statusError{host: u.Host, status: answer.StatusCode}
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, webLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", u.Host, err)
	}
	return data, nil
}
