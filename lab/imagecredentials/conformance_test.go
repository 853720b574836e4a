package imagecredentials

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/transplant-dev/transplant/lab/build"
)

var given = flag.String("credentials.programs", "", "directory of the programs, such as one of make credential-providers; empty builds them")

// programs is the directory of the built programs.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if programs = *given; programs != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "credential-providers-")
	if err != nil {
		panic(err)
	}
	programs = dir
	defer func() { _ = os.RemoveAll(dir) }()
	return m.Run()
}

// built makes sure that the programs are there.
func built(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles the programs")
	}
	if _, err := os.Stat(filepath.Join(programs, build.GCRCredentialProvider)); err == nil || *given != "" {
		return
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := build.BuildCredentialProviders(t.Context(), root, programs); err != nil {
		t.Fatal(err)
	}
}

// cloud is a program in front of the token services that it is for.
type cloud struct {
	net     *Internet
	program Program
	// image is of the cloud's registry, for which the program answers with the user and the password.
	image, host, user, password string
	// pod is a request with the token of a pod's service account, for which the password is podPassword.
	pod         credentialv1.CredentialProviderRequest
	podPassword string
	// service gives the node its tokens, exchange gives one for the token of a pod.
	service, exchange string
	secrets           []string
}

const awsRegion = "eu-central-1"

// newCloud makes the simulated cloud of a program.
func newCloud(t *testing.T, name string) *cloud {
	t.Helper()
	built(t)
	n, err := NewInternet()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, n.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cloud{net: n, program: Program{Path: filepath.Join(programs, name), Env: n.Environment(ca)}}
	c.pod.TypeMeta = metav1.TypeMeta{}
	switch name {
	case build.ECRCredentialProvider:
		a := NewAmazon(n, awsRegion)
		n.Handle("", a.Metadata())
		c.program.Env = append(c.program.Env, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+n.URL())
		c.host, c.user, c.password, c.podPassword = a.Registry(), "AWS", a.Password, a.PodPassword
		c.service, c.exchange = "api.ecr."+awsRegion+".amazonaws.com", "sts."+awsRegion+".amazonaws.com"
		c.pod.ServiceAccountToken = a.PodToken
		c.pod.ServiceAccountAnnotations = map[string]string{"eks.amazonaws.com/ecr-role-arn": a.PodRole}
		c.secrets = []string{a.Password, a.PodPassword, a.PodToken, "instance-secret", "pod-secret"}
	case build.ACRCredentialProvider:
		a := NewAzure(n)
		config := filepath.Join(t.TempDir(), "azure.json")
		if err := os.WriteFile(config, []byte(a.Config()), 0o600); err != nil {
			t.Fatal(err)
		}
		c.program.Args = []string{config}
		c.host, c.user, c.password, c.podPassword = a.Registry, azureUser, a.Password, a.PodPassword
		c.service, c.exchange = a.Registry, azureLogin
		c.pod.ServiceAccountToken = a.PodToken
		c.pod.ServiceAccountAnnotations = map[string]string{
			"kubernetes.azure.com/acr-client-id": a.Application, "kubernetes.azure.com/acr-tenant-id": a.Tenant,
		}
		c.secrets = []string{a.Password, a.PodPassword, a.PodToken, azureNodeToken, azurePodToken}
	case build.GCRCredentialProvider:
		g := NewGoogle(n)
		n.Handle("", g.Metadata())
		c.program.Args = []string{"get-credentials", "--workload-identity-provider=" + g.IdentityProvider}
		c.program.Env = append(c.program.Env, "GCE_METADATA_HOST="+strings.TrimPrefix(n.URL(), "http://"))
		c.host, c.user, c.password, c.podPassword = "europe-west4-docker.pkg.dev", "_token", g.Password, g.AccountPassword
		c.service, c.exchange = "", "sts.googleapis.com"
		c.pod.ServiceAccountToken = g.PodToken
		c.pod.ServiceAccountAnnotations = map[string]string{"iam.gke.io/gcp-service-account": g.Account}
		c.secrets = []string{g.Password, g.PodPassword, g.AccountPassword, g.PodToken}
	}
	c.image = c.host + "/project/app:v1"
	c.pod.Image = c.image
	return c
}

func (c *cloud) request(image string) credentialv1.CredentialProviderRequest {
	return credentialv1.CredentialProviderRequest{Image: image}
}

// discreet fails when a text has a secret in it.
func (c *cloud) discreet(t *testing.T, said string) {
	t.Helper()
	for _, secret := range c.secrets {
		if strings.Contains(said, secret) {
			t.Errorf("%q is said: %s", secret, said)
		}
	}
}

// each runs a test with each program.
func each(t *testing.T, test func(t *testing.T, c *cloud)) {
	for _, name := range []string{build.ECRCredentialProvider, build.ACRCredentialProvider, build.GCRCredentialProvider} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, name)
			test(t, c)
			if unknown := c.net.Unknown(); len(unknown) > 0 {
				t.Errorf("the program asked what the simulators do not know: %q", unknown)
			}
		})
	}
}

func TestEachProgramGivesTheCredentialsOfItsNode(t *testing.T) {
	each(t, func(t *testing.T, c *cloud) {
		response, said, err := Ask(t.Context(), c.program, c.request(c.image))
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		want := credentialv1.AuthConfig{Username: c.user, Password: c.password}
		if got := response.Auth[c.host]; got != want {
			t.Errorf("for %s it answered %+v, want %+v", c.host, got, want)
		}
		if d := response.CacheDuration; d == nil || d.Duration <= 0 || d.Duration > 12*time.Hour {
			t.Errorf("the answer is cached for %v", d)
		}
		if response.CacheKeyType != credentialv1.RegistryPluginCacheKeyType {
			t.Errorf("the answer is cached by %s", response.CacheKeyType)
		}
		c.discreet(t, said)
	})
}

func TestEachProgramExchangesTheTokenOfAPodsServiceAccount(t *testing.T) {
	each(t, func(t *testing.T, c *cloud) {
		response, said, err := Ask(t.Context(), c.program, c.pod)
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		want := credentialv1.AuthConfig{Username: c.user, Password: c.podPassword}
		if got := response.Auth[c.host]; got != want {
			t.Errorf("for %s it answered %+v, want %+v", c.host, got, want)
		}
		c.discreet(t, said)
	})
}

func TestATokenOfAPodThatIsNotTrustedGetsNothing(t *testing.T) {
	each(t, func(t *testing.T, c *cloud) {
		c.pod.ServiceAccountToken = "token-of-another-cluster"
		c.secrets = append(c.secrets, c.pod.ServiceAccountToken)
		response, said, err := Ask(t.Context(), c.program, c.pod)
		if err == nil {
			t.Fatalf("it answered %+v", response)
		}
		if said == "" {
			t.Error("it does not say why")
		}
		c.discreet(t, said)
	})
}

func TestARequestThatIsNoneIsRefused(t *testing.T) {
	const v1 = `"apiVersion":"credentialprovider.kubelet.k8s.io/v1"`
	requests := map[string]string{
		"another version":  `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v2","image":"IMAGE"}`,
		"another group":    `{"kind":"CredentialProviderRequest","apiVersion":"client.authentication.k8s.io/v1","image":"IMAGE"}`,
		"no version":       `{"kind":"CredentialProviderRequest","image":"IMAGE"}`,
		"another kind":     `{"kind":"CredentialProviderResponse",` + v1 + `,"image":"IMAGE"}`,
		"no image":         `{"kind":"CredentialProviderRequest",` + v1 + `}`,
		"half of it":       `{"kind":"CredentialProviderRequest",` + v1 + `,"image":"IMA`,
		"no JSON":          "image: IMAGE\n",
		"nothing":          "",
		"an image of list": `{"kind":"CredentialProviderRequest",` + v1 + `,"image":["IMAGE"]}`,
	}
	each(t, func(t *testing.T, c *cloud) {
		for name, text := range requests {
			out, said, err := Run(t.Context(), c.program, []byte(strings.ReplaceAll(text, "IMAGE", c.image)))
			if err == nil || len(out) > 0 {
				t.Errorf("%s: %v, it answered %q", name, err, out)
			}
			if said == "" {
				t.Errorf("%s: it does not say why", name)
			}
		}
		if calls := c.net.Calls(); len(calls) > 0 {
			t.Errorf("the token services were asked: %+v", calls)
		}
	})
}

// TestAnImageOfAnotherRegistry: what keeps a program of Amazon from giving away the node's credentials is matchImages
// in the kubelet's configuration alone. The two others look at the image.
func TestAnImageOfAnotherRegistry(t *testing.T) {
	images := []string{
		"docker.io/library/app", "app", "gcr.io.evil.example/app", "evil.example/gcr.io/app", "gcr.io@evil.example/app",
		"a.b.gcr.io/app", "-docker.pkg.dev.evil.example/x", ".gcr.io/app",
	}
	for _, name := range []string{build.ACRCredentialProvider, build.GCRCredentialProvider} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, name)
			for _, image := range images {
				response, said, err := Ask(t.Context(), c.program, c.request(image))
				if err != nil || len(response.Auth) > 0 {
					t.Errorf("%s: %v, it answered %+v: %s", image, err, response, said)
				}
			}
			if calls := c.net.Calls(); len(calls) > 0 {
				t.Errorf("the token services were asked: %+v", calls)
			}
		})
	}
	t.Run("a name of Azure's in another", func(t *testing.T) {
		// Upstream finds it anywhere, and answers for the registry of that name: no key is one of the image's host.
		c := newCloud(t, build.ACRCredentialProvider)
		response, said, err := Ask(t.Context(), c.program, c.request(c.host+".evil.example/app"))
		if err != nil || len(response.Auth) != 2 || response.Auth[c.host].Password != c.password || response.Auth["*.azurecr.*"].Password != "" {
			t.Errorf("%v, it answered %+v: %s", err, response, said)
		}
	})
	t.Run(build.ECRCredentialProvider, func(t *testing.T) {
		c := newCloud(t, build.ECRCredentialProvider)
		c.program.Env = append(c.program.Env, "AWS_REGION="+awsRegion)
		response, said, err := Ask(t.Context(), c.program, c.request("registry.example/app"))
		if err != nil || response.Auth["registry.example"].Password != c.password {
			t.Errorf("%v, it answered %+v: %s", err, response, said)
		}
	})
}

func TestATokenServiceThatFails(t *testing.T) {
	faults := map[string]Fault{
		"it is down":       {Closed: true},
		"it refuses":       {Status: 403, Body: `{"error": "forbidden"}`},
		"it is no service": {Status: 200, Body: "<html>sign in to the network</html>"},
		"it has no token":  {Status: 200, Body: "{}"},
		"half of it comes": {Status: 200, Body: `{"access_token": "ya`},
	}
	each(t, func(t *testing.T, c *cloud) {
		for name, fault := range faults {
			for _, pod := range []bool{false, true} {
				request, host := c.request(c.image), c.service
				if pod {
					request, host = c.pod, c.exchange
				}
				if pod && fault.Closed && host == azureLogin {
					continue // the SDK tries for longer than a kubelet waits
				}
				c.net.Fail(host, fault)
				response, said, err := Ask(t.Context(), c.program, request)
				if err == nil && len(response.Auth) > 0 {
					t.Errorf("%s, pod %v: it answered %+v", name, pod, response)
				}
				if err != nil && said == "" {
					t.Errorf("%s, pod %v: it does not say why", name, pod)
				}
				c.discreet(t, said)
				c.net.Fail(host, Fault{})
			}
		}
	})
}

func TestATokenServiceThatIsSilentDoesNotHoldAKubelet(t *testing.T) {
	each(t, func(t *testing.T, c *cloud) {
		c.net.Fail(c.service, Fault{Silent: true})
		if filepath.Base(c.program.Path) == build.GCRCredentialProvider {
			c.program.Args = append(c.program.Args, "--timeout=300ms")
			_, said, err := Ask(t.Context(), c.program, c.request(c.image))
			if err == nil || !strings.Contains(said, "everything may take 300ms") {
				t.Errorf("%v: %s", err, said)
			}
			return
		}
		// Upstream's programs wait for half a minute and more: their kubelet ends them.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		response, _, err := Ask(ctx, c.program, c.request(c.image))
		if response != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, it answered %+v", err, response)
		}
		if !slices.ContainsFunc(c.net.Calls(), func(call Call) bool { return call.Host == c.service }) {
			t.Errorf("it has not asked %s: %+v", c.service, c.net.Calls())
		}
	})
}

func TestAmazonsOtherAnswers(t *testing.T) {
	c := newCloud(t, build.ECRCredentialProvider)
	response, said, err := Ask(t.Context(), c.program, c.request("public.ecr.aws/project/app"))
	if err != nil || response.Auth["public.ecr.aws"].Password != c.password {
		t.Errorf("the public registry: %v, %+v: %s", err, response, said)
	}
	// Without a role the node's own credentials are given, as upstream wants it.
	c.pod.ServiceAccountAnnotations = nil
	response, said, err = Ask(t.Context(), c.program, c.pod)
	if err != nil || response.Auth[c.host].Password != c.password {
		t.Errorf("a pod without a role: %v, %+v: %s", err, response, said)
	}
}

// TestAzureWithoutAManagedIdentity: the program gives the registry the application's own secret, and for a pod, too.
func TestAzureWithoutAManagedIdentity(t *testing.T) {
	c := newCloud(t, build.ACRCredentialProvider)
	config := filepath.Join(t.TempDir(), "azure.json")
	text := `{"tenantId": "t", "aadClientId": "application", "aadClientSecret": "planted"}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.program.Args = []string{config}
	for _, request := range []credentialv1.CredentialProviderRequest{c.request(c.image), c.pod} {
		response, said, err := Ask(t.Context(), c.program, request)
		want := credentialv1.AuthConfig{Username: "application", Password: "planted"}
		if err != nil || response.Auth["*.azurecr.io"] != want {
			t.Errorf("%v, %+v: %s", err, response, said)
		}
	}
	for name, args := range map[string][]string{"no file": {config + ".not"}, "no argument": nil, "two": {config, config}} {
		c.program.Args = args
		if response, said, err := Ask(t.Context(), c.program, c.request(c.image)); err == nil || said == "" {
			t.Errorf("%s: it answered %+v: %s", name, response, said)
		}
	}
}

func TestGooglesOtherAnswers(t *testing.T) {
	c := newCloud(t, build.GCRCredentialProvider)
	g := NewGoogle(c.net)
	c.net.Handle("", g.Metadata())
	ask := func(args ...string) (*credentialv1.CredentialProviderResponse, string, error) {
		c.program.Args = args
		return Ask(t.Context(), c.program, c.request(c.image))
	}
	for life, want := range map[time.Duration]time.Duration{
		time.Hour: 58 * time.Minute, 300 * time.Second: 3 * time.Minute, time.Minute: 0, -time.Minute: 0, 90 * 24 * time.Hour: 58 * time.Minute,
	} {
		g.TokenLife = life
		response, said, err := ask()
		if err != nil || response.CacheDuration == nil || response.CacheDuration.Duration != want {
			t.Errorf("a token that lasts %s: %v, %+v: %s", life, err, response, said)
		}
	}
	g.Attributes["google-dockercfg"] = `{"https://registry.example": {"auth": "dXNlcjpwbGFudGVk"}, "eu.gcr.io": {"username": "a", "password": "b"}}`
	g.Attributes["google-dockercfg-url"] = "https://config.example/dockercfg?key=planted"
	c.net.Handle("config.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(g.Attributes["google-dockercfg"]))
	}))
	for _, flow := range []string{"dockercfg", "dockercfg-url"} {
		response, said, err := ask("--auth-flow=" + flow)
		if err != nil || response.Auth["https://registry.example"] != (credentialv1.AuthConfig{Username: "user", Password: "planted"}) ||
			response.Auth["eu.gcr.io"].Password != "b" {
			t.Errorf("%s: %v, %+v: %s", flow, err, response, said)
		}
	}
	for name, c := range map[string]struct {
		set  func()
		args []string
		want string
	}{
		"no docker config":        {func() { g.Attributes["google-dockercfg"] = "planted" }, []string{"--auth-flow=dockercfg"}, "is no docker config"},
		"an empty one":            {func() { g.Attributes["google-dockercfg"] = "{}" }, []string{"--auth-flow=dockercfg"}, "names no registry"},
		"none at the URL":         {func() {}, []string{"--auth-flow=dockercfg-url"}, "names no registry"},
		"the URL is not there":    {func() { c.net.Fail("config.example", Fault{Status: 404}) }, []string{"--auth-flow=dockercfg-url"}, "config.example answered 404 Not Found"},
		"the URL is not reached":  {func() { c.net.Fail("config.example", Fault{Closed: true}) }, []string{"--auth-flow=dockercfg-url"}, "asking config.example"},
		"no URL":                  {func() { g.Attributes["google-dockercfg-url"] = "planted" }, []string{"--auth-flow=dockercfg-url"}, "no URL with https"},
		"no attribute":            {func() { clear(g.Attributes) }, []string{"--auth-flow=dockercfg"}, "set that attribute"},
		"another flow":            {func() {}, []string{"--auth-flow=x"}, "--auth-flow=x is none of gcr, dockercfg, dockercfg-url"},
		"another argument":        {func() {}, []string{"get-credentials", "more"}, `unexpected argument "more"`},
		"another flag":            {func() {}, []string{"--nothing"}, "flag provided but not defined"},
		"another provider":        {func() {}, []string{"--workload-identity-provider=pool"}, "is not of the form projects/"},
		"no account at the node":  {func() { c.net.Fail("", Fault{Status: 404}) }, nil, "the instance has no service account"},
		"a metadata server's 403": {func() { c.net.Fail("", Fault{Status: 403, Body: "planted"}) }, nil, "the metadata server answered 403 Forbidden"},
	} {
		g.Attributes = map[string]string{"google-dockercfg": "{}", "google-dockercfg-url": "https://config.example/"}
		c.set()
		response, said, err := ask(c.args...)
		if err == nil || !strings.Contains(said, c.want) || strings.Contains(said, "planted") {
			t.Errorf("%s: %v, %+v: %s", name, err, response, said)
		}
		cleared(g, "config.example", "")
	}
	c.program.Args = nil
	if _, said, err := Ask(t.Context(), c.program, c.pod); err == nil || !strings.Contains(said, "--workload-identity-provider does not say") {
		t.Errorf("a pod's token without a place to exchange it: %v: %s", err, said)
	}
	c.pod.ServiceAccountAnnotations["iam.gke.io/gcp-service-account"] = "../../x"
	c.program.Args = []string{"--workload-identity-provider=" + g.IdentityProvider}
	if _, said, err := Ask(t.Context(), c.program, c.pod); err == nil || !strings.Contains(said, "is no e-mail address") {
		t.Errorf("an account that is none: %v: %s", err, said)
	}
	delete(c.pod.ServiceAccountAnnotations, "iam.gke.io/gcp-service-account")
	if response, said, err := Ask(t.Context(), c.program, c.pod); err != nil || response.Auth[c.host].Password != g.PodPassword {
		t.Errorf("a pod without an account: %v, %+v: %s", err, response, said)
	}
}

// cleared takes the faults of hosts away.
func cleared(g *Google, hosts ...string) {
	for _, host := range hosts {
		g.net.Fail(host, Fault{})
	}
}

// TestGoogleAnswersOlderKubelets in their version: those of 1.24 and 1.25 know no v1.
func TestGoogleAnswersOlderKubelets(t *testing.T) {
	c := newCloud(t, build.GCRCredentialProvider)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		request := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/` + version + `","image":"` + c.image + `"}`
		out, said, err := Run(t.Context(), c.program, []byte(request))
		if err != nil || !strings.Contains(string(out), `"apiVersion":"credentialprovider.kubelet.k8s.io/`+version+`"`) ||
			!strings.Contains(string(out), c.password) {
			t.Errorf("%s: %v, %s: %s", version, err, out, said)
		}
	}
}

func TestEachProgramSaysItsVersion(t *testing.T) {
	each(t, func(t *testing.T, c *cloud) {
		out, said, err := Run(t.Context(), Program{Path: c.program.Path, Args: []string{"--version"}, Env: c.program.Env}, nil)
		if err != nil || len(out) == 0 {
			t.Errorf("%v, %q: %s", err, out, said)
		}
	})
}

func TestAnInternetKnowsItsHostsOnly(t *testing.T) {
	n, err := NewInternet()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	n.Handle(".a.example", NewAmazon(n, "x").Metadata())
	for name, want := range map[string]bool{
		"x.a.example": true, "x.y.a.example": true, "a.example": false, "ba.example": false, "example": false, "": false,
		"sts.x.amazonaws.com": true, "sts.y.amazonaws.com": false,
	} {
		if h, _, _ := n.lookup(name); (h != nil) != want {
			t.Errorf("%q is answered for: %v", name, h != nil)
		}
	}
	for _, at := range []string{"https://other.example/", "http://other.example/"} {
		proxy, err := url.Parse(n.URL())
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
		if answer, err := client.Get(at); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusBadGateway {
				t.Errorf("%s is answered with %s", at, answer.Status)
			}
		}
	}
	if unknown := n.Unknown(); len(unknown) != 2 {
		t.Errorf("what was not known: %q", unknown)
	}
}
