package state

import (
	"fmt"
	"strings"
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

func (j *judge) handover() (verdict, bool) {
	if j.Journal.Handover == Done {
		return verdict{}, false
	}
	part, doing := Handover, "the control plane is being changed"
	if j.wasCreatedExternal() {
		part, doing = Install, "the cloud-controller-manager is being installed"
	}
	if why := j.notUp(); why != "" && part == Install && !j.isHalfway() {
		return verdict{kubermaticv1.PhaseQueued, why}, true
	}
	j.run(part, false)
	if j.isKeptWaiting() {
		return verdict{kubermaticv1.PhaseBlocked, j.Run.Message}, true
	}
	if j.Journal.Handover == Begun {
		j.work.Owners = j.alarm.isDue(j.Owners.Seen, j.limits.Look)
		return verdict{kubermaticv1.PhaseHandover, j.told(doing)}, true
	}
	if j.Run.Outcome == Blocked {
		return verdict{kubermaticv1.PhaseBlocked, j.Run.Message}, true
	}
	if j.Run.Active && j.prior == kubermaticv1.PhaseBlocked { // looking again changes nothing yet
		return verdict{j.prior, j.Cluster.Status.Conditions[kubermaticv1.ConditionMigration].Message}, true
	}
	if j.Run.Outcome != NoOutcome && !j.Run.Active {
		return verdict{kubermaticv1.PhaseQueued, j.told("it is tried again")}, true
	}
	return verdict{kubermaticv1.PhaseQueued, "it waits for its turn"}, true
}

// isKeptWaiting reports whether a handover that was begun does not go on, as the last run found. The operator has not
// begun its journal, or load balancers are not kept after its last step.
func (j *judge) isKeptWaiting() bool {
	return j.Journal.Handover == Begun && j.Run.Outcome == Blocked && (!j.Run.Active || j.Run.Number == 0)
}

// notUp says why nothing can be installed next to a new control plane yet; empty when it can. By the time that its
// managers are ready, the program that made it has made its own cloud-controller-manager as well, if it makes one.
func (j *judge) notUp() string {
	for _, w := range []struct {
		name string
		is   *Workload
	}{{"apiserver", j.Plane.Apiserver}, {"controller-manager", j.Plane.ControllerManager}} {
		switch {
		case w.is == nil:
			return "the control plane has no Deployment " + w.name + " yet"
		case w.is.Ready == 0:
			return "no pod of Deployment " + w.name + " is ready yet"
		}
	}
	return ""
}

func (j *judge) components() (verdict, bool) {
	j.work.Owners = j.alarm.isDue(j.Owners.Seen, j.calm(j.Owners.Seen))
	later := j.prior == kubermaticv1.PhaseMachines || j.prior == kubermaticv1.PhaseFinish
	if !j.Owners.Known || j.Owners.Error != "" {
		if later {
			return verdict{}, false
		}
		return verdict{
			kubermaticv1.PhaseComponents,
			orElse(j.Owners.Error, "who runs the cloud loops cannot be seen: ", "it is being looked who runs the cloud loops"),
		}, true
	}
	if !j.Owners.AllExternal() {
		if len(j.Owners.InTree)+len(j.Owners.Twice) > 0 { // taken back by hand, perhaps
			j.work.Journal = j.alarm.isDue(Seen{At: j.Journal.At}, j.limits.Look)
		}
		if later && len(j.Owners.Unsure) > 0 {
			return verdict{}, false
		}
		return verdict{
			kubermaticv1.PhaseComponents,
			"the cloud-controller-manager does not run every loop: " + j.Owners.sentence(),
		}, true
	}
	j.work.Parts = j.alarm.isDue(j.Parts.Seen, j.calm(j.Parts.Seen))
	switch {
	case j.Parts.Known && j.Parts.Ready || later && !j.Parts.Known:
		return verdict{}, false
	case j.Parts.Error != "":
		return verdict{
			kubermaticv1.PhaseComponents,
			"the parts around machines cannot be brought about: " + j.Parts.Error,
		}, true
	case !j.Parts.Known:
		return verdict{kubermaticv1.PhaseComponents, "the parts around machines are being brought about"}, true
	}
	return verdict{kubermaticv1.PhaseComponents, "waiting for " + strings.Join(j.Parts.Waiting, "; ")}, true
}

func (j *judge) machines() (verdict, bool) {
	if j.Journal.Finish != NotBegun {
		return verdict{}, false
	}
	j.work.Watch = true
	j.work.Machines = j.newsDue()
	j.work.Restart = j.work.Machines && j.Cluster.RestartsMachines() && j.Owners.AllExternal() && j.Parts.Ready
	m := j.Machines
	switch {
	case !m.Known || m.Error != "":
		return verdict{
			kubermaticv1.PhaseMachines,
			orElse(m.Error, "the machines cannot be seen: ", "the machines are being looked at"),
		}, true
	case m.Regression != "":
		return verdict{kubermaticv1.PhaseMachines, "no further machines are restarted: " + m.Regression}, true
	case !m.Done && j.Cluster.RestartsMachines():
		return verdict{kubermaticv1.PhaseMachines, m.sentence() + "; the operator restarts the MachineDeployments"}, true
	case !m.Done:
		return verdict{
			kubermaticv1.PhaseMachines,
			m.sentence() + "; restart the MachineDeployments, or have it done with the annotation " +
				kubermaticv1.AnnotationRestartMachines,
		}, true
	case !j.Owners.AllExternal() || !j.Parts.Ready: // not looked at yet, or not answering
		return verdict{kubermaticv1.PhaseMachines, m.sentence()}, true
	}
	j.work.Watch = false
	return verdict{}, false
}

// Watched machines are read settle after the first reported change, at the earliest half an interval after the last
// read. Without a reported change, they are read every seldom intervals: timeouts and unreported changes are seen then.
const (
	settle = time.Second
	seldom = 6
)

// newsDue reports whether the machines have to be looked at.
func (j *judge) newsDue() bool {
	m := j.Machines
	if !m.Watched || m.Error != "" || !m.Known {
		return j.alarm.isDue(m.Seen, j.calm(m.Seen))
	}
	if !m.Changed.After(m.Looked) {
		return j.alarm.isDue(m.Seen, seldom*j.limits.Look)
	}
	next := m.Changed.Add(settle)
	if rest := m.At.Add(j.limits.Look / 2); rest.After(next) {
		next = rest
	}
	if j.Now.Before(next) {
		j.alarm.in(next.Sub(j.Now))
		return false
	}
	j.alarm.in(j.limits.Look)
	return true
}

// calm returns how long after a read something is read again. It is long as long as all is well and nothing is under
// way. The wait for machines may take days, and the wait for a place as long as other clusters need.
func (j *judge) calm(s Seen) time.Duration {
	switch {
	case !j.Owners.AllExternal() || !j.Parts.Ready || j.Parts.Error != "":
	case j.prior == kubermaticv1.PhaseMachines && j.Machines.Watched:
		return seldom * j.limits.Look
	case j.prior == kubermaticv1.PhaseFinish && !j.Run.Active && len(j.Owners.Unsure) == 0 && s.Error == "":
		// as long again as it has waited until the last read: the interval doubles with each one
		return max(j.limits.Look, min(s.At.Sub(j.since), j.limits.MaxRetry))
	}
	return j.limits.Look
}

func (j *judge) finish() (verdict, bool) {
	// an external control plane has nothing to remove
	if j.Journal.Finish == Done || j.Journal.Finish == NotBegun && j.wasCreatedExternal() {
		return verdict{}, false
	}
	j.run(Finish, false)
	if j.Run.Outcome == Blocked && (!j.Run.Active || j.Run.Number == 0) { // looking again changes nothing yet
		return verdict{kubermaticv1.PhaseBlocked, j.Run.Message}, true
	}
	return verdict{kubermaticv1.PhaseFinish, j.told("the in-tree provider is being removed from the control plane")}, true
}

// run asks for a run of a part, once its time has come.
func (j *judge) run(p Part, back bool) {
	if j.Run.Active {
		j.work.Run, j.work.Back = p, back
		j.work.Stop = j.Run.Part != p || j.Run.Back != back
		return
	}
	if j.Run.Outcome != NoOutcome && j.Run.Outcome != Succeeded && j.Run.Outcome != Interrupted {
		next := j.Run.Ended.Add(backoff(j.limits.Retry, j.Run.Retries, j.limits.MaxRetry))
		if j.Now.Before(next) {
			j.alarm.in(next.Sub(j.Now))
			return
		}
	}
	j.work.Run, j.work.Back = p, back
}

// told is where a run is, or what its last try came to.
func (j *judge) told(otherwise string) string {
	r := j.Run
	switch {
	case r.Active && r.Number > 0:
		message := fmt.Sprintf("step %d of %d: %s", r.Number, r.Total, r.Step)
		if r.Paused != "" {
			return r.Paused + "; next is " + message
		}
		if r.Waiting != "" {
			message += ": " + r.Waiting
		}
		return message
	case r.Active || r.Outcome == NoOutcome || r.Outcome == Succeeded || r.Outcome == Interrupted:
		return otherwise
	case r.Outcome == Locked:
		return "another process is changing the cluster: " + r.Message
	case r.Outcome == Unreachable:
		return "an API server does not answer, and the run goes on when it does: " + r.Message
	}
	return otherwise + "; the last try failed: " + r.Message
}

// because adds why the last run failed.
func (j *judge) because(sentence string) string {
	if !j.Run.Active && j.Run.Message != "" &&
		(j.Run.Outcome == Broken || j.Run.Outcome == Stale || j.Run.Outcome == NoWayBack || j.Run.Outcome == Blocked) {
		return sentence + ": " + j.Run.Message
	}
	return sentence
}

func orElse(err, prefix, otherwise string) string {
	if err != "" {
		return prefix + err
	}
	return otherwise
}
