package mains

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

var (
	all    = flag.Bool("mains.all", false, "build and run every program, also those that take long to compile, and upstream's for comparison")
	update = flag.Bool("mains.update", false, "write the requirements of the programs again")
)

// programs are what has been built, each once: tests that are repeated run the same one.
var programs = struct {
	dir   string
	built map[string]Built // by name and import
}{built: map[string]Built{}}

func TestMain(m *testing.M) {
	var err error
	if programs.dir, err = os.MkdirTemp("", "mains"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(programs.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

// built builds a program with an import.
func built(t *testing.T, p Program, to string) Built {
	t.Helper()
	key := p.Name + " " + to
	if out, ok := programs.built[key]; ok {
		return out
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, err := Build(t.Context(), p, Options{Root: root, Dir: programs.dir, Import: to, Update: *update})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: built in %s", p.Name, time.Since(began).Round(time.Second))
	programs.built[key] = out
	return out
}

// TestOtherPeoplesMainsStartWithOneImportChanged takes the main programs of four projects as they are, changes the one import, and runs each against a
// real API server: it leads, is healthy, starts each of its controllers, handles a Node and a Service, and releases its lease on SIGTERM.
func TestOtherPeoplesMainsStartWithOneImportChanged(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		program Program
		long    bool
		run     func(*testing.T, *world, Built)
	}{
		{Sample, false, runSample},
		{AWS, false, runAWS},
		{Kubernetes, true, runKubernetes},
		{VSphere, true, runVSphere},
	} {
		t.Run(c.program.Name, func(t *testing.T) {
			if c.long && !*all && !*update {
				t.Skipf("%s has modules of its own to download and compile: make e2e", c.program.Name)
			}
			c.run(t, w, built(t, c.program, OurImport))
		})
	}
}

// fakeCloud are the flags of a program that has the library's fake provider.
var fakeCloud = []string{"--cloud-provider=fake", "--cluster-name=lab", "--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=true"}

func runSample(t *testing.T, w *world, b Built) {
	m := w.start(t, "sample", b.Program, nil, fakeCloud...)
	w.leads(t, m, "")
	m.hasStarted(t, "cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller", "node-route-controller")
	m.healthy(t)
	w.register(t, "sample-node", "10.244.7.0/24", "")
	node := w.initialised(t, "sample-node", "fake:///", "10.0.0.21")
	if got := node.Labels[corev1.LabelTopologyRegion]; got != "fake-1" {
		t.Errorf("the node is in region %q", got)
	}
	w.routed(t, "sample-node")
	if got := w.serve(t, "sample-service").IP; got != "192.0.2.1" {
		t.Errorf("the load balancer is at %q", got)
	}
	w.releases(t, m)
}

// healthy waits until the three paths answer 200.
func (m *manager) healthy(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		m.answers(t, path, http.StatusOK)
	}
}

// routed waits until the node is said to have a route.
func (w *world) routed(t *testing.T, name string) {
	t.Helper()
	poll.Eventually(t, "the route of "+name, func(ctx context.Context) error {
		node, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated" {
				return nil
			}
		}
		return errors.New("no condition says so")
	})
}

func runAWS(t *testing.T, w *world, b Built) {
	at, sim := ccmtest.Account(t, "10.0.0.21")
	m := w.start(t, "aws", b.Program, ccmtest.Environment(at, "aws"), "--cloud-provider=aws",
		"--cloud-config="+ccmtest.CloudConfig(t, at, w.dir), "--cluster-name="+cluster.Name, "--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=true",
		"--controllers=*,tagging", "--tags=owner=lab", "--resources=instance")
	w.leads(t, m, "")
	m.hasStarted(t, "cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller", "node-route-controller", "tagging")
	m.healthy(t)
	const name = "ip-10-0-0-21.ec2.internal"
	w.register(t, name, "10.244.8.0/24", "")
	node := w.initialised(t, name, "aws:///"+cluster.Region, "10.0.0.21")
	w.routed(t, name)
	if got := w.serve(t, "aws-service").Hostname; got == "" {
		t.Error("the load balancer has no name")
	}
	// The tagging controller needs the provider's own type.
	poll.Eventually(t, "the instance to be tagged", func(context.Context) error {
		instance, ok := sim.State().EC2.Instances[filepath.Base(node.Spec.ProviderID)]
		if !ok || instance.Tags["owner"] != "lab" {
			return errors.New("it has no such tag")
		}
		return nil
	})
	w.releases(t, m)
	if unknown := sim.Unknown(); len(unknown) > 0 {
		t.Errorf("the simulated cloud does not know %v", unknown)
	}
}

func runKubernetes(t *testing.T, w *world, b Built) {
	m := w.start(t, "kubernetes", b.Program, nil, append(fakeCloud, "--allocate-node-cidrs=true", "--node-cidr-mask-size=26")...)
	w.leads(t, m, "")
	m.hasStarted(t, "cloud-node-controller", "cloud-node-lifecycle-controller", "service-lb-controller", "node-route-controller", "node-ipam-controller")
	m.healthy(t)
	w.register(t, "kubernetes-node", "", "")
	w.initialised(t, "kubernetes-node", "fake:///", "10.0.0.21")
	w.routed(t, "kubernetes-node") // there is a route only if its own node IPAM controller has given the node a CIDR
	node, err := w.admin.CoreV1().Nodes().Get(t.Context(), "kubernetes-node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, cidr, err := net.ParseCIDR(node.Spec.PodCIDR); err != nil || cidr.Mask.String() != net.CIDRMask(26, 32).String() {
		t.Errorf("the node's pod CIDR is %q", node.Spec.PodCIDR)
	}
	if got := w.serve(t, "kubernetes-service").IP; got != "192.0.2.1" {
		t.Errorf("the load balancer is at %q", got)
	}
	w.releases(t, m)
}

func runVSphere(t *testing.T, w *world, b Built) {
	const uuid, name, address = "265104de-1472-547c-b873-6dc7883fb6cb", "vsphere-node", "10.0.0.23"
	at := freeAddress(t)
	vcenter, err := process.Start(process.Options{
		Name: "vcsim", Path: b.Tool, Dir: w.dir, Output: filepath.Join(w.dir, "vcsim.log"), Env: []string{"TMPDIR=" + w.dir},
		Args: []string{"-listen=" + at, "-host=" + name, "-address=" + address, "-uuid=" + uuid},
	})
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ShowLog(t, "vcsim", filepath.Join(w.dir, "vcsim.log"))
	t.Cleanup(vcenter.Kill)
	poll.Eventually(t, "vcsim to serve", func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		return c.Close()
	})
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(w.dir, "vsphere.yaml")
	write(t, config, "global:\n  insecureFlag: true\nvcenter:\n  lab:\n    server: "+host+"\n    port: "+port+
		"\n    user: lab\n    password: lab-only\n    datacenters: [DC0]\n")
	m := w.start(t, "vsphere", b.Program, nil, "--cloud-provider=vsphere", "--cloud-config="+config, "--cluster-name=lab")
	w.leads(t, m, "")
	m.hasStarted(t, "cloud-node-controller", "cloud-node-lifecycle-controller")
	m.healthy(t)
	w.register(t, name, "", uuid)
	w.initialised(t, name, "vsphere://"+uuid, address)
	w.terminate(t, m)
	// With either library its watch of files, which it closes as it ends, is sometimes taken for a change of a file: it then ends with 255.
	text := m.text(t)
	if code := m.ExitCode(); code != 0 && (code != 255 || !strings.Contains(text, "restarting pod because received event [no events]")) {
		t.Errorf("it ends with %d on SIGTERM", code)
	}
	if !strings.Contains(text, "logout: finished") {
		t.Error("what it does after app.Run has returned is not done: it has not logged out of vSphere")
	}
}

// The programs that `make test` does not build need the product's modules too. It says so when the product's change.
func TestRequirementsHoldWhatTheProductRequires(t *testing.T) {
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Program{Kubernetes, VSphere} {
		b := builder{Program: p, Options: Options{Root: root}, work: t.TempDir()}
		if err := b.writeRequirements(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.goCommand(t.Context(), "list", "-mod=readonly", "-m", "all"); err != nil {
			t.Errorf("%s: make its requirements again (in lab: go test ./mains -run Mains -mains.update): %v", p.Name, err)
		}
	}
}
