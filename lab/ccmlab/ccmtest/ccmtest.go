// Package ccmtest decides what a test of cloud-controller-managers gets: a program that is built once, an API server,
// clients, a simulated account, managers. All of it ends with the test.
package ccmtest

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// Main runs the tests of a package that need a command of a module of the checkout ("." or "lab"). It is built once,
// and its path put into program, unless the tests are short ones.
func Main(m *testing.M, module, command string, program *string) {
	flag.Parse()
	dir, err := os.MkdirTemp("", command)
	if err == nil && !testing.Short() {
		*program, err = Build(context.Background(), module, dir, command) //nolint:forbidigo // TestMain has no context
	}
	if err != nil {
		panic(err) // no test can run
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
		os.Exit(code) //nolint:forbidigo // as goleak does
	}))
}

// Build builds a command of a module of the checkout into a directory, and returns its path.
func Build(ctx context.Context, module, dir, command string) (string, error) {
	root, err := build.FindRoot()
	if err != nil {
		return "", err
	}
	return build.BuildCommand(ctx, filepath.Join(root, module), dir, command)
}

// API starts an API server that ends with the test, and returns a client that may do everything. Its directory is a
// temporary one unless the options name another.
func API(t *testing.T, o apiserver.Options) (*apiserver.Server, kubernetes.Interface) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Progress = t.Output()
	api, err := apiserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	return api, Client(t, api, "admin")
}

// Client returns a client of a user whose connections end with the test; see apiserver.Server.Config for the groups.
func Client(t *testing.T, api *apiserver.Server, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	config, err := api.Config(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return Connect(t, config)
}

// Connect returns a client whose connections end with the test.
func Connect(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, disconnect, err := apiserver.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(disconnect)
	return client
}

// Account starts a simulated account of AWS with instances of these addresses, which ends with the test, and returns
// its URL.
func Account(t *testing.T, addresses ...string) (url string, sim *awssim.Server) {
	t.Helper()
	o := awssim.Options{ClusterID: cluster.Name}
	for _, a := range addresses {
		o.Instances = append(o.Instances, awssim.Instance{PrivateIP: a})
	}
	sim, err := awssim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(sim.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), sim
}

// CloudConfig writes the cloud config of an account into a directory, and returns its path.
func CloudConfig(t *testing.T, url, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "aws.conf")
	if err := os.WriteFile(file, []byte(cluster.CloudConfig(url)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Environment is that of a manager whose access key in an account is its name.
func Environment(url, name string) []string {
	return []string{
		"AWS_REGION=" + cluster.Region,
		"AWS_ENDPOINT_URL=" + url,
		"AWS_ACCESS_KEY_ID=" + name,
		"AWS_SECRET_ACCESS_KEY=lab-only",
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// Run starts a manager that ends with the test. If the test has failed, the end of the manager's log is shown.
func Run(t *testing.T, o ccmlab.Options) *ccmlab.Manager {
	t.Helper()
	m, err := ccmlab.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	ShowLog(t, m.Name(), m.Log)
	t.Cleanup(m.Kill)
	return m
}

// ShowLog shows the end of a program's log when the test has failed. Call it before the cleanup that ends the program:
// then its last words are in it.
func ShowLog(t *testing.T, name, file string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if log, err := os.ReadFile(file); err == nil {
			t.Logf("the end of %s's log:\n%s", name, log[max(0, len(log)-6000):])
		}
	})
}
