package machines

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Budget is how many of so many machines may be missing. It is a number, or a percentage, which is rounded down and is
// never less than one. Empty means one. "0" means none, which MachineDeployments that make the new machine first can
// keep.
func Budget(value string, machines int) (int, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 1, nil
	}
	percent, isPercent := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(percent)
	if err != nil || n < 0 || isPercent && n > 100 {
		return 0, fmt.Errorf(
			"annotation %s is %q, which is neither a number nor a percentage: nothing is restarted until it is one",
			kubermatic.AnnotationMaxUnavailable,
			value,
		)
	}
	if isPercent {
		return max(1, machines*n/100), nil
	}
	return n, nil
}

// unavailable is how many machines a rollout may remove before their successors work, as machine-controller computes
// it. It is 0 by default, and 1 when neither that nor a surplus is allowed.
func unavailable(d Deployment) int {
	out, surge := 0, 1
	if d.MaxUnavailable != nil {
		out = resolve(*d.MaxUnavailable, d.Replicas, false)
	}
	if d.MaxSurge != nil {
		surge = resolve(*d.MaxSurge, d.Replicas, true)
	}
	if out == 0 && surge == 0 {
		return 1
	}
	return min(out, d.Replicas)
}

func resolve(v intstr.IntOrString, replicas int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, replicas, up)
	if err != nil {
		return replicas // what cannot be read may be all of them
	}
	return max(0, n)
}

const (
	usualTimeout = 20 * time.Minute
	// repause is for how long after a stop a rollout is paused again that is not: the request may have failed. Later the
	// owner wants it to go on.
	repause = 2 * time.Minute
)

// Next decides what may be done now to restart MachineDeployments. It is pure: the same facts allow the same step.
//
// One MachineDeployment is restarted at a time, the one with the fewest machines first (the canary). The next one
// follows only when every machine of those before it is external. A new machine that turns out wrong stops everything,
// and its rollout is paused.
func Next(f Facts, o Observation, p Policy) Step {
	n := &next{
		liveObjects: newLiveObjects(f),
		o:           o,
		policy:      p,
		record:      f.Record.clone().Restart,
		timeout:     cmp.Or(p.Timeout, usualTimeout),
		alive:       map[string]*Deployment{},
		states:      map[string]DeploymentState{},
	}
	for i := range f.Deployments {
		if d := &f.Deployments[i]; !d.Deleting {
			n.alive[key(*d)] = d
		}
	}
	for _, s := range o.Deployments {
		n.states[s.Key()] = s
	}
	if !p.Wanted {
		if n.record.Stopped != nil {
			n.record.Stopped.Released = true
		}
		return Step{Record: n.record}
	}
	return n.step()
}

type next struct {
	*liveObjects
	o       Observation
	policy  Policy
	record  Restart
	timeout time.Duration
	alive   map[string]*Deployment     // by namespace/name, those that are not being deleted
	states  map[string]DeploymentState // by namespace/name
	// blocked are sentences about MachineDeployments that cannot be restarted as they are.
	blocked []string
}

func (n *next) wait(format string, args ...any) Step {
	return Step{Record: n.record, Waiting: fmt.Sprintf(format, args...)}
}

func (n *next) step() Step {
	switch {
	case len(n.o.Unknown) > 0:
		return n.wait("not known: %s", strings.Join(first(n.o.Unknown, shown), "; "))
	case !n.CCMReady || n.Facts.Record.ExternalSince == nil:
		return n.wait(
			"the cloud-controller-manager, machine-controller, its webhook and operating-system-manager have to be ready before a machine is replaced",
		)
	}
	n.forget()
	n.progress()
	if s, ok := n.stopped(); ok {
		return s
	}
	if n.isFinished() {
		return Step{Record: n.record, Done: true}
	}
	if s := n.regression(); s != nil {
		return n.stop(*s)
	}
	for _, d := range n.restarting() {
		if !n.isRestartApplied(d) {
			return Step{
				Record:  n.record,
				Rolling: true,
				Restart: &d,
				Value:   n.record.Began[key(d)].Value,
				Waiting: "the restart of MachineDeployment " + d.Name + " has to show",
			}
		}
		if !n.isDeploymentDone(d) {
			s := n.state(d)
			out := n.wait(
				"MachineDeployment %s is being restarted: %d of %d machines run external",
				d.Name,
				s.Done,
				max(s.Machines, s.Wanted),
			)
			out.Rolling = true
			return out
		}
	}
	return n.startRestart()
}

func key(d Deployment) string { return d.Namespace + "/" + d.Name }

// forget drops MachineDeployments that are gone.
func (n *next) forget() {
	for k := range n.record.Began {
		if n.alive[k] == nil {
			delete(n.record.Began, k)
		}
	}
}

func (n *next) restarting() []Deployment {
	var out []Deployment
	for _, d := range n.Deployments {
		if _, ok := n.record.Began[key(d)]; ok {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Deployment) int { return cmp.Compare(key(a), key(b)) })
	return out
}

// state is the zero value for one that was not judged.
func (n *next) state(d Deployment) DeploymentState { return n.states[key(d)] }

// progress notes when each restart last moved.
func (n *next) progress() {
	for _, d := range n.restarting() {
		b, s := n.record.Began[key(d)], n.state(d)
		deleting := 0
		for _, m := range n.machinesOf[d.UID] {
			if !m.Deleting.IsZero() {
				deleting++
			}
		}
		figure := fmt.Sprintf("%d/%d-%d,%d,%d", s.Done, s.Machines, deleting, d.Updated, d.Available)
		if figure != b.Progress {
			b.Progress, b.Moved = figure, n.now()
		}
		b.Finished = b.Finished || n.isRestartApplied(d) && n.isDeploymentDone(d)
		n.record.Began[key(d)] = b
	}
}

// isFinished reports whether everything was restarted and came up. What becomes of its machines later is no longer a
// restart's affair.
func (n *next) isFinished() bool {
	for _, b := range n.record.Began {
		if !b.Finished {
			return false
		}
	}
	return len(n.candidates()) == 0
}

func (n *next) now() time.Time { return n.Time.UTC().Truncate(time.Second) }

// isRestartApplied reports whether a restart is in the template, or was overtaken by another later change.
func (n *next) isRestartApplied(d Deployment) bool {
	b := n.record.Began[key(d)]
	s := n.newestOf[d.UID]
	return d.ForceRestart == b.Value || s != nil && !s.Created.Before(b.At) && !n.hasOldTemplate(d)
}

func (n *next) isDeploymentDone(d Deployment) bool {
	return n.state(d).Settled && !n.needsRestart(d)
}

// needsRestart reports whether a MachineDeployment has machines that are not external, or will make some. Its template
// is then older than the change, and its machines do not show otherwise. That the change was noticed late must not
// replace machines that are external already.
func (n *next) needsRestart(d Deployment) bool {
	s := n.state(d)
	return s.Done < s.Machines || s.Machines == 0 && n.hasOldTemplate(d)
}

// startRestart starts the next MachineDeployment that may be.
func (n *next) startRestart() Step {
	budget, err := Budget(n.policy.MaxUnavailable, n.o.Wanted)
	if err != nil {
		return n.wait("%v", err)
	}
	missing := n.missingMachines()
	for _, d := range n.candidates() {
		cost := unavailable(d)
		switch s := n.state(d); {
		case d.Paused:
			n.blocked = append(n.blocked, fmt.Sprintf("MachineDeployment %s is paused: resume it", d.Name))
			continue
		case !s.Settled:
			n.blocked = append(
				n.blocked,
				fmt.Sprintf("MachineDeployment %s %s: that has to be over before it is restarted", d.Name, s.Message),
			)
			continue
		case d.Replicas > 0 && cost > budget:
			n.blocked = append(
				n.blocked,
				fmt.Sprintf(
					"MachineDeployment %s may replace %d machines at once (maxUnavailable), and %d may be missing: lower it, or raise the annotation %s",
					d.Name,
					cost,
					budget,
					kubermatic.AnnotationMaxUnavailable,
				),
			)
			continue
		case d.Replicas > 0 && missing+cost > budget:
			return n.wait(
				"%d machines are missing and MachineDeployment %s would take up to %d: no more than %d may be",
				missing,
				d.Name,
				cost,
				budget,
			)
		case d.Replicas > 0 && len(n.Attachments) > 0:
			a := n.Attachments[0]
			return n.wait(
				"volume %s is still attached to node %s, which is gone: it has to be detached before the next machines go",
				a.Volume,
				a.Node,
			)
		}
		if n.policy.Hold != "" {
			return n.wait("%s", n.policy.Hold)
		}
		return n.restart(d)
	}
	if len(n.blocked) > 0 {
		return n.wait("%s", strings.Join(first(n.blocked, shown), "; "))
	}
	return Step{Record: n.record, Done: true}
}

func (n *next) restart(d Deployment) Step {
	value := strconv.FormatInt(n.Time.UnixNano(), 10)
	if n.record.Began == nil {
		n.record.Began = map[string]Begun{}
	}
	n.record.Began[key(d)] = Begun{At: n.now(), Value: value, Moved: n.now()}
	return Step{
		Record:  n.record,
		Restart: &d,
		Value:   value,
		Rolling: true,
	}
}

// candidates are the MachineDeployments that are stale by their template. Those with few machines come first. Those
// that want none come last: they cost nothing and prove nothing.
func (n *next) candidates() []Deployment {
	var out []Deployment
	for _, d := range n.Deployments {
		if _, begun := n.record.Began[key(d)]; !begun && !d.Deleting && n.hasOldTemplate(d) && n.needsRestart(d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Deployment) int {
		if (a.Replicas == 0) != (b.Replicas == 0) {
			return cmp.Compare(b.Replicas, a.Replicas)
		}
		return cmp.Or(cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(key(a), key(b)))
	})
	return out
}

// missingMachines is how many machines of MachineDeployments do not work now. One MachineDeployment's surplus does not
// make up for another's lack.
func (n *next) missingMachines() int {
	works := map[string]int{}
	for _, m := range n.o.Machines {
		switch m.Reason {
		case NoNode, BeingDeleted, NodeNotReady, NoProviderID, Uninitialized:
		default:
			works[m.Namespace+"/"+m.Deployment]++
		}
	}
	out := 0
	for _, d := range n.Deployments {
		if !d.Deleting {
			out += max(0, d.Replicas-works[key(d)])
		}
	}
	return out
}
