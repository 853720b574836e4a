package migrate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// ManagersRecorded returns why a migration must not be rolled back: a cloud-controller-manager of its plan is
// live, and no record says that the migration started it. A rollback takes back what records name. It would leave
// that manager where it is, and the kube-controller-manager would run the same loops next to it. Nothing is
// changed. The options need both clients, the hosts, and the seed where there is one.
func ManagersRecorded(ctx context.Context, o Options, j *Journal) error {
	e := New(o, j)
	doc := j.Doc()
	e.plan = &doc.Plan
	for _, s := range doc.Plan.Steps {
		if s.Component != ccm {
			continue
		}
		at, err := e.unrecorded(ctx, s)
		if err != nil {
			return fmt.Errorf("looking whether a %s runs that no record names: %w", ccm, err)
		}
		if at != "" {
			return &UntrustedError{What: "the journal of migration " + doc.Run, Err: fmt.Errorf(
				"%s is live, and no record says that step %s made it: a rollback would leave this %s running next to the %s. "+
					"Nothing was changed. Remove it by hand, and then run the same command again", at, s.ID, ccm, kcm)}
		}
	}
	return nil
}

// unrecorded names the manager that a step starts, where it is live and a rollback would leave it there.
func (e *Engine) unrecorded(ctx context.Context, s v1.Step) (string, error) {
	rec := e.journal.Record(s.ID)
	switch s.Kind {
	case v1.StepAddManifest:
		if _, out := e.takenOut(s); out || rec.Result != "" {
			return "", nil
		}
		_, sum, err := e.read(ctx, s.Host, s.Path)
		if err != nil || sum == absent {
			return "", err
		}
		return s.Path + " on host " + s.Host, nil
	case v1.StepEnsureObject:
		if rec.Created || !runsPods(s.Ref) {
			return "", nil
		}
		live, err := e.live(ctx, s.Ref)
		if apierrors.IsNotFound(err) || err == nil && isScaledToZero(live) {
			return "", nil
		}
		return s.Ref, err
	default:
		return "", nil
	}
}

// isScaledToZero reports whether a Deployment shall have no pod and has none.
func isScaledToZero(o *unstructured.Unstructured) bool {
	pods, _, err := unstructured.NestedInt64(o.Object, "status", "replicas")
	return err == nil && pods == 0 && o.GetKind() == "Deployment" && replicasOf(o) == 0
}
