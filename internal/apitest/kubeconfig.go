package apitest

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// OverTLS serves a handler by https until the test ends, and returns a kubeconfig that reaches it as a user. Without
// TLS clients send no token.
func OverTLS(t testing.TB, h http.Handler, name string, user clientcmdapi.AuthInfo) *clientcmdapi.Config {
	t.Helper()
	front := httptest.NewTLSServer(h)
	t.Cleanup(func() {
		front.CloseClientConnections() // watches end
		front.Close()
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	return configOf(clientcmdapi.Cluster{Server: front.URL, CertificateAuthorityData: ca}, name, user)
}

// configOf is a kubeconfig with one context.
func configOf(cluster clientcmdapi.Cluster, name string, user clientcmdapi.AuthInfo) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters["test"], c.AuthInfos[name] = &cluster, &user
	c.Contexts["test"], c.CurrentContext = &clientcmdapi.Context{Cluster: "test", AuthInfo: name}, "test"
	return c
}

// WriteKubeconfig writes a kubeconfig into a directory of the test, and returns its path.
func WriteKubeconfig(t testing.TB, c *clientcmdapi.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}
