package gcr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider-gcp/providers/gce/gcpcredential"
	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Flows are the places from which credentials come. The kubelet's own provider of before asked all of them.
const (
	FlowRegistry        = "gcr"
	FlowDockerConfig    = "dockercfg"
	FlowDockerConfigURL = "dockercfg-url"
)

// registries are Google's, as patterns of hosts in which a star stands for one label.
var registries = []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"}

const (
	// tokenUser is the user name with which a registry of Google takes an access token.
	tokenUser = "_token"
	// margin is how long before its end a token is no longer given to a pull, which may take that long to start.
	margin = 2 * time.Minute
	// longest is how long an answer is cached at most: access tokens end within an hour.
	longest = time.Hour
	// configLife is how long a docker config is cached. It has no end of its own, and may be changed.
	configLife = time.Minute
)

// options are those of the command line.
type options struct {
	flow, identityProvider string
}

// check returns what is wrong with the command line.
func (o options) check(rest []string) error {
	if flows := []string{FlowRegistry, FlowDockerConfig, FlowDockerConfigURL}; !slices.Contains(flows, o.flow) {
		return fmt.Errorf("--auth-flow=%s is none of %s", o.flow, strings.Join(flows, ", "))
	}
	if o.identityProvider != "" {
		if ok, err := path.Match(identityProviderPattern, o.identityProvider); err != nil || !ok {
			return fmt.Errorf("--workload-identity-provider=%s is not of the form %s", o.identityProvider, identityProviderPattern)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q: remove it from args in the kubelet's CredentialProviderConfig", rest[0])
	}
	return nil
}

// provider asks for credentials, once.
type provider struct {
	options
	metadata *metadata.Client
	web      *http.Client
}

func newProvider(o options) provider {
	// A metadata server that is on its way up is asked again, for as long as the time of the whole answer allows.
	return provider{options: o, metadata: metadata.NewClient(nil), web: &http.Client{}}
}

// credentials returns those for the image of a request; none when the image is of another registry. A token that a
// project's administrators did not mean for that registry must not reach it.
func (p provider) credentials(
	ctx context.Context,
	request *credentialv1.CredentialProviderRequest,
) (*credentialv1.CredentialProviderResponse, error) {
	switch p.flow {
	case FlowDockerConfig:
		return p.dockerConfig(ctx)
	case FlowDockerConfigURL:
		return p.dockerConfigFromURL(ctx)
	}
	host, ok := registryOf(request.Image)
	if !ok {
		return answer(nil, 0), nil
	}
	if request.ServiceAccountToken != "" {
		token, life, err := p.podToken(ctx, request)
		return answer(tokenFor(host, token), life), err
	}
	token, life, err := p.instanceToken(ctx)
	return answer(tokenFor(host, token), life), err
}

// registryOf returns the host of an image, and reports whether it is one of Google's registries.
func registryOf(image string) (string, bool) {
	host, _, found := strings.Cut(image, "/")
	if !found {
		return "", false
	}
	labels := strings.Split(strings.ToLower(host), ".")
	for _, pattern := range registries {
		parts := strings.Split(pattern, ".")
		matches := len(parts) == len(labels)
		for i := 0; matches && i < len(parts); i++ {
			matches = isLabel(labels[i]) && (parts[i] == labels[i] || parts[i] == "*")
		}
		if matches {
			return host, true
		}
	}
	return "", false
}

// isLabel reports whether a text is one label of a host's name.
func isLabel(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func tokenFor(host, token string) map[string]credentialv1.AuthConfig {
	return map[string]credentialv1.AuthConfig{host: {Username: tokenUser, Password: token}}
}

// answer is a response that the kubelet keeps for the image's registry, and not longer than its credentials last.
func answer(auth map[string]credentialv1.AuthConfig, life time.Duration) *credentialv1.CredentialProviderResponse {
	return &credentialv1.CredentialProviderResponse{
		CacheKeyType:  credentialv1.RegistryPluginCacheKeyType,
		CacheDuration: &metav1.Duration{Duration: min(max(life, 0), longest)},
		Auth:          auth,
	}
}

// instanceToken returns an access token of the instance's service account, and for how long it may be used.
func (p provider) instanceToken(ctx context.Context) (string, time.Duration, error) {
	text, err := p.ask(ctx, "instance/service-accounts/default/token")
	if err != nil {
		return "", 0, err
	}
	var token struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(text), &token); err != nil {
		return "", 0, errors.New("the metadata server's answer is no JSON of an access token")
	}
	if token.AccessToken == "" {
		return "", 0, errors.New("the metadata server's answer has no access token")
	}
	seconds := min(max(token.ExpiresIn, 0), int64(longest/time.Second))
	return token.AccessToken, time.Duration(seconds)*time.Second - margin, nil
}

// ask reads what the metadata server has at a path. An error repeats nothing of what it answered.
func (p provider) ask(ctx context.Context, at string) (string, error) {
	text, err := p.metadata.GetWithContext(ctx, at)
	var missing metadata.NotDefinedError
	var refused *metadata.Error
	switch {
	case errors.As(err, &missing) && strings.Contains(at, "service-accounts/"):
		return "", errors.New("the instance has no service account: attach one that may read the registry, " +
			"with the scope cloud-platform or devstorage.read_only")
	case errors.As(err, &missing):
		return "", fmt.Errorf("the metadata server has no %s: set that attribute of the project or the instance", at)
	case errors.As(err, &refused):
		return "", fmt.Errorf("the metadata server answered %d %s for %s", refused.Code, http.StatusText(refused.Code), at)
	case err != nil:
		return "", fmt.Errorf("asking the metadata server: %w", err)
	}
	return text, nil
}

func (p provider) dockerConfig(ctx context.Context) (*credentialv1.CredentialProviderResponse, error) {
	text, err := p.ask(ctx, "instance/attributes/google-dockercfg")
	if err != nil {
		return nil, err
	}
	return configured([]byte(text), "the metadata attribute google-dockercfg")
}

func (p provider) dockerConfigFromURL(ctx context.Context) (*credentialv1.CredentialProviderResponse, error) {
	at, err := p.ask(ctx, "instance/attributes/google-dockercfg-url")
	if err != nil {
		return nil, err
	}
	data, err := p.fetch(ctx, strings.TrimSpace(at))
	if err != nil {
		return nil, fmt.Errorf("reading what the metadata attribute google-dockercfg-url names: %w", err)
	}
	return configured(data, "what the metadata attribute google-dockercfg-url names")
}

// configured returns the credentials of a docker config of the old form, whose keys are registries.
func configured(data []byte, from string) (*credentialv1.CredentialProviderResponse, error) {
	config, err := gcpcredential.ReadDockerConfigFileFromBytes(data)
	if err != nil {
		return nil, errors.New(from + " is no docker config: it has to be JSON with registries as keys")
	}
	auth := map[string]credentialv1.AuthConfig{}
	for registry, entry := range config {
		auth[registry] = credentialv1.AuthConfig{Username: entry.Username, Password: entry.Password}
	}
	if len(auth) == 0 {
		return nil, errors.New(from + " names no registry")
	}
	return answer(auth, configLife), nil
}
