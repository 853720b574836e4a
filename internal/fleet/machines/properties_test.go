package machines

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// anything is a cluster as no one would make it: owners that are gone, nodes of two machines, figures that contradict each other.
func anything(r *rand.Rand) Facts {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	at := func() time.Time { return changed.Add(time.Duration(r.IntN(120)-60) * time.Minute) }
	name := func(kind string) string { return fmt.Sprint(kind, r.IntN(4)) }
	f := Facts{Time: changed.Add(time.Hour), CCMReady: r.IntN(4) > 0, Record: Record{Nodes: map[string]Sighting{}}}
	if r.IntN(4) > 0 {
		since := changed
		f.Record.ExternalSince = &since
	}
	if r.IntN(3) == 0 {
		f.Volumes = []Volume{{Driver: "d", Plugin: pick("", "p")}}
	}
	for i := range r.IntN(3) {
		f.Deployments = append(f.Deployments, Deployment{
			Namespace:          "kube-system",
			Name:               fmt.Sprint("md", i),
			UID:                fmt.Sprint("md", i),
			Replicas:           r.IntN(3),
			Updated:            r.IntN(3),
			Total:              r.IntN(3),
			Available:          r.IntN(3),
			Generation:         int64(r.IntN(2)),
			ObservedGeneration: int64(r.IntN(2)),
			Paused:             r.IntN(5) == 0,
			Deleting:           r.IntN(8) == 0,
			ForceRestart:       pick("", "1"),
		})
	}
	for i := range r.IntN(4) {
		f.Sets = append(
			f.Sets,
			MachineSet{
				Namespace: "kube-system",
				Name:      fmt.Sprint("set", i),
				UID:       fmt.Sprint("set", i),
				Owner:     pick("", name("md")),
				Created:   at(),
				Replicas:  r.IntN(2),
				Revision:  r.IntN(3),
			},
		)
	}
	for i := range r.IntN(4) {
		m := Machine{
			Namespace:  "kube-system",
			Name:       fmt.Sprint("m", i),
			UID:        fmt.Sprint("m", i),
			Created:    at(),
			Owner:      pick("", name("set")),
			External:   pick("", "true", "false"),
			NodeName:   pick("", name("n")),
			ProviderID: pick("", name("i")),
		}
		if r.IntN(4) == 0 {
			m.Deleting = at()
		}
		f.Machines = append(f.Machines, m)
	}
	for i := range r.IntN(4) {
		n := Node{
			Name: fmt.Sprint(
				"n",
				i,
			),
			UID:           fmt.Sprint("n", i),
			ProviderID:    pick("", name("i"), name("i")),
			Created:       at(),
			Ready:         r.IntN(4) > 0,
			Uninitialized: r.IntN(5) == 0,
			OwnedBy:       pick("", name("m")),
			ProviderIDBy:  pick("", "kubelet", "aws-cloud-controller-manager", "machine-controller"),
			Virtual:       r.IntN(10) == 0,
		}
		if r.IntN(2) == 0 {
			n.Drivers, n.Plugins = []string{"d"}, []string{pick("p", "q")}
		}
		f.Nodes = append(f.Nodes, n)
		if r.IntN(3) == 0 {
			f.Record.Nodes[n.UID] = Sighting{Tainted: r.IntN(2) == 0}
		}
	}
	return f
}

func TestWhateverIsThereWhatIsSaidOfItHolds(t *testing.T) {
	complete := 0
	for seed := range uint64(8_000) {
		f := anything(rand.New(rand.NewPCG(seed, 3)))
		o := Observe(f)
		if diff := cmp.Diff(anything(rand.New(rand.NewPCG(seed, 3))), f); diff != "" {
			t.Fatalf("seed %d: the facts were changed:\n%s", seed, diff)
		}
		if o.Total != o.Done+o.Waiting || o.Total != len(o.Machines) || o.Total < len(f.Machines) {
			t.Fatalf("seed %d: %d = %d + %d of %d machines", seed, o.Total, o.Done, o.Waiting, len(f.Machines))
		}
		nodes := map[string]bool{}
		for _, m := range o.Machines {
			if m.Migrated != (m.Reason == "") || !m.Migrated && m.Message == "" || m.Node != "" && nodes[m.Node] {
				t.Fatalf("seed %d: %+v", seed, m)
			}
			nodes[m.Node] = true
		}
		for _, n := range f.Nodes {
			if !n.Virtual && !nodes[n.Name] {
				t.Fatalf("seed %d: node %s is nobody's and not counted", seed, n.Name)
			}
		}
		if o.Complete {
			complete++
			provenComplete(t, seed, f)
		}
		if step := Next(f, o, Policy{}); step.Restart != nil || step.Pause != nil || step.Resume != nil {
			t.Fatalf("seed %d: nobody asked for %+v", seed, step)
		}
		one, two := Next(f, o, wanted), Next(f, o, wanted)
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatalf("seed %d: two answers to one question:\n%s", seed, diff)
		}
		if one.Restart != nil && (one.Restart.Paused || one.Restart.Deleting || !f.CCMReady || f.Record.ExternalSince == nil) {
			t.Fatalf("seed %d: %+v must not be restarted", seed, one.Restart)
		}
	}
	if complete < 20 {
		t.Errorf("only %d of the clusters are complete: that was hardly tried", complete)
	}
}

// provenComplete says of the facts themselves that a complete cluster has nothing in-tree, nothing that is down and nothing that is missing.
func provenComplete(t *testing.T, seed uint64, f Facts) {
	t.Helper()
	if !f.CCMReady || f.Record.ExternalSince == nil || len(f.Unknown) > 0 {
		t.Fatalf("seed %d: complete without its preconditions", seed)
	}
	for _, n := range f.Nodes {
		inTree := n.ProviderIDBy == "kubelet" && !f.Record.Nodes[n.UID].Tainted
		if !n.Virtual && (inTree || !n.Ready || n.Uninitialized || n.ProviderID == "") {
			t.Fatalf("seed %d: complete with %+v", seed, n)
		}
	}
	for _, d := range f.Deployments {
		if !d.Deleting && (d.ObservedGeneration < d.Generation || d.Updated != d.Replicas || d.Total != d.Replicas || d.Available != d.Replicas) {
			t.Fatalf("seed %d: complete with %+v", seed, d)
		}
	}
}
