package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// Rollout is what a rollout was begun with; everything else it takes from the clusters.
//
//	to do ──start──> running ──> done ──soak──> next wave
//	                    └──────> failed ──more than MaxFailures──> nothing is started any more
type Rollout struct {
	Waves   []v1.FleetWave
	Options v1.FleetOptions
	// Begun is when this process began. What an object says of a stuck cluster may be from before its repair: the operator
	// gets Options.PatienceSeconds from here on to find that out.
	Begun time.Time
}

// Start is what became of starting a cluster.
type Start struct {
	At time.Time
	// Error is why the API server refused it; empty when it did not.
	Error string
}

// Started are the clusters that this process started, by their keys. Those that were started by another one are known
// by their objects.
type Started map[Key]Start

// Next is what a rollout does now.
type Next struct {
	// Wave is the one under way, from 1; 0 when all are over.
	Wave int
	// Start are the members to be started now, in order.
	Start []v1.FleetMember
	// Running, Done and Skipped count the members of all waves, ToDo those that are not started, Start included.
	Running, Done, Skipped, ToDo int
	// RunningNames are those under way, in order.
	RunningNames []string
	// DoneMembers are those that are done, in order.
	DoneMembers []v1.FleetMember
	// Failed are those that failed, each with the reason, in order.
	Failed []v1.FleetLeft
	// Left are those that were passed over because a user held, paused or deleted them meanwhile.
	Left []v1.FleetLeft
	// SoakUntil is until when the wave before is watched; zero when nothing is.
	SoakUntil time.Time
	// Stopped reports whether more clusters failed than may: nothing is started any more.
	Stopped bool
	// Finished reports whether every member is done, failed or passed over, or that the rollout stopped. What is running
	// then is carried on by the operator.
	Finished bool
}

// memberState is where a member stands in the rollout.
type memberState int

const (
	memberToDo memberState = iota
	memberRunning
	memberDone
	memberFailed
	memberSkipped
)

// Next decides what to do now, given the rows as they are. It starts nothing beyond the wave under way, nothing while a
// wave is watched, and nothing once too many have failed.
func (r Rollout) Next(rows []v1.FleetCluster, started Started, now time.Time) Next {
	byKey := make(map[Key]v1.FleetCluster, len(rows))
	for _, row := range rows {
		byKey[keyOf(row)] = row
	}
	var n Next
	var todo []v1.FleetMember
	var last time.Time // when the last member of the waves that are over was done
	for _, wave := range r.Waves {
		open := false
		var ended time.Time
		for _, m := range wave.Clusters {
			f, reason, at := r.stateOf(m, byKey, started, now)
			n.count(m, f, reason)
			open = open || f == memberToDo || f == memberRunning
			if f == memberDone && at.After(ended) {
				ended = at
			}
			if f == memberToDo && (n.Wave == 0 || n.Wave == wave.Number) {
				todo = append(todo, m)
			}
		}
		switch {
		case n.Wave != 0:
		case open:
			n.Wave = wave.Number
		case ended.After(last):
			last = ended
		}
	}
	n.Stopped = len(n.Failed) > r.Options.MaxFailures
	r.start(&n, todo, last, now)
	n.Finished = n.Wave == 0 || n.Stopped
	return n
}

// start chooses those that are started now.
func (r Rollout) start(n *Next, todo []v1.FleetMember, last, now time.Time) {
	if n.Stopped || n.Wave == 0 {
		return
	}
	soak := time.Duration(r.Options.SoakSeconds * float64(time.Second))
	if until := last.Add(soak); soak > 0 && len(todo) > 0 && !last.IsZero() && now.Before(until) {
		n.SoakUntil = until
		return
	}
	n.Start = todo[:min(len(todo), max(0, r.Options.MaxParallel-n.Running))]
}

func (n *Next) count(m v1.FleetMember, f memberState, reason string) {
	switch f {
	case memberToDo:
		n.ToDo++
	case memberRunning:
		n.Running++
		n.RunningNames = append(n.RunningNames, m.Name)
	case memberDone:
		n.Done++
		n.DoneMembers = append(n.DoneMembers, m)
	case memberFailed:
		n.Failed = append(n.Failed, v1.FleetLeft{Name: m.Name, Group: m.Group, Reason: reason})
	case memberSkipped:
		n.Skipped++
		n.Left = append(n.Left, v1.FleetLeft{Name: m.Name, Group: m.Group, Reason: reason})
	}
}

// stateOf judges one member: where it stands, why, and since when where it is done.
func (r Rollout) stateOf(
	m v1.FleetMember,
	rows map[Key]v1.FleetCluster,
	started Started,
	now time.Time,
) (memberState, string, time.Time) {
	key := Key{Group: m.Group, Name: m.Name}
	row, there := rows[key]
	if !there {
		return memberSkipped, "it was deleted", time.Time{}
	}
	grace := r.gracePeriod()
	begun, ours := started[key]
	inGrace := ours && now.Before(begun.At.Add(grace))
	if begun.Error != "" {
		return memberFailed, begun.Error, time.Time{}
	}
	switch row.Standing {
	case v1.StandingCompleted:
		return r.sound(row)
	case v1.StandingMigrating:
		return r.underway(row, now)
	case v1.StandingFailed:
		return memberFailed, row.Message, time.Time{}
	case v1.StandingBlocked:
		if inGrace || !row.Since.IsZero() && now.Before(row.Since.Add(grace)) {
			return memberRunning, "", time.Time{}
		}
		return memberFailed, "blocked: " + row.Message, time.Time{}
	case v1.StandingNotEnabled:
		return fresh(inGrace, ours, "it was enabled and was switched off since")
	case v1.StandingExternal:
		return external(row, inGrace, ours)
	}
	return r.waiting(row, inGrace, ours, now)
}

// sound is the fate of a cluster that is done: what was done must hold.
func (r Rollout) sound(row v1.FleetCluster) (memberState, string, time.Time) {
	if row.Owners == OwnersBoth || row.Owners == OwnersNone || row.Owners == OwnersInTree {
		return memberFailed, fmt.Sprintf("it was done, and now %s runs the cloud loops", map[string]string{
			OwnersBoth: "more than one manager", OwnersNone: "no manager", OwnersInTree: component.KCM}[row.Owners]), time.Time{}
	}
	if r.Options.Until == UntilHandover { // its phase goes on changing
		for _, c := range row.Conditions {
			if c.Type == string(kubermaticv1.ConditionCCMReady) {
				return memberDone, "", c.Since
			}
		}
	}
	return memberDone, "", row.Since
}

func (r Rollout) underway(row v1.FleetCluster, now time.Time) (memberState, string, time.Time) {
	later := row.Phase == kubermaticv1.PhaseMachines || row.Phase == kubermaticv1.PhaseFinish
	switch {
	case r.Options.Until == UntilHandover && later:
		return r.sound(row)
	case row.Stuck != "" && !r.isInGracePeriod(now):
		return memberFailed, row.Stuck, time.Time{}
	}
	return memberRunning, "", time.Time{}
}

// isInGracePeriod reports whether a cluster that is stuck may be one that was repaired just now.
func (r Rollout) isInGracePeriod(now time.Time) bool {
	return now.Before(r.Begun.Add(r.gracePeriod()))
}

func (r Rollout) gracePeriod() time.Duration {
	return time.Duration(r.Options.PatienceSeconds * float64(time.Second))
}

// fresh is the fate of a cluster on whose object nothing is to be seen of what this process did to it.
func fresh(inGrace, ours bool, reason string) (memberState, string, time.Time) {
	switch {
	case inGrace:
		return memberRunning, "", time.Time{}
	case ours:
		return memberFailed, reason, time.Time{}
	}
	return memberToDo, "", time.Time{}
}

// external is the state of a cluster that is enabled, and of which nothing says that it has to be migrated. No webhook
// and no operator has seen it yet, or it has no in-tree provider.
func external(row v1.FleetCluster, inGrace, ours bool) (memberState, string, time.Time) {
	looked := row.Phase != "" && !strings.Contains(row.Message, "is off")
	switch {
	case looked || !ours:
		return memberDone, "", row.Since
	case inGrace:
		return memberRunning, "", time.Time{}
	}
	return memberFailed, unseen, time.Time{}
}

const unseen = "no operator has taken it up: see whether transplant-operator runs"

// waiting is the fate of a cluster whose migration is asked for and does not go on.
func (r Rollout) waiting(row v1.FleetCluster, inGrace, ours bool, now time.Time) (memberState, string, time.Time) {
	switch {
	case row.Paused != "":
		return memberSkipped, "it is paused: " + row.Paused, time.Time{}
	case row.Hold != "" && canRelease(row.Hold, r.Options) && !ours:
		return memberToDo, "", time.Time{}
	case row.Hold != "" && !inGrace:
		return memberSkipped, "it is held: " + row.Hold, time.Time{}
	case row.Stuck != "" && !r.isInGracePeriod(now):
		return memberFailed, row.Stuck, time.Time{}
	case ours && !inGrace && isUnreported(row):
		return memberFailed, unseen, time.Time{}
	}
	return memberRunning, "", time.Time{}
}

// isUnreported reports whether no operator has said anything since the cluster was enabled.
func isUnreported(row v1.FleetCluster) bool {
	return row.Phase == "" || row.Phase == kubermaticv1.PhaseNotNeeded
}

// Names are the members of a plan that apply does something to, by wave order.
func Names(waves []v1.FleetWave) []v1.FleetMember {
	var out []v1.FleetMember
	for _, w := range waves {
		out = append(out, slices.DeleteFunc(slices.Clone(w.Clusters), func(m v1.FleetMember) bool { return m.Do == "" })...)
	}
	return out
}
