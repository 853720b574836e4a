package machines

import "fmt"

// deployment judges a MachineDeployment, its machines already judged.
func (w *world) deployment(d Deployment, machines []MachineState) DeploymentState {
	s := DeploymentState{Namespace: d.Namespace, Name: d.Name, Wanted: d.Replicas}
	for _, m := range machines {
		if m.Deployment != d.Name || m.Namespace != d.Namespace || m.Deleting {
			continue
		}
		s.Machines++
		if m.Migrated {
			s.Done++
		}
	}
	s.Reason, s.Message = w.unsettled(d, s)
	s.Settled = s.Reason == ""
	if s.Settled && d.Replicas == 0 && w.oldTemplate(d) {
		s.Reason = OldTemplate
		s.Message = "wants no machine now; those that it makes one day would start from userdata of before the change: change its template first"
	}
	return s
}

// unsettled is why a rollout is not finished. What the status says is not enough: it is of the last look of machine-controller, which may be older than
// the deletion of a machine.
func (w *world) unsettled(d Deployment, s DeploymentState) (Reason, string) {
	switch {
	case d.Deleting:
		if s.Machines > 0 {
			return RolloutUnfinished, fmt.Sprintf("is being deleted and has %d machines left", s.Machines)
		}
		return "", ""
	case d.ObservedGeneration < d.Generation:
		return NotObserved, "was changed, and machine-controller has not looked at it since"
	case s.Machines < d.Replicas:
		return because(d, WantsMachines), fmt.Sprintf("wants %d machines and has %d", d.Replicas, s.Machines)
	case d.Updated != d.Replicas || d.Total != d.Replicas || d.Available != d.Replicas:
		return because(d, RolloutUnfinished), fmt.Sprintf("wants %d machines and has %d, of which %d are of its newest template and %d are available", d.Replicas, d.Total, d.Updated, d.Available)
	case s.Machines > d.Replicas:
		return because(d, RolloutUnfinished), fmt.Sprintf("wants %d machines and has %d", d.Replicas, s.Machines)
	}
	return "", ""
}

// because is the reason, or that somebody has stopped the rollout.
func because(d Deployment, r Reason) Reason {
	if d.Paused {
		return Paused
	}
	return r
}

// oldTemplate tells that the machines that a MachineDeployment makes next start from userdata of before the change.
func (w *world) oldTemplate(d Deployment) bool {
	s, since := w.newestOf[d.UID], w.Record.ExternalSince
	return s != nil && since != nil && s.Created.Before(*since)
}

// freeSets counts the MachineSets that no MachineDeployment owns, and tells whether each has its machines.
func (w *world) freeSets(o *Observation) bool {
	done := true
	for _, s := range w.Sets {
		if w.deployByUID[s.Owner] != nil || s.Deleting {
			continue
		}
		have := 0
		for _, m := range w.Machines {
			if m.Owner == s.UID && m.Deleting.IsZero() {
				have++
			}
		}
		o.Wanted += s.Replicas
		if have != s.Replicas {
			done = false
			o.Warnings = append(o.Warnings, fmt.Sprintf("MachineSet %s wants %d machines and has %d", s.Name, s.Replicas, have))
		}
	}
	return done
}
