package rollout

import (
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

// memberEnd is how a member of a rollout ended, and why where it is not done.
type memberEnd struct {
	result v1.StepResult
	reason string
}

// reportEnds reports the members that are done, failed or passed over since the last look, in the order of the waves. A
// member that goes on again, since it was repaired, is reported once more when it ends. Another reason alone is no
// event: it may say how long something has taken.
func (r *rolloutWatch) reportEnds(rows []v1.FleetCluster, n fleet.Next) {
	now := endsIn(n)
	byKey := map[fleet.Key]*v1.FleetCluster{}
	for i, row := range rows {
		byKey[fleet.Key{Group: row.Group, Name: row.Name}] = &rows[i]
	}
	for _, w := range r.rollout.Waves {
		for _, m := range w.Clusters {
			key := fleet.Key{Group: m.Group, Name: m.Name}
			end, ended := now[key]
			if was, reported := r.ends[key]; ended && (!reported || was.result != end.result) {
				result := end.result
				if result == v1.StepResultDone && !r.judged {
					result = v1.StepResultAlreadyDone
				}
				r.report(v1.RunEvent{
					Type:    v1.EventClusterFinished,
					Cluster: r.cluster(key, byKey[key]),
					Result:  result,
					Message: end.reason,
				})
			}
		}
	}
	r.ends, r.judged = now, true
}

// endsIn are the members that ended, by what a rollout does next.
func endsIn(n fleet.Next) map[fleet.Key]memberEnd {
	out := map[fleet.Key]memberEnd{}
	for _, m := range n.DoneMembers {
		out[fleet.Key{Group: m.Group, Name: m.Name}] = memberEnd{result: v1.StepResultDone}
	}
	for result, members := range map[v1.StepResult][]v1.FleetLeft{
		v1.StepResultFailed:  n.Failed,
		v1.StepResultSkipped: n.Left,
	} {
		for _, l := range members {
			out[fleet.Key{Group: l.Group, Name: l.Name}] = memberEnd{result, l.Reason}
		}
	}
	return out
}

// cluster is how a member stands in an event; row is nil for one that is not there, or was not read since its start.
func (r *rolloutWatch) cluster(key fleet.Key, row *v1.FleetCluster) *v1.RunCluster {
	out := &v1.RunCluster{Name: key.Name, Group: key.Group, Wave: r.waveOf(key)}
	if row != nil {
		out.Phase, out.Standing = row.Phase, row.Standing
	}
	return out
}

func (r *rolloutWatch) reportWave(kind v1.RunEventType, w v1.FleetWave, until *time.Time) {
	out := &v1.RunWave{Number: w.Number, Total: len(r.rollout.Waves), Clusters: len(w.Clusters)}
	if until != nil {
		at := until.UTC()
		out.Until = &at
	}
	r.report(v1.RunEvent{Type: kind, Wave: out})
}

// reportTotals reports how many members stand where, as of the last look.
func (r *rolloutWatch) reportTotals() {
	r.report(v1.RunEvent{Type: v1.EventRolloutFinished, Totals: &v1.RunTotals{
		Done:       r.last.Done,
		Failed:     len(r.last.Failed),
		Skipped:    r.last.Skipped,
		Running:    r.last.Running,
		NotStarted: r.last.ToDo,
	}})
}
