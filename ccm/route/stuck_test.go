package route

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
)

// skyProvider is a provider that has the routes of a sky, and nothing else.
type skyProvider struct {
	cloud.Partial

	sky *sky
}

func (p skyProvider) Routes() (cloudprovider.Routes, bool) { return p.sky, true }

func (p skyProvider) ProviderName() string { return "sky" }

// guarded puts a guard in front of a sky.
func guarded(s *sky, o cloud.Options) settings {
	return func(c *Config) {
		c.Cloud = cloud.New(skyProvider{sky: s}, o).For(election.Unfenced(time.Now()))
		c.Options.ResyncPeriod = 100 * time.Hour
	}
}

// health is what the health check says within some time, asked every minute; nil if it never fails.
func (w *world) health(within time.Duration) error {
	for end := time.Now().Add(within); time.Now().Before(end); w.pass(time.Minute) {
		if err := w.c.HealthChecker().Check(nil); err != nil {
			return err
		}
	}
	return nil
}

func TestRoutesThatWaitForTheCallBudgetAreNotStuck(t *testing.T) {
	s := newSky()
	var nodes []*corev1.Node
	for i := range 20 { // the last waits for 33 minutes
		nodes = append(nodes, node(fmt.Sprintf("node-%02d", i), "", fmt.Sprintf("10.120.%d.0/24", i)))
	}
	inWorld(t, s, nodes, func(w *world) {
		if err := w.health(time.Hour); err != nil {
			t.Errorf("health says %v, while all wait for the budget", err)
		}
		if got := len(s.table()); got != 20 {
			t.Errorf("%d routes were made, want 20", got)
		}
	}, guarded(s, cloud.Options{MaxQPS: 0.01}))
}

func TestAListThatWaitsForTheCallBudgetIsNotStuck(t *testing.T) {
	s := newSky()
	var nodes []*corev1.Node
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprintf("node-%02d", i), "", fmt.Sprintf("10.120.%d.0/24", i)))
	}
	inWorld(t, s, nodes, func(w *world) {
		if err := w.health(3 * time.Hour); err != nil {
			t.Errorf("health says %v, while all wait for the budget", err)
		}
		if got := count(s.take(), "list"); got < 3 {
			t.Errorf("%d lists were made", got)
		}
	}, guarded(s, cloud.Options{MaxQPS: 0.01}), func(c *Config) { c.Options = NewOptions() })
}

func TestCallsForOneDestinationAreStuckEachByItself(t *testing.T) {
	s := newSky(to("node-0", "10.120.0.0/24"))
	s.latency = 8 * time.Minute
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
		if err := w.health(25 * time.Minute); err != nil {
			t.Errorf("health says %v, while no call takes longer than 8 minutes", err)
		}
		changes := slices.DeleteFunc(s.take(), func(call string) bool { return call == "list" })
		if diff := cmp.Diff([]string{"delete 10.120.0.0/24", "create 10.120.0.0/24 for node-1"}, changes); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}
