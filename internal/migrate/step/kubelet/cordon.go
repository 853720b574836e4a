package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// leftBefore is what a node was like before a kubelet step of the migration that was started and not finished. Its
// cordon may still be ours; the node alone would not show that. Empty for a step of the way there, and where every
// drain of the host has ended.
func leftBefore(e *step.Env, s v1.Step) string {
	if s.Restore == "" {
		return ""
	}
	doc := e.Journal.Doc()
	for _, there := range doc.Plan.Steps {
		if rec := e.Journal.Record(
			there.ID,
		); there.Kind == v1.StepKubelet && there.Host == s.Host && rec.Result == v1.StepResultStarted &&
			rec.Before != "" {
			return rec.Before
		}
	}
	return ""
}

// cordonLeft reports whether a node is still unschedulable because of a step that was interrupted and that this one
// takes back. Once this one is done a cordon is an administrator's.
func (x Kubelet) cordonLeft(ctx context.Context, s v1.Step) (bool, error) {
	if leftBefore(x.Env, s) != drain.WasSchedulable || x.Env.Journal.Record(s.ID).Result == v1.StepResultDone {
		return false, nil
	}
	n, err := x.Env.Kube.CoreV1().Nodes().Get(ctx, x.Env.NodeNames[s.Host], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading node %s of host %s: %w", x.Env.NodeNames[s.Host], s.Host, err)
	}
	return n.Spec.Unschedulable, nil
}

// onlyCordoned makes a node schedulable again whose drain was interrupted before its kubelet was changed. To drain and
// restart it for that would cost its pods a second move. False where more is to be put back.
func (x Kubelet) onlyCordoned(ctx context.Context, s v1.Step, rec *v1.StepRecord) (bool, error) {
	if left, err := x.cordonLeft(ctx, s); err != nil || !left || rec.AfterSHA256 != "" {
		return false, err
	}
	var pending step.PendingError
	if asBefore, err := x.inForce(ctx, s); errors.As(err, &pending) || err == nil && !asBefore {
		return false, nil
	} else if err != nil {
		return false, err
	}
	rec.Before = drain.WasSchedulable
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return false, err
	}
	node := x.Env.NodeNames[s.Host]
	if err := drain.Cordon(ctx, x.Env, node, false); err != nil {
		return false, fmt.Errorf("making node %s schedulable again: %w", node, err)
	}
	x.Env.Report(s, step.EventProgress, fmt.Sprintf("node %s takes pods again; its kubelet had not been changed", node))
	return true, nil
}

// afterWork makes a drained node schedulable again when the work on its host is done, was taken back, or failed before
// it changed a file. The error then says whether the node takes pods again: what failed knows of its file only.
func afterWork(ctx context.Context, e *step.Env, s v1.Step, rec *v1.StepRecord, node string, err error) error {
	if rec.Before == drain.WasCordoned {
		return err
	}
	ended := err == nil || rec.Result == v1.StepResultUndone
	if !ended && (ctx.Err() != nil || !hasUntouchedFiles(ctx, e, s, *rec, err)) {
		if ctx.Err() != nil || step.IsInterrupted(err) {
			return err
		}
		return fmt.Errorf(
			"%w; node %s takes no new pods until this step has ended, or was taken back with transplant rollback",
			err,
			node,
		)
	}
	if back := drain.Cordon(ctx, e, node, false); back != nil {
		rec.Result = v1.StepResultStarted // the node's cordon is still owed
		return errors.Join(
			err,
			fmt.Errorf(
				"making node %s schedulable again: %w; the same command tries it again, or kubectl uncordon %s",
				node,
				back,
				node,
			),
		)
	}
	if ended {
		return err
	}
	return fmt.Errorf("%w; node %s takes pods again", err, node)
}

// hasUntouchedFiles reports whether a step's work failed with every file of its host as it was, so that the kubelet
// runs with what it had. A kubelet that was restarted and does not come back is not untouched.
func hasUntouchedFiles(ctx context.Context, e *step.Env, s v1.Step, rec v1.StepRecord, failure error) bool {
	var restarted *step.VerifyError
	if rec.Undo != nil && rec.Undo.Ended == nil || errors.As(failure, &restarted) {
		return false
	}
	if rec.AfterSHA256 == "" {
		return true
	}
	if hostaccess.IsUnreachable(failure) {
		// asked for its files, it would be waited for once more, and the administrator would hear of it a minute later
		return false
	}
	same, err := Kubelet{e}.asItWas(ctx, s, rec)
	return err == nil && same
}

// asItWas reports whether every file of a host is as it was before a step.
func (x Kubelet) asItWas(ctx context.Context, s v1.Step, rec v1.StepRecord) (bool, error) {
	files, err := x.kept(ctx, s, rec)
	return err == nil && !slices.ContainsFunc(files, func(f fileChange) bool { return !f.isUnchanged() }), err
}

// drained empties a node, does what is to be done there, and makes it schedulable again, unless it was not before. The
// record says which, or that of an interrupted step that is taken back. After a crash the node is drained again,
// because pods may have come back with the kubelet.
func drained(
	ctx context.Context,
	e *step.Env,
	s v1.Step,
	rec *v1.StepRecord,
	touched bool,
	do func() error,
) error {
	name := e.NodeNames[s.Host]
	if rec.Before == "" {
		rec.Before = leftBefore(e, s)
	}
	if rec.Before == "" {
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !s.Drain {
			return do() // a kubelet makes its Node when it starts
		}
		if err != nil {
			return fmt.Errorf("reading node %s of host %s: %w", name, s.Host, err)
		}
		rec.Before = drain.WasSchedulable
		if n.Spec.Unschedulable {
			rec.Before = drain.WasCordoned
		}
	}
	if err := e.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	if err := drain.Node(ctx, e, s, *rec, name, touched); err != nil {
		return err
	}
	return afterWork(ctx, e, s, rec, name, do())
}

// Changeable checks for every kubelet that a plan changes whether its files can be edited and its node can be drained.
// It names all that cannot. So a migration is refused before it is started, and not in its middle. The options need the
// client, the hosts and the names of nodes.
func Changeable(ctx context.Context, o step.Options, p *v1.Plan) error {
	e := step.NewEnv(o, journal.Of(v1.Journal{}))
	e.Plan = p
	var errs []error
	for _, s := range p.Steps {
		if s.Kind != v1.StepKubelet || s.Restore != "" {
			continue
		}
		_, err := Kubelet{e}.Contents(ctx, s)
		errs = append(errs, err)
		if node := e.NodeNames[s.Host]; s.Drain && node != "" {
			errs = append(errs, drain.Unmanaged(ctx, e, node), drain.CheckInTreeVolumes(ctx, e, node))
		}
	}
	return errors.Join(errs...)
}
