package imagecredentials

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Push puts an image of one program into a registry of an internet.
func Push(ctx context.Context, n *Internet, image, program, user, password string) error {
	ref, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return err
	}
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(code))}); err != nil {
		return err
	}
	if _, err := w.Write(code); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return err
	}
	made, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", runtime.GOARCH, []string{"/program"}
	if made, err = mutate.ConfigFile(made, config); err != nil {
		return err
	}
	transport, err := n.transport()
	if err != nil {
		return err
	}
	err = remote.Write(ref, made, remote.WithContext(ctx), remote.WithTransport(transport),
		remote.WithAuth(&authn.Basic{Username: user, Password: password}))
	if err != nil {
		return fmt.Errorf("putting %s into its registry: %w", image, err)
	}
	return nil
}

// transport is how a client in this process reaches the internet.
func (n *Internet) transport() (http.RoundTripper, error) {
	proxy, err := url.Parse(n.URL())
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(n.CA())
	return &http.Transport{
		Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted},
	}, nil
}
