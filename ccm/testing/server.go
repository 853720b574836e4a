// Package testing runs a manager in the process of a test, as k8s.io/cloud-provider/app/testing does.
package testing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm"
)

// startTimeout is how long a manager may take until it is healthy.
const startTimeout = 30 * time.Second

func init() {
	// several managers of one process set the same loggers
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
}

// TearDownFunc ends a test server and waits for its end.
type TearDownFunc func()

// TestServer is a manager that runs.
type TestServer struct {
	LoopbackClientConfig *rest.Config // for requests to the manager itself
	Options              *options.CloudControllerManagerOptions
	Config               *config.CompletedConfig
	TearDownFn           TearDownFunc
	TmpDir               string // with the serving certificate
}

// StartTestServer starts a manager with the default controllers, and returns once it is healthy. It runs without leader
// election unless a flag says otherwise, with a provider that is registered under the name of --cloud-provider. It
// serves on a free port of the loopback interface.
func StartTestServer(
	t *testing.T,
	ctx context.Context,
	customFlags []string,
) (TestServer, error) { //nolint:revive // upstream's signature
	return StartTestServerWithOptions(t, ctx, customFlags, ccm.DefaultInitFuncConstructors, names.CCMControllerAliases())
}

// StartTestServerWithOptions is StartTestServer with other controllers.
func StartTestServerWithOptions(
	t *testing.T,
	ctx context.Context,
	customFlags []string, //nolint:revive // upstream's signature
	constructors map[string]ccm.ControllerInitFuncConstructor,
	aliases map[string]string,
) (TestServer, error) {
	result := TestServer{TmpDir: t.TempDir()}
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return TestServer{}, fmt.Errorf("reading upstream's defaults: %w", err)
	}
	opts.Generic.LeaderElection.LeaderElect = false
	opts.SecureServing.ServerCert.CertDirectory = result.TmpDir
	result.Options = opts
	arguments, err := serveOnFreePort(opts, result.TmpDir, customFlags)
	if err != nil {
		return TestServer{}, err
	}
	type made struct {
		config *config.CompletedConfig
		err    error
	}
	initialised, stop, ended := make(chan made, 1), make(chan struct{}), make(chan error, 1)
	initialise := func(completed *config.CompletedConfig) cloudprovider.Interface {
		named := completed.ComponentConfig.KubeCloudShared.CloudProvider
		cloud, err := cloudprovider.InitCloudProvider(named.Name, named.CloudConfigFile)
		initialised <- made{completed, err}
		return cloud // the command returns an error if there is none
	}
	command := ccm.NewCloudControllerManagerCommand( //nolint:contextcheck // it runs in ExecuteContext's
		opts,
		initialise,
		constructors,
		aliases,
		cliflag.NamedFlagSets{},
		stop,
	)
	command.SetArgs(arguments)
	command.SilenceUsage, command.SilenceErrors = true, true
	go func() { ended <- command.ExecuteContext(ctx) }()
	tearDown := func() {
		close(stop)
		if err := <-ended; err != nil {
			klog.ErrorS(err, "The test server has ended with an error")
		}
	}
	select {
	case m := <-initialised:
		if m.err != nil {
			tearDown()
			return TestServer{}, m.err
		}
		result.Config = m.config
	case err := <-ended:
		return TestServer{}, errors.Join(errors.New("the test server has ended at its start"), err)
	}
	result.LoopbackClientConfig = result.Config.LoopbackClientConfig
	if opts.SecureServing.Listener != nil {
		if err := awaitHealth(ctx, result.LoopbackClientConfig, ended); err != nil {
			if !errors.Is(err, errEnded) {
				tearDown()
			}
			return TestServer{}, err
		}
	}
	result.TearDownFn = tearDown
	return result, nil
}

// StartTestServerOrDie is StartTestServer for a test that cannot go on without.
func StartTestServerOrDie(
	t *testing.T,
	ctx context.Context,
	flags []string,
) *TestServer { //nolint:revive // upstream's signature
	result, err := StartTestServer(t, ctx, flags)
	if err != nil {
		t.Fatalf("starting the test server: %v", err)
	}
	return &result
}

// serveOnFreePort returns the flags without those of ports and certificates, for which the test server has its own. A
// port of 0 stays: nothing is served.
func serveOnFreePort(
	opts *options.CloudControllerManagerOptions, certificates string, flags []string,
) ([]string, error) {
	var arguments []string
	serve, webhooks := true, false
	for _, flag := range flags {
		switch name, value, _ := strings.Cut(flag, "="); {
		case name == "--secure-port":
			serve = value != "0"
		case name == "--webhook-secure-port":
			webhooks = value != "0"
		case name == "--cert-dir" || name == "--webhook-cert-dir":
		default:
			arguments = append(arguments, flag)
		}
	}
	if !serve {
		arguments = append(arguments, "--secure-port=0")
	} else {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("listening for the test server: %w", err)
		}
		opts.SecureServing.Listener = listener
	}
	if !webhooks {
		return append(arguments, "--webhook-secure-port=0"), nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("looking for a port for the webhooks of the test server: %w", err)
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	// The options take no listener for webhooks, so that another process can take the port in between.
	if err := errors.Join(err, listener.Close()); err != nil {
		return nil, fmt.Errorf("looking for a port for the webhooks of the test server: %w", err)
	}
	return append(
		arguments, "--webhook-bind-address="+host, "--webhook-secure-port="+port, "--webhook-cert-dir="+certificates,
	), nil
}

var errEnded = errors.New("the test server has ended before it was healthy")

// awaitHealth waits until the manager says that it has started. It serves its health before.
func awaitHealth(ctx context.Context, self *rest.Config, ended <-chan error) error {
	client, err := rest.HTTPClientFor(self)
	if err != nil {
		return fmt.Errorf("making a client of the test server: %w", err)
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(
			ctx,
			http.MethodGet,
			strings.TrimSuffix(self.Host, "/")+"/readyz?exclude=caches&exclude=cloud",
			nil,
		)
		if err != nil {
			return fmt.Errorf("asking the test server for its health: %w", err)
		}
		answer, err := client.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("/readyz answers %s", answer.Status)
		}
		select {
		case cause := <-ended:
			return errors.Join(errEnded, cause)
		case <-ctx.Done():
			return fmt.Errorf("the test server is not healthy within %s: %w", startTimeout, err)
		case <-ticker.C:
		}
	}
}
