package machines

import (
	"fmt"
	"time"
)

// stopped is the step while a regression stands; false when there is none any longer.
func (n *next) stopped() (Step, bool) {
	s := n.record.Stopped
	if s == nil {
		return Step{}, false
	}
	d := n.alive[s.Deployment]
	if d == nil || s.Released || n.isRepaired(*s, *d) {
		return n.goOn(d)
	}
	out := Step{
		Record:  n.record,
		Stopped: s,
		Waiting: fmt.Sprintf(
			"stopped at MachineDeployment %s: %s: fix it, then take the annotation off and put it on again",
			d.Name,
			s.Reason,
		),
	}
	if s.Paused && !d.Paused && n.Time.Sub(s.At) < repause {
		out.Pause = d
	}
	return out, true
}

// goOn forgets a regression. The rollout that was paused for it goes on, with all the time that it had in the
// beginning.
func (n *next) goOn(d *Deployment) (Step, bool) {
	paused := n.record.Stopped.Paused
	n.record.Stopped = nil
	if d == nil {
		return Step{}, false
	}
	b := n.record.Began[key(*d)]
	b.Moved, b.Again = n.now(), n.now()
	n.record.Began[key(*d)] = b
	if paused && d.Paused {
		return Step{
			Record:  n.record,
			Rolling: true,
			Resume:  d,
			Waiting: "MachineDeployment " + d.Name + " has to go on",
		}, true
	}
	return Step{}, false
}

// isRepaired reports whether what stopped the restart is over by itself: the machine came after all, or the rollout
// moved.
func (n *next) isRepaired(s Stopped, d Deployment) bool {
	if s.Machine == "" {
		return n.record.Began[key(d)].Moved.After(s.At)
	}
	for _, m := range n.o.Machines {
		if m.Name == s.Machine && m.Namespace == d.Namespace {
			return m.Migrated
		}
	}
	return false
}

// stop notes a regression and pauses the rollout that shows it, unless nothing of it is left to do.
func (n *next) stop(s Stopped) Step {
	d := n.alive[s.Deployment]
	s.Paused = s.Machine != "" && !d.Paused && !n.state(*d).Settled
	n.record.Stopped = &s
	out := Step{
		Record:  n.record,
		Stopped: &s,
		Waiting: fmt.Sprintf("stopped at MachineDeployment %s: %s", d.Name, s.Reason),
	}
	if s.Paused {
		out.Pause = d
	}
	return out
}

// regression is why nothing more may be restarted; nil while all goes well.
func (n *next) regression() *Stopped {
	states := map[string]MachineState{}
	for _, s := range n.o.Machines {
		states[s.Namespace+"/"+s.Name] = s
	}
	for _, d := range n.restarting() {
		set := n.newestOf[d.UID]
		for _, m := range n.machinesOf[d.UID] {
			if set == nil || m.Owner != set.UID || !m.Deleting.IsZero() || n.hasOldTemplate(d) {
				continue
			}
			if why := n.wrong(m, states[m.Namespace+"/"+m.Name], n.record.Began[key(d)]); why != "" {
				return &Stopped{
					Deployment: key(d),
					Machine:    m.Name,
					Reason:     "new machine " + m.Name + " " + why,
					At:         n.now(),
				}
			}
		}
		if b := n.record.Began[key(d)]; !n.isDeploymentDone(d) && n.Time.Sub(b.Moved) > n.timeout {
			return &Stopped{Deployment: key(d), Reason: n.stall(d, states, b), At: n.now()}
		}
	}
	return nil
}

// wrong is what is wrong with a new machine, a clause; empty when nothing is yet.
func (n *next) wrong(m Machine, s MachineState, b Begun) string {
	node := n.nodeOf[m.UID]
	since := later(m.Created, b.Again)
	switch s.Reason {
	case InTree, AnnotationContradicted, OldUserdata, AnnotationMissing:
		return "came up and is not external: " + s.Message
	case NodeNotReady:
		if node != nil {
			since = later(since, node.NotReadySince)
		}
	case NoNode, NoProviderID, Uninitialized:
	default:
		return ""
	}
	if n.Time.Sub(since) <= n.timeout {
		return ""
	}
	return fmt.Sprintf("does not work after %s: %s", n.timeout, s.Message)
}

// stall says what a rollout hangs on.
func (n *next) stall(d Deployment, states map[string]MachineState, b Begun) string {
	since := b.Moved.UTC().Format("15:04:05")
	for _, m := range n.machinesOf[d.UID] {
		if !m.Deleting.IsZero() {
			return fmt.Sprintf(
				"nothing has moved since %s; machine %s is being deleted: a PodDisruptionBudget or a finalizer may hold it",
				since,
				m.Name,
			)
		}
	}
	for _, m := range n.machinesOf[d.UID] {
		if s := states[m.Namespace+"/"+m.Name]; !s.Migrated {
			return fmt.Sprintf("nothing has moved since %s; machine %s %s", since, m.Name, s.Message)
		}
	}
	return fmt.Sprintf("nothing has moved since %s: %s", since, n.state(d).Message)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
