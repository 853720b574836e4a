package azuresim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/imagecredentials"
	"github.com/transplant-dev/transplant/provider/azure"
)

// login gives the tokens of the managed identity and of the secret, which every simulated cloud takes.
var login *azuresim.Cloud

// shared is a directory for all tests.
var shared string

// TestMain is the machine that the managed identity is of, and trusts the certificates of the directory under both of its names: a process reads them once.
func TestMain(m *testing.M) {
	login = azuresim.Start(azuresim.Options{})
	for name, value := range login.Env() {
		set(name, value)
	}
	var err error
	if shared, err = os.MkdirTemp("", "azuresim"); err != nil {
		panic(err)
	}
	world, err := imagecredentials.NewInternet()
	if err != nil {
		panic(err)
	}
	world.Handle("login.chinacloudapi.cn", http.HandlerFunc(login.ServeLogin))
	set("HTTPS_PROXY", world.URL())
	file := filepath.Join(shared, "login.pem")
	if err := os.WriteFile(file, append(login.LoginCertificate(), world.CA()...), 0o600); err != nil {
		panic(err)
	}
	set("SSL_CERT_FILE", file)
	code := m.Run()
	login.Close()
	_ = world.Close()        // nobody asks any more
	_ = os.RemoveAll(shared) // it is in the directory of temporary files
	os.Exit(code)
}

func set(name, value string) {
	if err := os.Setenv(name, value); err != nil {
		panic(err)
	}
}

// toSim sends what is for Azure to a simulated one. Upstream keeps the addresses of a cloud in a variable of the SDK, which clouds of a process share.
type toSim struct {
	host string
	next http.RoundTripper
}

func (s toSim) RoundTrip(in *http.Request) (*http.Response, error) {
	out := in.Clone(in.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "http", s.host, ""
	return s.next.RoundTrip(out)
}

// open opens the provider on a simulated cloud, as its controllers would.
func open(t *testing.T, sim *azuresim.Cloud, o azure.Options, more map[string]any) *azure.Cloud {
	t.Helper()
	at, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	if o.Next == nil {
		o.Next = http.DefaultTransport.(*http.Transport).Clone()
	}
	o.Next = toSim{at.Host, o.Next}
	settings := map[string]any{"resourceManagerEndpoint": ""}
	for key, value := range more {
		settings[key] = value
	}
	cloud, err := azure.Open(sim.Config(settings), o)
	if err != nil {
		t.Fatal(err)
	}
	cloud.Initialize(ccmtest.ClientsFor(t, nil), t.Context().Done())
	return cloud
}

func start(t *testing.T, o azuresim.Options) *azuresim.Cloud {
	t.Helper()
	sim := azuresim.Start(o)
	ccmtest.EndCloud(t, sim)
	return sim
}

// owner does what the owner of machines does.
type owner struct {
	sim        *azuresim.Cloud
	inScaleSet bool
	ids        map[string]string
}

func (o *owner) Create() *corev1.Node {
	number := len(o.ids) + 1
	name := fmt.Sprintf("node-%d", number)
	if o.inScaleSet {
		name = fmt.Sprintf("%s%06d", azuresim.ScaleSet, number-1) // as Azure calls them
	}
	if o.ids == nil {
		o.ids = map[string]string{}
	}
	o.ids[name] = o.sim.AddMachine(azuresim.Machine{
		Name: name, IP: fmt.Sprintf("10.0.0.%d", number), ExternalIP: fmt.Sprintf("203.0.113.%d", number), InScaleSet: o.inScaleSet, Zone: "1",
	})
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("uid-%d", number))}}
}

func (o *owner) Stop(node *corev1.Node)   { o.sim.SetPower(o.ids[node.Name], "deallocated") }
func (o *owner) Delete(node *corev1.Node) { o.sim.DeleteMachine(o.ids[node.Name]) }
