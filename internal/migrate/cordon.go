package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// leftBefore is what a node was like before a kubelet step of the way there that was begun and not finished: its cordon may still be ours, and whoever asks
// the node now would take it for somebody else's. Empty for a step of the way there, and where every drain of the host has ended.
func (e *Engine) leftBefore(s v1.Step) string {
	if s.Restore == "" {
		return ""
	}
	doc := e.journal.Doc()
	for _, there := range doc.Plan.Steps {
		if rec := e.journal.Record(there.ID); there.Kind == v1.StepKubelet && there.Host == s.Host && rec.Result == "started" && rec.Before != "" {
			return rec.Before
		}
	}
	return ""
}

// cordonLeft tells that a node is still unschedulable because of a step that was interrupted and that this one takes back. Once this one is done a cordon is
// somebody else's.
func (x kubelet) cordonLeft(ctx context.Context, s v1.Step) (bool, error) {
	if x.leftBefore(s) != wasSchedulable || x.journal.Record(s.ID).Result == "done" {
		return false, nil
	}
	n, err := x.Kube.CoreV1().Nodes().Get(ctx, x.NodeNames[s.Host], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading node %s of host %s: %w", x.NodeNames[s.Host], s.Host, err)
	}
	return n.Spec.Unschedulable, nil
}

// onlyCordoned makes a node schedulable again whose drain was interrupted before its kubelet was changed. To drain and restart it for that would cost its
// pods a second move. False where more is to be put back.
func (x kubelet) onlyCordoned(ctx context.Context, s v1.Step, rec *v1.StepRecord) (bool, error) {
	if left, err := x.cordonLeft(ctx, s); err != nil || !left || rec.AfterSHA256 != "" {
		return false, err
	}
	var pending pendingError
	if asBefore, err := x.inForce(ctx, s); errors.As(err, &pending) || err == nil && !asBefore {
		return false, nil
	} else if err != nil {
		return false, err
	}
	rec.Before = wasSchedulable
	if err := x.journal.Save(ctx, *rec); err != nil {
		return false, err
	}
	node := x.NodeNames[s.Host]
	if err := x.cordon(ctx, node, false); err != nil {
		return false, fmt.Errorf("making node %s schedulable again: %w", node, err)
	}
	x.tell(s, "progress", fmt.Sprintf("node %s takes pods again; its kubelet had not been changed", node))
	return true, nil
}

// afterWork makes a drained node schedulable again when the work on its host is done, was taken back, or failed before it changed a file. The error then says
// whether the node takes pods again: what failed knows of its file only.
func (e *Engine) afterWork(ctx context.Context, s v1.Step, rec *v1.StepRecord, node string, err error) error {
	if rec.Before == wasCordoned {
		return err
	}
	ended := err == nil || rec.Result == "undone"
	if !ended && (ctx.Err() != nil || !e.untouched(ctx, s, *rec, err)) {
		if ctx.Err() != nil || interrupted(err) {
			return err
		}
		return fmt.Errorf("%w; node %s takes no new pods until this step has ended, or was taken back with transplant rollback", err, node)
	}
	if back := e.cordon(ctx, node, false); back != nil {
		rec.Result = "started" // the node's cordon is still owed
		return errors.Join(err, fmt.Errorf("making node %s schedulable again: %w; the same command tries it again, or kubectl uncordon %s", node, back, node))
	}
	if ended {
		return err
	}
	return fmt.Errorf("%w; node %s takes pods again", err, node)
}

// untouched tells that a step's work failed with every file of its host as it was, so that the kubelet runs with what it had. A kubelet that was restarted
// and does not come back is not untouched.
func (e *Engine) untouched(ctx context.Context, s v1.Step, rec v1.StepRecord, failure error) bool {
	var restarted *VerifyError
	if rec.Undo != nil && rec.Undo.Ended == nil || errors.As(failure, &restarted) {
		return false
	}
	if rec.AfterSHA256 == "" {
		return true
	}
	if hostaccess.IsUnreachable(failure) {
		return false // asked for its files, it would be waited for once more, and whoever has to mend it would hear of it a minute later
	}
	same, err := kubelet{e}.asItWas(ctx, s, rec)
	return err == nil && same
}

// asItWas tells that every file of a host is as it was before a step.
func (x kubelet) asItWas(ctx context.Context, s v1.Step, rec v1.StepRecord) (bool, error) {
	files, err := x.kept(ctx, s, rec)
	return err == nil && !slices.ContainsFunc(files, func(f fileChange) bool { return !f.same() }), err
}
