package nodelifecycle

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// late is how long the cloud takes for an answer.
const late = 30 * time.Second

var longAgo = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// lateCloud is a guarded provider, and how many of its calls are made at once at most.
func lateCloud(fence *election.Fence, batch int, o cloud.Options) (*nodetest.Cloud, cloudprovider.Interface, func() int) {
	c, provider := lister(batch)
	if batch == 1 {
		provider = c
	}
	var mu sync.Mutex
	now, most := 0, 0
	c.Call = func(ctx context.Context, _ []*corev1.Node) error {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			now--
		}()
		select {
		case <-time.After(late):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c, cloud.New(provider, o).For(fence), func() int {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// TestACloudThatAnswersLateDelaysOnlyWhatItIsAskedFor: nodes are deleted when it has answered, those whose instance runs
// stay, and a node that is Ready again needs no answer.
func TestACloudThatAnswersLateDelaysOnlyWhatItIsAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		alive, batch int
		within       time.Duration
	}{"listed": {500, 1000, 3 * time.Minute}, "one by one": {6, 1, 6 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(append(many(test.alive, "alive"), many(2, "gone")...)...)
				_, provider, most := lateCloud(election.Unfenced(longAgo), test.batch, cloud.Options{})
				controller := start(t.Context(), t, api, provider, unlimited)
				pass(10 * time.Second)
				api.Put(nodeWith("back", is(corev1.ConditionTrue), withShutdownTaint))
				pass(6 * time.Second)
				if hasShutdownTaint(api.Node("back")) {
					t.Error("a node that is Ready again waits for answers about others")
				}
				if n := withPrefix(api, "gone"); n != 2 {
					t.Errorf("%d nodes were deleted before the cloud has answered", 2-n)
				}
				pass(test.within)
				if n := withPrefix(api, "gone"); n > 0 {
					t.Errorf("%d nodes are left", n)
				}
				pass(20 * time.Minute)
				if err := controller.HealthChecker().Check(nil); err != nil {
					t.Errorf("health: %v", err)
				}
				controller.stop()
				if n := withPrefix(api, "alive"); n != test.alive {
					t.Errorf("%d nodes are left of %d whose instance runs", n, test.alive)
				}
				if most() > max(groupsInFlight, 10) { // a call is a worker's where nodes are asked for one by one
					t.Errorf("%d calls were made at once", most())
				}
				if told := slices.DeleteFunc(reasons(api), func(r string) bool { return !strings.HasSuffix(r, ReadingInstanceFailed) }); len(told) > 0 {
					t.Errorf("though the cloud answers in time: %q", told)
				}
			})
		})
	}
}

// TestNoNodeIsDeletedWhileCallsTakeLongerThanTheirLimit, and users are told why.
func TestNoNodeIsDeletedWhileCallsTakeLongerThanTheirLimit(t *testing.T) {
	for name, batch := range map[string]int{"listed": 1000, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(append(many(10, "gone"), many(10, "alive")...)...)
				c, provider, most := lateCloud(election.Unfenced(longAgo), batch, cloud.Options{CallTimeout: 10 * time.Second})
				controller := start(t.Context(), t, api, provider, unlimited)
				pass(time.Hour)
				controller.stop()
				if n := len(api.Nodes()); n != 20 || len(api.Requests()) > 0 {
					t.Errorf("%d of 20 nodes are left, by %v", n, api.Requests())
				}
				events := strings.Join(api.Events(), "\n")
				for _, said := range []string{"gone0000: Warning " + ReadingInstanceFailed, "no answer within 10s"} {
					if !strings.Contains(events, said) {
						t.Errorf("no event says %q:\n%s", said, events)
					}
				}
				if n := len(api.Events()); n > 20 {
					t.Errorf("%d events for 20 nodes", n)
				}
				if n := len(c.Calls()); most() > max(groupsInFlight, 10) || n > 10*3600/10+20 {
					t.Errorf("%d calls, %d at once", n, most())
				}
			})
		})
	}
}

// TestNoNodeIsDeletedByAnAnswerThatComesAfterTheFenceClosed.
func TestNoNodeIsDeletedByAnAnswerThatComesAfterTheFenceClosed(t *testing.T) {
	for name, batch := range map[string]int{"listed": 1000, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(append(many(3, "gone"), nodeWith("parked"), nodeWith("alive", is(corev1.ConditionTrue)))...)
				fence := election.Unfenced(longAgo)
				c, provider, _ := lateCloud(fence, batch, cloud.Options{})
				client := api.Client(func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) })
				start(election.NewContext(t.Context(), fence), t, api, provider, unlimited, func(config *Config) { config.Client = client })
				for i := 0; len(c.Calls()) < 2; i++ { // the first answers have come, where nodes are listed
					if i > 600 {
						t.Fatal("the cloud was asked once in ten minutes")
					}
					pass(time.Second)
				}
				pass(late / 2)
				fence.Revoke("the test says so")
				calls, before := len(c.Calls()), len(api.Requests())
				pass(time.Hour)
				if n := withPrefix(api, "gone"); n != 3 || len(api.Requests()) > before || len(c.Calls()) > calls {
					t.Errorf("%d of 3 nodes are left; requests %v, calls %v", n, api.Requests(), c.Calls())
				}
			})
		})
	}
}
