package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	upstreamnode "k8s.io/cloud-provider/controllers/node"
	upstreamlifecycle "k8s.io/cloud-provider/controllers/nodelifecycle"
	upstreamroute "k8s.io/cloud-provider/controllers/route"
	upstreamservice "k8s.io/cloud-provider/controllers/service"
	fakecloud "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
	"github.com/transplant-dev/transplant/ccm/nodelifecycle"
	"github.com/transplant-dev/transplant/ccm/route"
	"github.com/transplant-dev/transplant/ccm/service"
)

// series is a metric as the registry knows it.
type series struct {
	Name      string    `json:"name"`
	Type      string    `json:"type"`
	Stability string    `json:"stability"`
	Labels    []string  `json:"labels"`
	Buckets   []float64 `json:"buckets"`
	Help      string    `json:"help"`
}

var (
	descOf = regexp.MustCompile(
		`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),(?: unit: "[^"]*",)? constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`,
	)
	stabilityOf = regexp.MustCompile(`^\[(ALPHA|BETA|STABLE|INTERNAL)\] `)
)

// registered lists what the registry serves, by name. A registry tells descriptions and not types: those are the collectors' Go types.
func registered(t *testing.T) map[string]series {
	t.Helper()
	all := map[string]series{}
	registry := legacyregistry.Registerer().(*prometheus.Registry)
	field := reflect.ValueOf(registry).Elem().FieldByName("collectorsByID")
	collectors := *(*map[uint64]prometheus.Collector)(unsafe.Pointer(field.UnsafeAddr()))
	for _, c := range collectors {
		descs := make(chan *prometheus.Desc, 1000)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			s := describe(t, d)
			s.Type, s.Buckets = kindOf(c, s.Name)
			all[s.Name] = s
		}
	}
	return all
}

func describe(t *testing.T, d *prometheus.Desc) series {
	t.Helper()
	parts := descOf.FindStringSubmatch(d.String())
	if parts == nil {
		t.Fatalf("a description that cannot be read: %s", d)
	}
	var s series
	if _, err := fmt.Sscanf(parts[1]+" "+parts[2], "%q %q", &s.Name, &s.Help); err != nil {
		t.Fatal(err)
	}
	if parts[3] != "" {
		s.Labels = strings.Split(parts[3], ",")
		slices.Sort(s.Labels)
	}
	if stability := stabilityOf.FindStringSubmatch(s.Help); stability != nil {
		s.Stability = stability[1]
		s.Help = strings.TrimPrefix(s.Help, stability[0])
	}
	return s
}

func kindOf(c prometheus.Collector, name string) (kind string, buckets []float64) {
	switch c := c.(type) {
	case *metrics.CounterVec, *metrics.Counter:
		return "counter", nil
	case *metrics.GaugeVec, *metrics.Gauge:
		return "gauge", nil
	case *metrics.HistogramVec:
		return "histogram", orDefault(c.Buckets)
	case *metrics.Histogram:
		return "histogram", orDefault(c.Buckets)
	}
	if strings.HasSuffix(name, "_total") { // collectors of other types, ours among them, keep to this
		return "counter", nil
	}
	return "gauge", nil
}

func orDefault(buckets []float64) []float64 {
	if buckets == nil {
		return prometheus.DefBuckets
	}
	return buckets
}

// link makes our controllers, elector and shell register what they have.
func link(t *testing.T) {
	t.Helper()
	client := fake.NewClientset()
	caches := informers.NewSharedInformerFactory(client, 0)
	nodes, provider := caches.Core().V1().Nodes(), &fakecloud.Cloud{EnableInstancesV2: true}
	controllersmetrics.Register()
	cloud.New(provider, cloud.NewOptions())
	made := []error{}
	_, err := newCommand()
	made = append(made, err)
	_, err = kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"}) // the metrics of clients are registered with the first one
	made = append(made, err)
	note := func(_ any, err error) { made = append(made, err) }
	note(
		election.New(
			election.Config{
				Identity:      "x",
				Client:        client.CoordinationV1(),
				LeaseDuration: 15 * time.Second,
				RenewDeadline: 10 * time.Second,
				RetryPeriod:   2 * time.Second,
			},
		),
	)
	note(node.New(node.Config{Client: client, Cloud: provider, Nodes: nodes, StatusUpdateFrequency: time.Minute, Workers: 1, Options: node.NewOptions()}))
	note(
		nodelifecycle.New(
			nodelifecycle.Config{Client: client, Cloud: provider, Nodes: nodes, MonitorPeriod: time.Minute, Workers: 1, Options: nodelifecycle.NewOptions()},
		),
	)
	note(route.New(route.Config{Client: client, Cloud: provider, Nodes: nodes, ClusterCIDR: "10.0.0.0/8", Options: route.NewOptions()}))
	note(
		service.New(
			service.Config{Client: client, Cloud: provider, Nodes: nodes, Services: caches.Core().V1().Services(), Workers: 1, Options: service.NewOptions()},
		),
	)
	note(nodeipam.New(nodeipam.Config{Client: client, Nodes: nodes, ClusterCIDR: "10.0.0.0/8", Options: nodeipam.NewOptions()}))
	for _, err := range made {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// upstreams is the environment variable that makes TestOursAreUpstreamsToo a process that links upstream's controllers instead of ours: the names are
// the same, and one registry takes each once.
const upstreams = "REGISTER_UPSTREAMS"

// linkUpstream makes upstream's controllers register what they have.
func linkUpstream(t *testing.T) {
	t.Helper()
	client := kubernetes.Interface(fake.NewClientset())
	caches := informers.NewSharedInformerFactory(client, 0)
	nodes, provider := caches.Core().V1().Nodes(), &fakecloud.Cloud{EnableInstancesV2: true}
	if _, err := upstreamnode.NewCloudNodeController(nodes, client, provider, time.Minute, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := upstreamlifecycle.NewCloudNodeLifecycleController(nodes, client, provider, time.Minute, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := upstreamservice.New(provider, client, caches.Core().V1().Services(), nodes, "c", utilfeature.DefaultFeatureGate); err != nil {
		t.Fatal(err)
	}
	if _, err := upstreamroute.New(provider, client, nodes, "c", []*net.IPNet{{IP: net.IPv4(10, 0, 0, 0), Mask: net.CIDRMask(8, 32)}}); err != nil {
		t.Fatal(err)
	}
	controllersmetrics.Register()
}

// bothSets is the environment variable that makes TestBothSetsOfControllersStart a process that has both sets, in the order that it names.
const bothSets = "REGISTER_BOTH"

// An author may run a controller of upstream's next to ours. The registry takes a name once, and upstream panics over one that is taken.
func TestBothSetsOfControllersStart(t *testing.T) {
	switch os.Getenv(bothSets) {
	case "ours first":
		link(t)
		linkUpstream(t)
		return
	case "upstream's first":
		linkUpstream(t)
		link(t)
		return
	}
	for _, order := range []string{"ours first", "upstream's first"} {
		t.Run(order, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBothSetsOfControllersStart$")
			command.Env = append(os.Environ(), bothSets+"="+order)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("a program with both does not start: %v\n%s", err, out)
			}
		})
	}
}

func TestOursAreUpstreamsToo(t *testing.T) {
	if os.Getenv(upstreams) != "" {
		linkUpstream(t)
		if err := json.NewEncoder(os.Stdout).Encode(registered(t)); err != nil {
			t.Fatal(err)
		}
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOursAreUpstreamsToo$")
	command.Env = append(os.Environ(), upstreams+"=1")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("registering upstream's metrics: %v: %s", err, out)
	}
	var theirs map[string]series
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	link(t)
	ours := registered(t)
	for name, want := range theirs {
		got, there := ours[name]
		want.Help, got.Help = "", "" // in our words
		if diff := cmp.Diff(want, got); !there || diff != "" {
			t.Errorf("%s (-upstream +ours):\n%s", name, diff)
		}
	}
}
