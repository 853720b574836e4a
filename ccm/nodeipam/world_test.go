package nodeipam

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // requests fail here by the hundred
	goleak.VerifyTestMain(m)
}

// manager is one process: a controller with a fence and a connection of its own.
type manager struct {
	c     *Controller
	fence *election.Fence
	stop  context.CancelFunc
	done  chan struct{}
	end   func()
}

type settings func(*Config)

func clusterCIDR(cidr string) settings { return func(c *Config) { c.ClusterCIDR = cidr } }

// start starts a manager and waits until it has nothing to do, which is not the case if its requests are held up.
func start(t *testing.T, a *api, f func(*http.Request) fault, change ...settings) *manager {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := a.client(f)
	factory := informers.NewSharedInformerFactory(client, 0)
	config := Config{Client: client, Nodes: factory.Core().V1().Nodes(), ClusterCIDR: "10.0.0.0/16", Options: NewOptions()}
	for _, f := range change {
		f(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	informing, stopInforming := context.WithCancel(t.Context())
	factory.Start(informing.Done())
	m := &manager{c: c, fence: election.Unfenced(time.Now()), stop: cancel, done: make(chan struct{})}
	m.end = func() {
		cancel()
		<-m.done
		stopInforming()
		factory.Shutdown()
	}
	go func() {
		defer close(m.done)
		c.Run(election.NewContext(ctx, m.fence))
	}()
	pass(time.Second) // waiting for caches is polling
	return m
}

// crash is what a frozen process looks like to the others: it does nothing more, but what it has sent may arrive later.
func (m *manager) crash() {
	m.fence.Revoke("frozen")
	m.end()
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
