package precondition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// ManagersRecorded returns why a migration must not be rolled back. That is when a cloud-controller-manager of its plan
// is live, and no record says that the migration started it. A rollback takes back what records name. It would leave
// that manager where it is, and the kube-controller-manager would run the same loops next to it. Nothing is changed.
// The options need both clients, the hosts, and the seed where there is one.
func ManagersRecorded(ctx context.Context, o step.Options, j *journal.Journal) error {
	e := step.NewEnv(o, j)
	doc := j.Doc()
	e.Plan = &doc.Plan
	for _, s := range doc.Plan.Steps {
		if s.Component != component.CCM {
			continue
		}
		at, err := unrecorded(ctx, e, s)
		if err != nil {
			return fmt.Errorf("looking whether a %s runs that no record names: %w", component.CCM, err)
		}
		if at != "" {
			return &trust.UntrustedError{What: "the journal of migration " + doc.Run, Err: fmt.Errorf(
				"%s is live, and no record says that step %s made it: a rollback would leave this %s running next to the %s. "+
					"Nothing was changed. Remove it by hand, and then run the same command again", at, s.ID, component.CCM, component.KCM)}
		}
	}
	return nil
}

// FilesUnchanged names every file that a rollback is still to put back or remove, and that was changed outside the
// migration. Each step asks again. A rollback that began without this question would stop in its middle, with some
// hosts in tree and some not. Hosts that do not answer, or are not among those of the options, are left to the steps.
func FilesUnchanged(ctx context.Context, o step.Options, j *journal.Journal, back *v1.Plan) error {
	e := step.NewEnv(o, j)
	e.Plan = back
	var changed []v1.ChangedFact
	asked := map[string]bool{} // a rollback may restore a file in several steps
	for _, s := range back.Steps {
		_, excluded := e.IsExcluded(s)
		left := excluded || j.Record(s.Restore).BackupSHA256 == "" // that step was begun and changed nothing
		isHost := func(h hostaccess.Host) bool { return h.Name() == s.Host }
		if left || !restoresFile(s) || j.Record(s.ID).IsEnded() || !slices.ContainsFunc(o.Hosts, isHost) {
			continue
		}
		place := s.Host + ":" + s.Path
		if asked[place] {
			continue
		}
		asked[place] = true
		sum, _, err := e.DigestFile(ctx, s.Host, s.Path)
		if hostaccess.IsUnreachable(err) {
			continue
		} else if err != nil {
			return err
		}
		if stale, is := errors.AsType[*step.StaleError](e.CheckUnchanged(s, sum)); is {
			changed = append(changed, stale.Changed...)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return &step.StaleError{Changed: changed}
}

// restoresFile reports whether a step replaces or removes a whole file, as long as no other client has changed it.
func restoresFile(s v1.Step) bool {
	switch s.Kind {
	case v1.StepRestoreManifest, v1.StepRemoveManifest, v1.StepRemoveFile, v1.StepEditUnit, v1.StepStartUnit:
		return s.Restore != "" && s.Host != "" && s.Path != "" && s.Path != layout.CCMToken
	default:
		return false
	}
}

// unrecorded names the manager that a step starts, where it is live and a rollback would leave it there.
func unrecorded(ctx context.Context, e *step.Env, s v1.Step) (string, error) {
	rec := e.Journal.Record(s.ID)
	switch s.Kind {
	case v1.StepAddManifest:
		if _, out := e.IsExcluded(s); out || rec.Result != "" {
			return "", nil
		}
		_, sum, err := e.ReadFile(ctx, s.Host, s.Path)
		if err != nil || sum == step.Absent {
			return "", err
		}
		return s.Path + " on host " + s.Host, nil
	case v1.StepEnsureObject:
		if rec.Created || !object.IsWorkload(s.Ref) {
			return "", nil
		}
		live, err := object.ReadLive(ctx, e, s.Ref)
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
	return err == nil && pods == 0 && o.GetKind() == "Deployment" && object.ReplicasOf(o) == 0
}
