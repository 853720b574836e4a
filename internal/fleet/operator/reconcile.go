package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/view"
)

// behind is how long a cluster waits for its next decision when another client has changed its object during this one.
// The cache may report the change earlier.
const behind = time.Second

// reconcile decides about one cluster: what it says of itself, and what is to be begun. It waits for nothing but a
// write to the seed.
func (op *Operator) reconcile(ctx context.Context, name string) error {
	found := op.clusters.get(name)
	if len(found) == 0 {
		op.forgetCluster(name)
		return nil
	}
	op.overlayLastWrites(found)
	main := op.mainOf(found)
	if op.skipUnreadable(main) {
		op.runs.forgetWaiting(name)
		op.states.giveBack(name)
		return nil
	}
	if op.stopIfClaimedByOther(main) {
		return nil
	}
	for _, o := range found {
		if o.Group != main.Group && op.skipUnreadable(o) {
			continue
		}
		seen := op.observe(ctx, found, o, o.Group == main.Group)
		d := state.Decide(seen, op.Limits)
		if o.Group == main.Group && op.isUnclaimed(o, d) {
			if !op.mayClaim(ctx, o, seen) {
				return nil
			}
			return op.claim(ctx, o)
		}
		written, err := op.write(ctx, o, d)
		if errors.Is(err, errBehind) { // the cache will tell, or has told meanwhile
			op.queue.AddAfter(name, behind)
			return nil
		}
		if err != nil {
			return err
		}
		if written {
			op.recordEvents(o, d.Events)
		}
		if o.Group == main.Group {
			op.act(ctx, o, seen, d)
		}
	}
	return nil
}

// skipUnreadable reports whether a Cluster cannot be read, and logs why.
func (op *Operator) skipUnreadable(o view.Object) bool {
	why := o.Cluster.Annotations[unreadable]
	if why != "" {
		op.Log.Info("A cluster is left alone because it cannot be read",
			"cluster", o.Cluster.Name, "group", o.Group, "error", why)
	}
	return why != ""
}

// stopIfClaimedByOther ends whatever this installation does about a cluster that another one migrates, and reports
// whether one does. Each installation asks the main Cluster, and no other one of the name, which other accounts may be
// able to make.
func (op *Operator) stopIfClaimedByOther(main view.Object) bool {
	c, holder, news := main.Cluster, "", false
	if by := c.Annotations[kubermaticv1.AnnotationOperator]; op.Installation != "" && by != op.Installation {
		holder = by
	}
	op.states.withState(c.Name, "", func(r *clusterState) { news, r.holder = r.holder != holder, holder })
	if holder == "" {
		return false
	}
	if news {
		op.Log.Info(
			"A cluster is left alone because another installation of the operator migrates it; take its annotation off to hand it over",
			"cluster",
			c.Name,
			"installation",
			holder,
			"annotation",
			kubermaticv1.AnnotationOperator,
		)
	}
	op.stopCluster(c.Name)
	return true
}

// isUnclaimed reports whether a cluster is to be migrated and has no operator yet.
func (op *Operator) isUnclaimed(o view.Object, d state.Decision) bool {
	return op.Installation != "" && o.Cluster.Annotations[kubermaticv1.AnnotationOperator] == "" &&
		d.Phase != kubermaticv1.PhaseNotNeeded && d.Phase != kubermaticv1.PhaseCompleted
}

// mayClaim reports whether this installation has read how far the migration of a cluster is, and starts that look. An
// installation that has no right to read it would keep every other one from the cluster, and could do nothing for it.
// Another error of the look is no reason to leave the cluster to others.
func (op *Operator) mayClaim(ctx context.Context, o view.Object, seen state.Observation) bool {
	c, missing, news := o.Cluster, "", false
	op.states.withKnownState(c.Name, c.UID, func(r *clusterState) {
		missing, news = r.missingRight, r.missingRight != "" && r.missingRight != r.toldMissing
		r.toldMissing = r.missingRight
	})
	if seen.Journal.Known || !seen.Journal.At.IsZero() && missing == "" {
		return true
	}
	if news {
		op.Log.Info("A cluster is not claimed because a right is missing", "cluster", c.Name, "error", missing)
		op.Recorder.Event(reference(o.Group, c), corev1.EventTypeWarning, state.ReasonRightMissing, fmt.Sprintf(
			"The operator %s leaves this cluster to others: it may not read how far its migration is. "+
				"Give it its role in namespace %s of the seed: %s", op.Installation, c.ControlPlaneNamespace(), missing))
	}
	if wait := max(op.Limits.Look, behind) - seen.Now.Sub(seen.Journal.At); wait > 0 {
		op.queue.AddAfter(c.Name, wait)
		return false
	}
	t := Target{
		Name:      c.Name,
		Namespace: c.ControlPlaneNamespace(),
		Group:     o.Group,
		Cluster:   c,
	}
	op.looks.startLooks(ctx, t, state.Work{Journal: true})
	return false
}

// claim makes a cluster this installation's. Of two that try it at once, the API server takes one: the write is bound
// to the version that was read.
func (op *Operator) claim(ctx context.Context, o view.Object) error {
	ctx, cancel := context.WithTimeout(ctx, op.WriteTimeout)
	defer cancel()
	now, err := objects.Of(o.Group, o.Cluster).
		Annotate(kubermaticv1.AnnotationOperator, op.Installation).
		Apply(ctx, op.Dynamic, fieldManager)
	switch {
	case apierrors.IsNotFound(err): // it was deleted, which the cache will tell
		return nil
	case objects.IsStale(err):
		op.queue.AddAfter(o.Cluster.Name, behind)
		return nil
	case err != nil:
		return fmt.Errorf("claiming the cluster: %w", err)
	}
	op.states.withState(o.Cluster.Name, "", func(r *clusterState) {
		r.written.wrote(o.Group,
			o.Cluster.ResourceVersion, now)
	})
	op.queue.Add(o.Cluster.Name)
	return nil
}

// overlayLastWrites puts what was last written in the place of what the cache still shows.
func (op *Operator) overlayLastWrites(found []view.Object) {
	for i, o := range found {
		op.states.withState(o.Cluster.Name, "",
			func(r *clusterState) { found[i].Cluster = r.written.latest(o.Group, o.Cluster) })
	}
}

// mainOf is the one of the Clusters of a name whose control plane is acted on. It is the one for which a run is under
// way, else one that wants or wanted to be migrated, else that of today's group. A Cluster of the same name that comes
// in the middle of a run does not stop it: perhaps no manager runs the loops.
func (op *Operator) mainOf(found []view.Object) view.Object {
	group := op.runs.groupOf(found[0].Cluster.Name)
	if i := slices.IndexFunc(found, func(o view.Object) bool { return o.Group == group }); i >= 0 {
		return found[i]
	}
	i := slices.IndexFunc(found, func(o view.Object) bool {
		_, annotated := o.Cluster.Annotations[kubermaticv1.CCMMigrationNeeded]
		return annotated || o.Cluster.Spec.Features[kubermaticv1.FeatureExternalCloudProvider]
	})
	return found[max(i, 0)]
}

// observe puts together what is known of a cluster.
func (op *Operator) observe(ctx context.Context, found []view.Object, o view.Object, main bool) state.Observation {
	c := o.Cluster
	out := state.Observation{
		Now:      time.Now(),
		Cluster:  c,
		Plane:    op.deployments.plane(c.ControlPlaneNamespace()), //nolint:contextcheck // the caches end with the operator
		Installs: rules.Installs(c),
	}
	for _, f := range found {
		out.Groups = append(out.Groups, f.Group)
	}
	if c.Spec.Features[kubermaticv1.FeatureExternalCloudProvider] {
		out.Refusals = op.Rules.Refusals(ctx, c, out.Plane.InTree != "")
		if r, may := op.Rules.(Unjudging); may && len(out.Refusals) > 0 {
			out.Unjudged = r.IsUnjudged(ctx, c)
		}
	}
	if !main {
		out.Journal = state.Journal{Known: true}
		return out
	}
	op.states.withState(c.Name, c.UID, func(r *clusterState) {
		// what blocked it may have been repaired
		if r.run.Outcome == state.Blocked && (c.Generation != r.generation || confirmationOf(c) != r.confirmed) {
			r.run.Ended = time.Time{}
		}
		out.Journal, out.Run, out.Owners, out.Parts, out.Machines = r.journal, r.run, r.owners, r.parts.Parts, r.followed()
		out.Token = r.token
	})
	return out
}

// act begins what the decision asks for.
func (op *Operator) act(ctx context.Context, o view.Object, seen state.Observation, d state.Decision) {
	c, w := o.Cluster, d.Work
	t := Target{
		Name:      c.Name,
		Namespace: c.ControlPlaneNamespace(),
		Group:     o.Group,
		Cluster:   c,
	}
	op.Metrics.phase(c.Name, d)
	if w.Stop {
		op.runs.stop(c.Name)
	}
	if w.Forget {
		op.states.withKnownState(c.Name, c.UID, func(r *clusterState) {
			if !r.run.Active {
				r.run = state.Run{}
			}
			r.restarting.found(false)
		})
	}
	op.startBackground(ctx, t, w)
	switch {
	case w.Run == state.NoPart || w.Stop:
		op.runs.forgetWaiting(c.Name)
	case !seen.Run.Active: // a run that has ended since is not begun again before its end was decided upon
		op.startRun(ctx, t, d)
	}
	if w.Journal || w.Owners || w.Parts || w.Machines || w.Token {
		op.looks.startLooks(ctx, t, w)
	}
	if d.Wake > 0 {
		op.queue.AddAfter(c.Name, d.Wake)
	}
}

// startBackground does what goes on next to runs and looks.
func (op *Operator) startBackground(ctx context.Context, t Target, w state.Work) {
	if w.Watch {
		op.watch(ctx, t)
	} else {
		op.watches.stop(t.Name)
	}
	looking := false // through the connections that would be closed
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) { looking = r.looking })
	if w.Close && !looking {
		op.Engine.Close(t)
	}
	if w.Annotate {
		op.annotate(ctx, t)
	}
	if w.Unconfirm {
		op.unconfirm(ctx, t)
	}
}

// forgetCluster ends everything about a cluster that is no more.
func (op *Operator) forgetCluster(name string) {
	op.stopCluster(name)
	op.states.forget(name)
}

// stopCluster ends what is under way for a cluster, and says nothing of it any longer.
func (op *Operator) stopCluster(name string) {
	op.runs.forgetWaiting(name)
	op.runs.stop(name)
	op.watches.stop(name)
	op.Metrics.forget(name)
	op.states.giveBack(name)
}
