package testing

import (
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider/app/testing"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/options"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
)

func TestMain(m *testing.M) {
	if err := logsapi.ValidateAndApply(logsapi.NewLoggingConfiguration(), utilfeature.DefaultFeatureGate); err != nil {
		panic(err)
	}
	os.Setenv("KUBE_FEATURE_WatchListClient", "false") // the API server of these tests lists, then watches
	cloudprovider.RegisterCloudProvider("test-server", func(io.Reader) (cloudprovider.Interface, error) { return &fake.Cloud{}, nil })
	os.Exit(m.Run())
}

func TestATestServerIsHealthyAndEnds(t *testing.T) {
	api := apitest.New(t)
	for range 2 { // one after the other in one process
		server := StartTestServerOrDie(
			t,
			t.Context(),
			[]string{"--cloud-provider=test-server", "--kubeconfig=" + api.Kubeconfig(t), "--secure-port=1234", "--configure-cloud-routes=false"},
		)
		client, err := rest.HTTPClientFor(server.LoopbackClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(server.LoopbackClientConfig.Host + "/configz")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("/configz of the test server: %v, error %v", answer, err)
		} else {
			_ = answer.Body.Close()
		}
		client.CloseIdleConnections()
		server.TearDownFn()
		if open, err := net.Dial("tcp", strings.TrimPrefix(server.LoopbackClientConfig.Host, "https://")); err == nil {
			_ = open.Close()
			t.Error("the test server still listens after its end")
		}
	}
}

func TestATestServerThatCannotStartSaysWhy(t *testing.T) {
	for name, flags := range map[string][]string{
		"a flag that does not exist": {"--no-such-flag"}, "a provider that does not exist": {"--cloud-provider=none-such", "--kubeconfig=" + apitest.New(t).Kubeconfig(t)},
	} {
		if server, err := StartTestServer(t, t.Context(), flags); err == nil {
			server.TearDownFn()
			t.Errorf("%s: the test server starts", name)
		}
	}
}

func TestATestServersWebhooksListenOnAFreePort(t *testing.T) {
	server := StartTestServerOrDie(t, t.Context(), []string{
		"--cloud-provider=test-server", "--kubeconfig=" + apitest.New(t).Kubeconfig(t), "--configure-cloud-routes=false", "--webhooks=*", "--webhook-secure-port=1",
	})
	defer server.TearDownFn()
	serving := server.Options.WebhookServing
	if !serving.BindAddress.IsLoopback() || serving.BindPort == 1 || serving.BindPort == options.CloudControllerManagerWebhookPort {
		t.Errorf("webhooks are for %s, port %d", serving.BindAddress, serving.BindPort)
	}
	open, err := net.Dial("tcp", net.JoinHostPort(serving.BindAddress.String(), strconv.Itoa(serving.BindPort)))
	if err != nil {
		t.Fatal(err)
	}
	_ = open.Close()
}

// The names of what upstream has are compared in package ccm. Both packages are called testing, so that types have one name.
func TestATestServerIsAsUpstreams(t *testing.T) {
	for _, pair := range [][2]any{
		{upstream.StartTestServer, StartTestServer},
		{upstream.StartTestServerWithOptions, StartTestServerWithOptions},
		{upstream.StartTestServerOrDie, StartTestServerOrDie},
		{upstream.TearDownFunc(nil), TearDownFunc(nil)},
	} {
		if theirs, ours := reflect.TypeOf(pair[0]).String(), reflect.TypeOf(pair[1]).String(); theirs != ours {
			t.Errorf("upstream has %s, and this package %s", theirs, ours)
		}
	}
	fields := func(of reflect.Type) (all []string) {
		for i := range of.NumField() {
			all = append(all, of.Field(i).Name+" "+of.Field(i).Type.String())
		}
		return all
	}
	theirs, ours := fields(reflect.TypeFor[upstream.TestServer]()), fields(reflect.TypeFor[TestServer]())
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("fields of TestServer (-upstream +ours):\n%s", diff)
	}
}
