package machines

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Policy is how MachineDeployments are restarted.
type Policy struct {
	// Wanted reports whether the cluster's owner asks for it (AnnotationRestartMachines). Nothing is restarted otherwise,
	// and a restart that stopped is forgotten. To try again, remove the annotation and set it again.
	Wanted bool
	// Hold is why no further MachineDeployment may be begun now, a sentence; empty when one may. What was begun is seen to
	// its end, or stopped.
	Hold string
	// MaxUnavailable is how many machines of the cluster may be missing: a number or a percentage (rounded down, at least
	// 1); empty means 1.
	MaxUnavailable string
	// Timeout is how long a MachineDeployment may be without progress, and a new machine without a node that works;
	// default 20 minutes.
	Timeout time.Duration
}

// Step is what Next allows to do now: at most one thing.
type Step struct {
	// Restart is the MachineDeployment to restart, and Value what its annotation forceRestart becomes; nil for none.
	Restart *Deployment
	Value   string
	// Pause is the MachineDeployment whose rollout has to be stopped; Resume one that we stopped and that may go on.
	Pause, Resume *Deployment
	// Record is what has to be remembered of the restart from now on, before anything is done.
	Record Restart
	// Waiting says what is waited for, a sentence; empty when there is nothing to wait for.
	Waiting string
	// Stopped is why nothing is restarted any longer.
	Stopped *Stopped
	// Rolling reports whether machines are being replaced: a MachineDeployment was begun, and is neither over nor stopped.
	Rolling bool
	// Done reports whether no MachineDeployment has to be restarted.
	Done bool
}

// Restarter looks at the machines of a cluster and restarts MachineDeployments, one call at a time.
type Restarter struct {
	Looker
	Policy Policy
}

// Pass is what one call of Restarter found and did.
type Pass struct {
	Observation
	// Did is what was changed, a sentence for an event; empty when nothing was.
	Did string
	// Waiting is what is waited for before the next change, a sentence; empty when nothing is.
	Waiting string
	// Stopped is the regression that ended the restart; nil while there is none.
	Stopped *Stopped
	// Rolling reports whether machines are being replaced.
	Rolling bool
	// Restarted reports whether no MachineDeployment is left to restart.
	Restarted bool
}

// Pass looks, and does at most one of what Next allows. What is begun is remembered before it is done. So an
// interrupted pass is repeated with the same value and changes nothing twice.
func (r Restarter) Pass(ctx context.Context) (Pass, error) {
	f, o, version, err := r.readAll(ctx)
	if err != nil {
		return Pass{}, err
	}
	s := Next(f, o, r.Policy)
	p := Pass{
		Observation: o,
		Waiting:     s.Waiting,
		Stopped:     s.Stopped,
		Rolling:     s.Rolling,
		Restarted:   s.Done,
	}
	after := f.Record.clone()
	after.Restart = s.Record
	if _, err := r.Store.Save(ctx, after, f.Record, version); err != nil {
		return p, err
	}
	p.Did, err = r.applyStep(ctx, s)
	return p, err
}

func (r Restarter) applyStep(ctx context.Context, s Step) (string, error) {
	switch {
	case s.Pause != nil:
		return "paused MachineDeployment " + s.Pause.Name + ": " + s.Stopped.Reason, r.patch(ctx, *s.Pause, `"paused":true`)
	case s.Resume != nil:
		return "resumed MachineDeployment " + s.Resume.Name, r.patch(ctx, *s.Resume, `"paused":false`)
	case s.Restart != nil:
		return "restarted MachineDeployment " + s.Restart.Name,
			r.patch(
				ctx,
				*s.Restart,
				fmt.Sprintf(`"template":{"metadata":{"annotations":{%q:%q}}}`, kubermatic.ForceRestart, s.Value),
			)
	}
	return "", nil
}

// patch changes the spec of the MachineDeployment that was looked at, and no other version of it.
func (r Restarter) patch(ctx context.Context, d Deployment, spec string) error {
	body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{%s}}`, d.ResourceVersion, spec)
	_, err := r.Dynamic.Resource(DeploymentsResource).
		Namespace(d.Namespace).
		Patch(ctx, d.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "transplant"})
	if err != nil {
		return fmt.Errorf("changing MachineDeployment %s/%s of cluster %s: %w", d.Namespace, d.Name, r.Name, err)
	}
	return nil
}

// counts is how many machines a MachineDeployment has that are not being deleted, and how many of them are migrated.
type counts struct{ machines, done int }

// countByDeployment counts judged machines once for all MachineDeployments, by namespace/name. A user cluster may have
// thousands of both, and the operator judges every cluster again and again.
func countByDeployment(machines []MachineState) map[string]counts {
	out := map[string]counts{}
	for _, m := range machines {
		if m.Deployment == "" || m.Deleting {
			continue
		}
		k := m.Namespace + "/" + m.Deployment
		c := out[k]
		c.machines++
		if m.Migrated {
			c.done++
		}
		out[k] = c
	}
	return out
}

// deployment judges a MachineDeployment, its machines already judged and counted.
func (w *liveObjects) deployment(d Deployment, has counts) DeploymentState {
	s := DeploymentState{
		Namespace: d.Namespace,
		Name:      d.Name,
		Wanted:    d.Replicas,
		Machines:  has.machines,
		Done:      has.done,
	}
	s.Reason, s.Message = w.unsettled(d, s)
	s.Settled = s.Reason == ""
	if s.Settled && d.Replicas == 0 && w.hasOldTemplate(d) {
		s.Reason = OldTemplate
		s.Message = "wants no machine now; those that it makes one day would start from userdata of before the change: change its template first"
	}
	return s
}

// unsettled is why a rollout is not finished. What the status says is not enough: it is of the last look of
// machine-controller, which may be older than the deletion of a machine.
func (w *liveObjects) unsettled(d Deployment, s DeploymentState) (Reason, string) {
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
		return because(
				d,
				RolloutUnfinished,
			), fmt.Sprintf(
				"wants %d machines and has %d, of which %d are of its newest template and %d are available",
				d.Replicas,
				d.Total,
				d.Updated,
				d.Available,
			)
	case s.Machines > d.Replicas:
		return because(d, RolloutUnfinished), fmt.Sprintf("wants %d machines and has %d", d.Replicas, s.Machines)
	}
	return "", ""
}

// because is the reason, or that the rollout was stopped.
func because(d Deployment, r Reason) Reason {
	if d.Paused {
		return Paused
	}
	return r
}

// hasOldTemplate reports whether the machines that a MachineDeployment makes next start from userdata of before the
// change.
func (w *liveObjects) hasOldTemplate(d Deployment) bool {
	s, since := w.newestOf[d.UID], w.Record.ExternalSince
	return s != nil && since != nil && s.Created.Before(*since)
}

// countStandaloneSets counts the MachineSets that no MachineDeployment owns, and reports whether each has its machines.
func (w *liveObjects) countStandaloneSets(o *Observation) bool {
	done := true
	alive := map[string]int{} // by the uid of the MachineSet
	for _, m := range w.Machines {
		if m.Deleting.IsZero() {
			alive[m.Owner]++
		}
	}
	for _, s := range w.Sets {
		if w.deployByUID[s.Owner] != nil || s.Deleting {
			continue
		}
		have := alive[s.UID]
		o.Wanted += s.Replicas
		if have != s.Replicas {
			done = false
			o.Warnings = append(o.Warnings, fmt.Sprintf("MachineSet %s wants %d machines and has %d", s.Name, s.Replicas, have))
		}
	}
	return done
}
