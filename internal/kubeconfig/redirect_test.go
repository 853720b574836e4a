package kubeconfig

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestARedirectIsNotFollowed: the API server of somebody else could have this machine ask a server of its choice, with the credentials and without TLS.
func TestARedirectIsNotFollowed(t *testing.T) {
	var asked atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inside.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+"/latest/meta-data", status)
		}))
		t.Cleanup(s.Close)
		data, err := clientcmd.Write(clientcmdapi.Config{
			CurrentContext: "c",
			Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
			Clusters: map[string]*clientcmdapi.Cluster{"c": {
				Server:                   s.URL,
				CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
			}},
			AuthInfos: map[string]*clientcmdapi.AuthInfo{"c": {Token: "t"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		config, err := ReadSecret(&corev1.Secret{Data: map[string][]byte{SecretKey: data}})
		if err != nil {
			t.Fatal(err)
		}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("with a redirect (status %d), which is not followed", status)
		if _, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("status %d: the list ended with %v", status, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}
