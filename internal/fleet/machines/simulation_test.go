package machines

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// simulation is a user cluster with a machine-controller in it, as far as restarts are concerned. Every tick is a minute.
type simulation struct {
	facts Facts
	rand  *rand.Rand
	// inTree are MachineDeployments whose new machines are in-tree nevertheless; dead those whose new machines never get a node.
	inTree, dead map[string]bool
	serial       int
	// started are the MachineDeployments in the order of their restarts.
	started []string
	// most machines that were missing at any moment.
	most int
}

func simulate(seed uint64, deployments ...Deployment) *simulation {
	since := changed
	s := &simulation{
		rand: rand.New(rand.NewPCG(seed, 1)), inTree: map[string]bool{}, dead: map[string]bool{},
		facts: Facts{Time: changed.Add(time.Minute), CCMReady: true, Record: Record{ExternalSince: &since}},
	}
	for _, d := range deployments {
		d.Namespace, d.UID, d.Generation, d.ObservedGeneration = "kube-system", d.Name, 1, 1
		s.facts.Deployments = append(s.facts.Deployments, d)
		s.facts.Sets = append(s.facts.Sets, MachineSet{Namespace: "kube-system", Name: d.Name + "-1", UID: d.Name + "-1", Owner: d.UID, Created: before, Revision: 1})
		for range d.Replicas {
			s.create(d, d.Name+"-1", before, false)
		}
	}
	for i := range s.facts.Nodes {
		s.facts.Nodes[i].Ready, s.facts.Nodes[i].Uninitialized, s.facts.Nodes[i].ProviderID, s.facts.Nodes[i].ProviderIDBy = true, false, "x", "kubelet"
	}
	s.tick()
	return s
}

func (s *simulation) create(d Deployment, set string, at time.Time, external bool) {
	s.serial++
	name := fmt.Sprintf("%s-%d", d.Name, s.serial)
	s.facts.Machines = append(s.facts.Machines, Machine{Namespace: "kube-system", Name: name, UID: name, Owner: set, Created: at, External: fmt.Sprint(external)})
	if external && s.dead[d.Name] {
		return
	}
	n := Node{Name: name, UID: name, OwnedBy: name, Created: at}
	if external && !s.inTree[d.Name] {
		n.Uninitialized, n.ProviderIDBy = true, "aws-cloud-controller-manager"
	} else {
		n.ProviderIDBy = "kubelet"
	}
	s.facts.Nodes = append(s.facts.Nodes, n)
}

// tick lets a minute pass: nodes come up, machine-controller rolls.
func (s *simulation) tick() {
	s.facts.Time = s.facts.Time.Add(time.Minute)
	for i := range s.facts.Nodes {
		if n := &s.facts.Nodes[i]; !n.Ready && s.rand.IntN(2) == 0 {
			n.Ready, n.Uninitialized, n.ProviderID = true, false, "x"
		}
	}
	for i := range s.facts.Deployments {
		s.roll(&s.facts.Deployments[i])
	}
	s.most = max(s.most, s.missing())
}

func (s *simulation) of(d Deployment, newest bool) (all []Machine, works int) {
	set := newLiveObjects(s.facts).newestOf[d.UID]
	for _, m := range s.facts.Machines {
		owner := slices.IndexFunc(s.facts.Sets, func(x MachineSet) bool { return x.UID == m.Owner && x.Owner == d.UID })
		if owner < 0 || newest != (s.facts.Sets[owner].UID == set.UID) {
			continue
		}
		all = append(all, m)
		if slices.ContainsFunc(s.facts.Nodes, func(n Node) bool { return n.OwnedBy == m.UID && n.Ready }) {
			works++
		}
	}
	return all, works
}

// roll is one pass of machine-controller over a MachineDeployment.
func (s *simulation) roll(d *Deployment) {
	newest := newLiveObjects(s.facts).newestOf[d.UID]
	if !d.Paused && d.ForceRestart != "" && newest.Revision == 1 {
		newest = &MachineSet{Namespace: d.Namespace, Name: d.Name + "-2", UID: d.Name + "-2", Owner: d.UID, Created: s.facts.Time, Revision: 2}
		s.facts.Sets = append(s.facts.Sets, *newest)
	}
	olds, oldWorks := s.of(*d, false)
	news, newWorks := s.of(*d, true)
	if !d.Paused {
		surge := 1
		if d.MaxSurge != nil {
			surge = resolve(*d.MaxSurge, d.Replicas, true)
		}
		out := unavailable(*d)
		for range min(d.Replicas-len(news), d.Replicas+surge-len(olds)-len(news)) {
			s.create(*d, newest.UID, s.facts.Time, newest.Revision == 2)
		}
		for i := 0; i < len(olds) && oldWorks+newWorks > d.Replicas-out; i++ {
			s.remove(olds[i].UID)
			oldWorks--
		}
		olds, oldWorks = s.of(*d, false)
		news, newWorks = s.of(*d, true)
	}
	d.ObservedGeneration = d.Generation
	d.Total, d.Updated, d.Available, d.Ready = len(olds)+len(news), len(news), oldWorks+newWorks, oldWorks+newWorks
}

func (s *simulation) remove(uid string) {
	s.facts.Machines = slices.DeleteFunc(s.facts.Machines, func(m Machine) bool { return m.UID == uid })
	s.facts.Nodes = slices.DeleteFunc(s.facts.Nodes, func(n Node) bool { return n.UID == uid })
}

func (s *simulation) missing() int {
	out := 0
	for _, d := range s.facts.Deployments {
		_, oldWorks := s.of(d, false)
		_, newWorks := s.of(d, true)
		out += max(0, d.Replicas-oldWorks-newWorks)
	}
	return out
}

// pass does what Next allows.
func (s *simulation) pass(p Policy) (Observation, Step) {
	o := Observe(s.facts)
	step := Next(s.facts, o, p)
	s.facts.Record.Restart = step.Record
	for i := range s.facts.Deployments {
		d := &s.facts.Deployments[i]
		switch {
		case step.Restart != nil && step.Restart.UID == d.UID:
			if d.ForceRestart == "" {
				s.started = append(s.started, d.Name)
			}
			d.ForceRestart = step.Value
			d.Generation++
		case step.Pause != nil && step.Pause.UID == d.UID:
			d.Paused = true
			d.Generation++
		case step.Resume != nil && step.Resume.UID == d.UID:
			d.Paused = false
			d.Generation++
		}
	}
	return o, step
}

// run passes and ticks until nothing is left to do, or for so many minutes.
func (s *simulation) run(p Policy, minutes int) (Observation, Step) {
	for range minutes {
		o, step := s.pass(p)
		if step.Done && o.Complete {
			return o, step
		}
		s.tick()
	}
	return s.pass(p)
}

func md(name string, replicas int, more ...string) Deployment {
	d := Deployment{Name: name, Replicas: replicas}
	for i, v := range more {
		value := intstr.Parse(v)
		if i == 0 {
			d.MaxUnavailable = &value
		} else {
			d.MaxSurge = &value
		}
	}
	return d
}
