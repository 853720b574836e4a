package machines

import (
	"fmt"
	"testing"
	"time"
)

// crowd is a user cluster of n machines, each with a MachineDeployment of its own whose restart has begun: an owner of a
// user cluster may have that, and the operator judges it in every look.
func crowd(n int) Facts {
	since := changed
	f := Facts{
		Time: changed.Add(time.Minute), CCMReady: true,
		Record: Record{ExternalSince: &since, Restart: Restart{Began: map[string]Begun{}}},
	}
	for i := range n {
		name := fmt.Sprintf("pool-%05d", i)
		f.Deployments = append(f.Deployments, Deployment{
			Namespace: "kube-system", Name: name, UID: name, Generation: 1, ObservedGeneration: 1,
			Replicas: 1, Total: 1, Updated: 1, Available: 1, ForceRestart: "1",
		})
		f.Sets = append(f.Sets,
			MachineSet{Namespace: "kube-system", Name: name, UID: name + "-set", Owner: name, Created: before, Revision: 1},
			MachineSet{Namespace: "kube-system", Name: name + "-free", UID: name + "-free", Created: before},
		)
		f.Machines = append(f.Machines, Machine{Namespace: "kube-system", Name: name, UID: name, Owner: name + "-set", Created: before})
		f.Nodes = append(f.Nodes, Node{Name: name, UID: name, OwnedBy: name, Created: before, Ready: true, ProviderID: "x", ProviderIDBy: kubeletManager})
		f.Record.Restart.Began["kube-system/"+name] = Begun{At: changed, Value: "1", Moved: changed}
	}
	return f
}

// TestACrowdIsJudged: what is looked up in maps is what was looked for in lists before.
func TestACrowdIsJudged(t *testing.T) {
	const n = 500
	f := crowd(n)
	o := Observe(f)
	if o.Total != n || o.Done != 0 || o.Wanted != n || len(o.Deployments) != n {
		t.Fatalf("%d machines, %d done, %d wanted, %d MachineDeployments", o.Total, o.Done, o.Wanted, len(o.Deployments))
	}
	for _, d := range o.Deployments {
		if d.Machines != 1 || d.Done != 0 || !d.Settled {
			t.Fatalf("%+v", d)
		}
	}
	s := Next(f, o, Policy{Wanted: true})
	want := "MachineDeployment pool-00000 is being restarted: 0 of 1 machines run external"
	if s.Waiting != want || !s.Rolling || len(s.Record.Began) != n {
		t.Errorf("waits for %q with %d begun", s.Waiting, len(s.Record.Began))
	}
	if b := s.Record.Began["kube-system/pool-00499"]; b.Progress != "0/1-0,1,1" {
		t.Errorf("the last one's progress is %q", b.Progress)
	}
	f.Deployments = f.Deployments[:n-1]
	if s := Next(f, Observe(f), Policy{Wanted: true}); len(s.Record.Began) != n-1 {
		t.Errorf("%d are begun of %d that are left", len(s.Record.Began), n-1)
	}
}

// BenchmarkACrowd shows that a machine of many costs what one of few does.
func BenchmarkACrowd(b *testing.B) {
	for _, n := range []int{100, 1_000, maxObjects} {
		f := crowd(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Next(f, Observe(f), Policy{Wanted: true})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/machine")
		})
	}
}
