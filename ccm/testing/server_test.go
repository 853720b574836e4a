package testing

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
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
