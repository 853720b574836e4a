package ccm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	cmfeatures "k8s.io/controller-manager/pkg/features"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// commandBuilder is what authors of webhooks make a command with.
type commandBuilder interface {
	AddFlags(cliflag.NamedFlagSets)
	SetOptions(*options.CloudControllerManagerOptions)
	SetCloudInitializer(app.InitCloudFunc)
	SetStopChannel(<-chan struct{})
	RegisterController(string, app.ControllerInitFuncConstructor, map[string]string)
	RegisterWebhook(string, app.WebhookConfig)
	BuildCommand() *cobra.Command
}

// refusing are two webhooks, of which one is to be turned off.
var refusing = map[string]app.WebhookConfig{
	"refusing": {Path: "/refusing", AdmissionHandler: func(r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: r.Name + " is refused"}}, nil
	}},
	"off": {Path: "/off", AdmissionHandler: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}},
}

func TestWebhooksAreServedOnStandby(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, cmfeatures.CloudControllerManagerWebhook, true)
	for _, c := range []struct {
		name  string
		start func(*testing.T, *apitest.Server, *net.TCPAddr, <-chan struct{}) <-chan error
		alone bool // upstream's can be ended only without leader election
	}{
		{"upstream's builder", startBuilt(app.NewBuilder(), "--leader-elect=false"), true},
		{"our builder", startBuilt(NewBuilder()), false},
		{"upstream's Run", startWithWebhooks(app.Run, false), true},
		{"our Run", startWithWebhooks(Run, true), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newAuthorsServer(t)
			if !c.alone {
				server.Put(t, held(mainLeaseName, "another"))
			}
			address := ownAddress(t)
			stop := make(chan struct{})
			ended := c.start(t, server, address, stop)
			t.Cleanup(func() { configz.Delete(ConfigzName) }) // upstream leaves it
			var review admissionv1.AdmissionReview
			var status int
			var body string
			await(t, func() bool {
				status, body = ask(t, address.String()+"/refusing")
				return status == http.StatusOK && json.Unmarshal([]byte(body), &review) == nil
			}, func() string { return fmt.Sprintf("the webhook answers %d %s", status, body) })
			if r := review.Response; r == nil || r.Allowed || r.UID != "some" || r.Result.Message != "web is refused" {
				t.Errorf("the webhook answers %+v", r)
			}
			if status, body := ask(t, address.String()+"/off"); status != http.StatusNotFound {
				t.Errorf("a webhook that is turned off answers %d %s", status, body)
			}
			close(stop)
			if err := receive(t, ended); err != nil {
				t.Error(err)
			}
			await(t, func() bool { status, _ := ask(t, address.String()+"/refusing"); return status == 0 },
				func() string { return "the webhook is served after the end" })
		})
	}
}

// idleController is one without which a builder has nothing to run.
func idleController() app.ControllerInitFuncConstructor { return newWorker("mine").constructor() }

func startBuilt(b commandBuilder, args ...string) func(*testing.T, *apitest.Server, *net.TCPAddr, <-chan struct{}) <-chan error {
	return func(t *testing.T, server *apitest.Server, address *net.TCPAddr, stop <-chan struct{}) <-chan error {
		opts, _ := servingOptions(t)
		opts.WebhookServing.BindAddress, opts.WebhookServing.BindPort = address.IP, address.Port
		b.SetOptions(opts)
		b.SetCloudInitializer(func(*config.CompletedConfig) cloudprovider.Interface { return &authored{} })
		b.SetStopChannel(stop)
		b.RegisterController("mine", idleController(), nil)
		for name, webhook := range refusing {
			b.RegisterWebhook(name, webhook)
		}
		command, ended := b.BuildCommand(), make(chan error, 1)
		command.SetArgs(append([]string{
			"--cloud-provider=test", "--kubeconfig=" + server.Kubeconfig(t), "--webhooks=*,-off",
			"--feature-gates=CloudControllerManagerWebhook=true",
		}, args...))
		command.SilenceUsage, command.SilenceErrors = true, true
		command.SetOut(io.Discard)
		go func() { ended <- command.ExecuteContext(context.Background()) }()
		return ended
	}
}

func startWithWebhooks(
	run func(*config.CompletedConfig, cloudprovider.Interface, map[string]app.InitFunc, map[string]app.WebhookHandler, <-chan struct{}) error, elect bool,
) func(*testing.T, *apitest.Server, *net.TCPAddr, <-chan struct{}) <-chan error {
	return func(t *testing.T, server *apitest.Server, address *net.TCPAddr, stop <-chan struct{}) <-chan error {
		c := newAuthorsConfig(t, server, func(o *options.CloudControllerManagerOptions) {
			o.Generic.LeaderElection.LeaderElect = elect
			o.WebhookServing.BindAddress, o.WebhookServing.BindPort = address.IP, address.Port
			o.Webhook.Webhooks = []string{"*"} // nothing is listened for without one
		})
		c.ComponentConfig.Webhook.Webhooks = []string{"*", "-off"}
		inits := map[string]app.InitFunc{"mine": idleController().Constructor(app.ControllerInitContext{}, c, nil)}
		ended := make(chan error, 1)
		go func() { ended <- run(c, &authored{}, inits, app.NewWebhookHandlers(refusing, c, &authored{}), stop) }()
		return ended
	}
}

// ownAddress returns an address at which nothing else listens: upstream takes no listener for webhooks. Each process of tests
// has an IP address of its own, so that no other one takes the port in between.
func ownAddress(t *testing.T) *net.TCPAddr {
	t.Helper()
	pid := os.Getpid()
	ip := net.IPv4(127, 64|byte(pid>>16)&63, byte(pid>>8), byte(pid))
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr)
}

// ask sends an admission review, and returns the status and the body, or 0 while nothing is served.
func ask(t *testing.T, url string) (int, string) {
	t.Helper()
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "some", Name: "web"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(anyCertificate.Post("https://"+url, "application/json", bytes.NewReader(body)))
}
