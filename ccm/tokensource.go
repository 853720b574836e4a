package ccm

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

// useTokenSource replaces the token file of a kubeconfig by one source for all its clients, and returns the file. The source reads
// the file again once the API server has refused what it read last. client-go's own way goes on with a refused token for up to
// 50 s, and by then a leader has lost its lease.
func useTokenSource(kubeconfig *rest.Config) (file string) {
	file = kubeconfig.BearerTokenFile
	if file == "" {
		return ""
	}
	kubeconfig.BearerToken, kubeconfig.BearerTokenFile = "", ""
	kubeconfig.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
	return file
}

// remakeClients makes the clients and caches of a configuration again, as upstream made them before its kubeconfig was changed.
func remakeClients(c *config.CompletedConfig) error {
	clients := clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent))
	if err != nil {
		return fmt.Errorf("making the client of the process: %w", err)
	}
	versioned, err := clients.Client("shared-informers")
	if err != nil {
		return fmt.Errorf("making the client of caches: %w", err)
	}
	c.Client, c.VersionedClient, c.ClientBuilder = client, versioned, clients
	if c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		c.ClientBuilder = clientbuilder.NewDynamicClientBuilder(
			rest.AnonymousClientConfig(c.Kubeconfig), client.CoreV1(), metav1.NamespaceSystem)
	}
	c.SharedInformers = informers.NewSharedInformerFactory(versioned, ResyncPeriod(c)())
	return nil
}
