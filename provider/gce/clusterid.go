package gce

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"
)

// clusterClients are the clients of the cluster for upstream, with another way to the ConfigMap of the cluster's ID.
// Upstream watches it, reads what it has seen without a lock, and says that there is one already before it has seen it.
// Here its watch sees nothing, and its creation takes over the ConfigMap that is there.
type clusterClients struct {
	cloudprovider.ControllerClientBuilder

	lane *lane
	// ready is called when upstream begins to watch. Before that it has no place for the ID.
	ready func()
}

// ClientOrDie implements cloudprovider.ControllerClientBuilder.
func (c *clusterClients) ClientOrDie(name string) kubernetes.Interface {
	return &clusterClient{c.ControllerClientBuilder.ClientOrDie(name), c}
}

type clusterClient struct {
	kubernetes.Interface

	of *clusterClients
}

// CoreV1 implements kubernetes.Interface.
func (c *clusterClient) CoreV1() corev1client.CoreV1Interface {
	return &coreClient{c.Interface.CoreV1(), c.of}
}

type coreClient struct {
	corev1client.CoreV1Interface

	of *clusterClients
}

// RESTClient implements corev1client.CoreV1Interface: upstream watches the ConfigMap with it, and nothing else.
func (c *coreClient) RESTClient() rest.Interface { return &silentClient{ready: c.of.ready} }

// ConfigMaps implements corev1client.CoreV1Interface.
func (c *coreClient) ConfigMaps(namespace string) corev1client.ConfigMapInterface {
	return &configMaps{c.CoreV1Interface.ConfigMaps(namespace), c.of.lane}
}

type configMaps struct {
	corev1client.ConfigMapInterface

	lane *lane
}

// Create makes the ConfigMap, or takes over the one that is there: upstream goes on with what it gave. One without an
// ID, as deploy/ installs it, gets the new one. The request ends with the controller's call.
//
//nolint:contextcheck // upstream's own context never ends
func (c *configMaps) Create(
	ctx context.Context,
	wanted *corev1.ConfigMap,
	o metav1.CreateOptions,
) (*corev1.ConfigMap, error) {
	if call := c.lane.bound.Call(); call != nil {
		ctx = call.Context()
	}
	have, err := c.Get(ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = c.ConfigMapInterface.Create(ctx, wanted, o)
	}
	if err == nil && have.Data[upstream.UIDCluster] == "" {
		if have.Data == nil {
			have.Data = map[string]string{}
		}
		maps.Copy(have.Data, wanted.Data)
		have, err = c.Update(ctx, have, metav1.UpdateOptions{}) // of the version that was read: the first ID stays
	}
	if err != nil {
		return nil, err
	}
	wanted.Data = have.Data
	return have, nil
}

// silentClient has lists without an item, and watches without an event.
type silentClient struct {
	rest.Interface

	ready func()
}

// Get implements rest.Interface.
func (s *silentClient) Get() *rest.Request {
	s.ready()
	content := rest.ClientContentConfig{
		ContentType: runtime.ContentTypeJSON, GroupVersion: corev1.SchemeGroupVersion,
		Negotiator: runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion),
	}
	nowhere := &url.URL{Scheme: "http", Host: "localhost"} // nothing is sent there
	return rest.NewRequestWithClient(nowhere, "/api/v1", content, &http.Client{Transport: silence{}})
}

type silence struct{}

// RoundTrip implements http.RoundTripper.
func (silence) RoundTrip(in *http.Request) (*http.Response, error) {
	answer := func(status int, body io.ReadCloser) (*http.Response, error) {
		header := http.Header{"Content-Type": {runtime.ContentTypeJSON}}
		return &http.Response{
			StatusCode: status,
			ProtoMajor: 1,
			ProtoMinor: 1,
			Header:     header,
			Body:       body,
			Request:    in,
		}, nil
	}
	query := in.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "": // then it lists
		return answer(http.StatusUnprocessableEntity, io.NopCloser(strings.NewReader(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)))
	case query.Get("watch") != "":
		body, end := io.Pipe()
		context.AfterFunc(in.Context(), func() { _ = end.Close() })
		return answer(http.StatusOK, body)
	}
	return answer(http.StatusOK, io.NopCloser(strings.NewReader(
		`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)))
}
