package route

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

func TestCallsBeingMadeAtTheEndAreFinishedAndNoOthersBegun(t *testing.T) {
	s := newSky()
	s.latency = 3 * time.Second
	s.fail = failCreates
	nodes := []*corev1.Node{node("node-1", "", "10.120.0.0/24")}
	inWorld(t, s, nodes, func(w *world) {
		w.pass(4 * time.Second) // one second into the create
		w.stop()
		begun := time.Now()
		<-w.done
		if took := time.Since(begun); took < time.Second || took > 3*time.Second {
			t.Errorf("drained in %s, want the rest of the create", took)
		}
		w.pass(time.Hour)
		if diff := cmp.Diff([]string{"list", "create 10.120.0.0/24 for node-1"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestNothingIsRetriedNorToldOnceTheFenceIsClosed(t *testing.T) {
	unguarded := func(s *sky, _ *election.Fence) cloudprovider.Interface { return s }
	closedInFlight(t, unguarded, 3*time.Second, 4*time.Second, time.Minute)
}

// closedInFlight closes the fence while a route is being made. Neither the cloud nor the cluster is told anything more.
func closedInFlight(t *testing.T, of func(*sky, *election.Fence) cloudprovider.Interface, latency, inFlight, after time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, client := newSky(), fake.NewClientset(node("node-1", "", "10.120.0.0/24"))
		s.latency = latency
		fence := election.Unfenced(time.Now())
		factory := informers.NewSharedInformerFactory(client, 0)
		c, err := New(
			Config{Client: client, Cloud: of(s, fence), Nodes: factory.Core().V1().Nodes(), ClusterName: "my-k8s", ClusterCIDR: "10.120.0.0/16", Options: NewOptions()},
		)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		synctest.Wait()
		client.ClearActions()
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(election.NewContext(ctx, fence))
		}()
		<-time.After(inFlight)
		fence.Revoke("another holder was seen")
		<-time.After(after)
		cancel()
		<-done
		if diff := cmp.Diff([]string{"list", "create 10.120.0.0/24 for node-1"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got := client.Actions(); len(got) != 0 {
			t.Errorf("the cluster was told: %v", got)
		}
		factory.Shutdown()
	})
}

// bare is a provider without routes.
type bare struct{ cloudprovider.Interface }

func (bare) Routes() (cloudprovider.Routes, bool) { return nil, false }

func TestAWrongSettingIsRefusedWithTheNameOfItsFlag(t *testing.T) {
	nodes := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes()
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no cluster CIDR", func(c *Config) { c.ClusterCIDR = " " }, "--cluster-cidr is empty"},
		{"garbage", func(c *Config) { c.ClusterCIDR = "10.0.0.0" }, `parsing --cluster-cidr "10.0.0.0"`},
		{"three ranges", func(c *Config) { c.ClusterCIDR = "10.0.0.0/8,fd00::/8,11.0.0.0/8" }, "two are the most"},
		{"two ranges of one family", func(c *Config) { c.ClusterCIDR = "10.0.0.0/8,11.0.0.0/8" }, "one of each"},
		{"no resync", func(c *Config) { c.Options.ResyncPeriod = 0 }, "--route-resync-period is 0s"},
		{"a negative period", func(c *Config) { c.ReconciliationPeriod = -time.Second }, "--route-reconciliation-period is -1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := Config{Cloud: newSky(), Nodes: nodes, ClusterCIDR: "10.0.0.0/8", Options: NewOptions()}
			test.change(&config)
			if _, err := New(config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := New(Config{Cloud: bare{}, Nodes: nodes, Options: NewOptions()}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a provider without routes: %v", err)
	}
}

func TestTheResyncPeriodHasAFlag(t *testing.T) {
	options, fs := NewOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(fs)
	if err := fs.Parse([]string{"--route-resync-period=3m"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Options{ResyncPeriod: 3 * time.Minute}, options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func FuzzClusterCIDRs(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8", "10.0.0.0/8,fd00::/8", "::/0", "1.2.3.4", ",", "10.0.0.0/8,", "fd00::/129"} {
		f.Add(seed, "10.0.0.0/24")
	}
	f.Fuzz(func(t *testing.T, value, route string) {
		cidrs, err := ClusterCIDRs(value)
		if err != nil {
			if len(cidrs) != 0 || !strings.Contains(err.Error(), "--cluster-cidr") {
				t.Errorf("%q: %v and %v", value, cidrs, err)
			}
			return
		}
		if len(cidrs) < 1 || len(cidrs) > 2 {
			t.Errorf("%q: %d ranges", value, len(cidrs))
		}
		ownsRoute(cidrs, &cloudprovider.Route{DestinationCIDR: route})
		if d := destinationOf(route); destinationOf(string(d)) != d {
			t.Errorf("%q has two spellings: %q, %q", route, d, destinationOf(string(d)))
		}
	})
}
