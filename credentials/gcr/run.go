// Package gcr decides which credentials a kubelet gets for an image of Google's registries. They are those of the
// instance's service account, of the pod's, or of a docker config that the project keeps.
package gcr

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Process is what the program is started with.
type Process struct {
	Version   string
	Arguments []string
	In        io.Reader
	Out, Log  io.Writer
}

const (
	// requestLimit bounds what is read of a request: an image, a token and annotations.
	requestLimit = 1 << 20
	// defaultTimeout is for the whole answer. A kubelet gives a program a minute, and a pull waits for it.
	defaultTimeout = 20 * time.Second
	// compatibleArgument is what upstream's auth-provider-gcp is started with, so that its configuration fits here.
	compatibleArgument = "get-credentials"
)

// Run reads one request, and answers it. An error names no token.
func Run(ctx context.Context, p Process) error {
	var o options
	flags := flag.NewFlagSet("gcr-credential-provider", flag.ContinueOnError)
	flags.SetOutput(p.Log)
	flags.StringVar(&o.flow, "auth-flow", FlowRegistry,
		"where the credentials come from: gcr (the service account of the instance or of the pod), "+
			"dockercfg or dockercfg-url (the metadata attribute google-dockercfg or google-dockercfg-url)")
	flags.StringVar(&o.identityProvider, "workload-identity-provider", "",
		"for tokens of pods' service accounts: the provider of a workload identity pool that trusts the cluster, "+
			"as projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER")
	timeout := flags.Duration("timeout", defaultTimeout, "how long everything may take")
	showVersion := flags.Bool("version", false, "print the version")
	arguments := slices.Clone(p.Arguments)
	if len(arguments) > 0 && arguments[0] == compatibleArgument {
		arguments = arguments[1:]
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *showVersion {
		_, err := fmt.Fprintln(p.Out, p.Version)
		return err
	}
	if err := o.check(flags.Args()); err != nil {
		return err
	}
	request, err := readRequest(p.In)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	response, err := newProvider(o).credentials(ctx, request)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w (everything may take %s, see --timeout)", err, *timeout)
		}
		return fmt.Errorf("no credentials for image %q: %w", request.Image, err)
	}
	if len(response.Auth) == 0 {
		fmt.Fprintf(p.Log, "gcr-credential-provider: image %q is of none of Google's registries (%s): no credentials\n",
			request.Image, strings.Join(registries, ", "))
	}
	response.TypeMeta = request.TypeMeta
	response.Kind = responseKind
	return json.NewEncoder(p.Out).Encode(response)
}

const (
	requestKind  = "CredentialProviderRequest"
	responseKind = "CredentialProviderResponse"
)

// spoken are the versions of the protocol. What is used of them is the same in all: kubelets of 1.24 and 1.25 speak
// v1beta1, and older ones v1alpha1.
var spoken = []string{"v1", "v1beta1", "v1alpha1"}

// readRequest returns the request of a kubelet, which is not repeated in an error: it may hold a token.
func readRequest(in io.Reader) (*credentialv1.CredentialProviderRequest, error) {
	data, err := io.ReadAll(io.LimitReader(in, requestLimit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's request: %w", err)
	}
	if len(data) > requestLimit {
		return nil, fmt.Errorf("the kubelet's request has more than %d bytes", requestLimit)
	}
	var request credentialv1.CredentialProviderRequest
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, errors.New("the kubelet's request on standard input is no JSON of a " + requestKind)
	}
	group, version, _ := strings.Cut(request.APIVersion, "/")
	switch {
	case request.Kind != requestKind:
		return nil, fmt.Errorf("the request on standard input has kind %q, not %s", request.Kind, requestKind)
	case group != credentialv1.GroupName || !slices.Contains(spoken, version):
		return nil, fmt.Errorf("the request has apiVersion %q: this program speaks %s/%s; "+
			"name one of them in the kubelet's CredentialProviderConfig",
			request.APIVersion, credentialv1.GroupName, strings.Join(spoken, " and "))
	case request.Image == "":
		return nil, errors.New("the request names no image")
	}
	return &request, nil
}
