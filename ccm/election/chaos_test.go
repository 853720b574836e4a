package election_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// chaos is a world in which things go wrong, and the processes that run in it.
type chaos struct {
	*world
	pods    *pods
	random  *rand.Rand
	running []*process
	started int
}

func (c *chaos) replace(i int) {
	c.started++
	c.running[i] = c.start(fmt.Sprintf("p%d", c.started), both(), func(p *process, config *election.Config) {
		p.client.noWatch, p.busy = c.random.IntN(3) == 0, time.Duration(c.random.IntN(3))*time.Second
		if i > 0 { // the first one runs in no pod
			c.pods.testified(p, config)
		}
	})
}

// says has the kubelet of a process say that its container has ended, with the delay that it may have.
func (c *chaos) says(p *process) {
	restarted, lag := c.random.IntN(2) == 0, time.Duration(c.random.IntN(20_000))*time.Millisecond
	if pod := c.pods.pod("pod-" + p.name); pod != nil {
		time.AfterFunc(lag, func() { c.pods.put(ended(pod, testimony.Epitaph(p.name), restarted)) })
	}
}

// restart replaces the processes that have ended, as a kubelet does.
func (c *chaos) restart() {
	for i, p := range c.running {
		if len(p.done) > 0 {
			c.replace(i)
		}
	}
}

// What can happen to a process, or to what it depends on.
var accidents = map[string]func(c *chaos, i int){
	"it crashes": func(c *chaos, i int) {
		c.running[i].crash()
		c.says(c.running[i])
		c.running[i].gone()
		c.replace(i)
	},
	"its pod is deleted by force": func(c *chaos, i int) { c.pods.remove("pod-" + c.running[i].name) },
	"it is stopped, and its pod is deleted by force": func(c *chaos, i int) {
		c.running[i].client.stop()
		<-time.After(time.Duration(c.random.IntN(3)) * time.Second)
		c.pods.remove("pod-" + c.running[i].name)
		<-time.After(time.Duration(c.random.IntN(25)) * time.Second)
		c.running[i].client.goOn()
	},
	"its kubelet restarts, and knows its container again later": func(c *chaos, i int) {
		name := c.running[i].name
		if c.pods.pod("pod-"+name) == nil {
			return // it runs in none, or that was deleted
		}
		unknown := podOf("pod-"+name, "node-"+name)
		unknown.Status.ContainerStatuses = nil
		c.pods.put(unknown)
		<-time.After(time.Duration(c.random.IntN(10)) * time.Second)
		c.pods.put(podOf("pod-"+name, "node-"+name))
	},
	"its pod shows the end of a container before it": func(c *chaos, i int) {
		c.pods.put(ended(podOf("pod-"+c.running[i].name, "node-"+c.running[i].name), testimony.Epitaph("p0"), true))
	},
	"a pod of its name, on another node, says that it has ended": func(c *chaos, i int) {
		c.pods.put(ended(podOf("pod-"+c.running[i].name, "elsewhere"), testimony.Epitaph(c.running[i].name), false))
	},
	"it is told to end": func(c *chaos, i int) {
		c.running[i].stop()
		c.running[i].gone()
		c.replace(i)
	},
	"it is cut off": func(c *chaos, i int) {
		c.running[i].client.partition(true)
		<-time.After(time.Duration(c.random.IntN(25)) * time.Second)
		c.running[i].client.partition(false)
	},
	"it is suspended while it leads": func(c *chaos, i int) {
		if c.running[i].Leading(mainLease) {
			c.running[i].clock.suspend(time.Duration(c.random.IntN(30)) * time.Second)
		}
	},
	"its watches break": func(c *chaos, i int) { c.running[i].client.partition(false) },
	"answers are lost": func(c *chaos, _ int) {
		n := 0
		c.lose(func(string) bool { n++; return n%2 == 0 })
		<-time.After(time.Duration(c.random.IntN(8)) * time.Second)
		c.lose(nil)
	},
	"the API fails": func(c *chaos, _ int) {
		c.fail(fmt.Errorf("connection refused"))
		<-time.After(time.Duration(c.random.IntN(20)) * time.Second)
		c.fail(nil)
	},
	"somebody labels the lease": func(c *chaos, _ int) {
		if c.lease(mainLease) != nil {
			c.edit(mainLease, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"n": fmt.Sprint(c.random.Int())} })
		}
	},
	"somebody deletes the lease": func(c *chaos, _ int) {
		if c.lease(migrationLease) != nil {
			c.remove(migrationLease)
		}
	},
}

var seeds = flag.Uint64("seeds", 20, "how many courses of accidents are gone through; each has its number as its seed")

func TestWhateverHappensOneProcessWritesAtATimeAndSoonOneDoes(t *testing.T) {
	kinds := slices.Sorted(maps.Keys(accidents))
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(w *world) {
				c := &chaos{world: w, pods: newPods(), random: rand.New(rand.NewPCG(seed, 1)), running: make([]*process, 3)}
				for i := range c.running {
					c.replace(i)
				}
				for range 100 {
					<-time.After(time.Duration(c.random.IntN(20_000)) * time.Millisecond)
					accidents[kinds[c.random.IntN(len(kinds))]](c, c.random.IntN(len(c.running)))
					c.restart()
				}
				c.until("one leads both leases", 40*time.Second, func() bool {
					c.restart()
					for _, p := range c.running {
						if p.Leading(migrationLease) {
							return true
						}
					}
					return false
				})
				for _, p := range c.running {
					p.stop()
					p.gone()
				}
				<-time.After(time.Minute) // workers of who lost a lease end after it
			})
		})
	}
}
