package collect

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAGatheringWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Progress{}
		is := func(want Waits) {
			t.Helper()
			if diff := cmp.Diff(want, p.Waits(time.Now())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
		is(Waits{})
		pods := p.Ask("pods")
		p.AddHosts(3)
		<-time.After(2 * time.Second)
		second, first, third := p.ReadHost("worker-2"), p.ReadHost("worker-1"), p.ReadHost("cp-1")
		third()
		<-time.After(5 * time.Second)
		is(Waits{Read: 1, Hosts: 3, For: []string{"worker-1", "worker-2", "pods"}, Longest: 5 * time.Second})
		first()
		second()
		is(Waits{Read: 3, Hosts: 3, For: []string{"pods"}, Longest: 7 * time.Second})
		pods()
		is(Waits{Read: 3, Hosts: 3})
	})
}

func TestAGatheringThatNoneWatches(t *testing.T) {
	t.Parallel()
	var p *Progress
	p.AddHosts(1)
	p.ReadHost("cp-1")()
	p.Ask("pods")()
}
