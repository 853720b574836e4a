package imagecredentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubelet/pkg/apis/credentialprovider/install"
	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Program is an image credential provider as a CredentialProviderConfig names it.
type Program struct {
	Path string
	Args []string
	Env  []string
}

// kubeletTimeout is how long a kubelet waits for a program.
const kubeletTimeout = time.Minute

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

// Ask speaks the exec protocol as a kubelet does: one request on standard input, one response on standard output, in
// the same version. What the program says on standard error is returned, too. With a service account token in the
// request it is what kubelets do whose configuration has tokenAttributes (KEP-4412).
func Ask(
	ctx context.Context,
	p Program,
	request credentialv1.CredentialProviderRequest,
) (*credentialv1.CredentialProviderResponse, string, error) {
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, "", errors.New("there is no codec for JSON")
	}
	data, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, credentialv1.SchemeGroupVersion), &request)
	if err != nil {
		return nil, "", fmt.Errorf("encoding the request: %w", err)
	}
	out, said, err := Run(ctx, p, data)
	if err != nil {
		return nil, said, err
	}
	object, gvk, err := codecs.UniversalDecoder(credentialv1.SchemeGroupVersion).Decode(out, nil, nil)
	if err != nil {
		return nil, said, fmt.Errorf("decoding the response: %w", err)
	}
	response, ok := object.(*credentialv1.CredentialProviderResponse)
	if !ok || gvk.GroupVersion() != credentialv1.SchemeGroupVersion {
		return nil, said, fmt.Errorf("the program answered with %s", gvk)
	}
	switch response.CacheKeyType {
	case credentialv1.ImagePluginCacheKeyType, credentialv1.RegistryPluginCacheKeyType,
		credentialv1.GlobalPluginCacheKeyType:
	default:
		return nil, said, fmt.Errorf("the kubelet uses no response with cache key type %q", response.CacheKeyType)
	}
	return response, said, nil
}

// Run gives a program something on its standard input, whatever that is, as a kubelet does.
func Run(ctx context.Context, p Program, in []byte) (out []byte, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Env, bytes.NewReader(in), &stdout, &stderr
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	if err = cmd.Run(); ctx.Err() != nil {
		err = fmt.Errorf("the program was ended: %w", ctx.Err())
	}
	return stdout.Bytes(), stderr.String(), err
}
