// Package kubelet executes the steps that change a kubelet, and decides whether its node is as it was before.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/options"
)

// Kubelet changes the flags of a kubelet, or puts them back, and restarts it.
//
//	wait for the budget ─> image credentials answer? ─> drain ─> look at the node ─> write every file ─> restart
//	                                                                                    │
//	                     done <─yes─ node as before? <─yes─ process, lease, Ready? <────┘
//	                                     │no                      │no
//	                                     └──> put the files back, restart, Ready? ──> stop
//
// What a file says proves nothing. The new process' arguments do, and that it, and no process before it, renewed the
// node's lease and reported Ready.
type Kubelet struct{ Env *step.Env }

// Done reports whether the change is in force, and that no node is left unschedulable by what is taken back.
func (x Kubelet) Done(ctx context.Context, s v1.Step) (bool, error) {
	if there, err := x.inForce(ctx, s); err != nil || !there {
		return false, err
	}
	left, err := x.cordonLeft(ctx, s)
	if err == nil && left {
		err = step.Pending("node %s is still unschedulable", x.Env.NodeNames[s.Host])
	}
	return err == nil, err
}

// inForce reports whether the files are as the step wants them and that the running process shows it. That a gate of
// the configuration file is in force no process shows: that the kubelet was restarted after the write the journal says.
func (x Kubelet) inForce(ctx context.Context, s v1.Step) (bool, error) {
	files, err := x.Contents(ctx, s)
	if err != nil {
		return false, err
	}
	if i := slices.IndexFunc(files, func(f fileChange) bool { return !f.isUnchanged() }); i >= 0 {
		return false, step.Pending("%s on host %s is not as this step makes it", files[i].path, s.Host)
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return false, err
	}
	procs, err := h.Processes(ctx, component.Kubelet)
	if err != nil {
		return false, err
	}
	if len(procs) != 1 {
		return false, step.PendingError(fmt.Sprintf("%d processes of the kubelet run on host %s", len(procs), s.Host))
	}
	if why := x.expectation(s)(procs[0].Args); why != "" {
		return false, step.PendingError(why)
	}
	return true, nil
}

// Do changes the kubelet of a host, and takes the change back where its node does not come back as before.
func (x Kubelet) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if ended, err := x.onlyCordoned(ctx, s, rec); err != nil || ended {
		return err
	}
	x.forgetUnchanged(ctx, s, rec)
	touched, err := touched(ctx, x, s, *rec)
	if err != nil {
		return err
	}
	isFirst := s.Restore == "" && !touched
	release, err := drain.Admit(ctx, x.Env, s, !isFirst)
	if err != nil {
		return err
	}
	defer release()
	if isFirst {
		if err := x.credentials(ctx, s, rec); err != nil {
			return err
		}
	}
	if mayDrain(x.Env, s, *rec) {
		return drained(ctx, x.Env, s, rec, touched, func() error { return x.changeOrRevert(ctx, s, rec) })
	}
	return x.changeOrRevert(ctx, s, rec)
}

// touched reports whether this step has changed a host already, so that its node need not be as before. A record alone
// is no proof: it is in a ConfigMap, and what is asked of an untouched host would be passed over. The host has the
// backups then, and a file that differs from its own or is being put back. Or it has all files as the step wants them.
func touched(ctx context.Context, x Kubelet, s v1.Step, rec v1.StepRecord) (bool, error) {
	if rec.AfterSHA256 == "" {
		return false, nil
	}
	if err := trust.JudgeRecord(x.Env.Journal.Doc().Run, rec); err != nil {
		return false, &trust.UntrustedError{What: "the record of step " + s.ID, Err: err}
	}
	isPutBack := rec.Undo != nil && rec.Undo.Ended == nil
	for _, r := range trust.Files(s.Path, rec) {
		if r.Backup == "" {
			continue
		}
		_, now, err := x.Env.ReadFile(ctx, s.Host, r.Path)
		if err != nil {
			return false, err
		}
		_, kept, err := x.Env.ReadFile(ctx, s.Host, r.Backup)
		if err != nil {
			return false, err
		}
		if kept == r.BackupSHA256 && (now != kept || isPutBack) {
			return true, nil
		}
	}
	files, err := x.Contents(ctx, s)
	return err == nil && !slices.ContainsFunc(files, func(f fileChange) bool { return !f.isUnchanged() }), err
}

// forgetUnchanged clears what a record says of files when they are as before the step and the kubelet runs with them.
// An earlier try was killed before it wrote one, or a person or the host itself put them back. Who drains and changes
// such a node does so for the first time, with all that is looked at before.
func (x Kubelet) forgetUnchanged(ctx context.Context, s v1.Step, rec *v1.StepRecord) {
	if s.Restore != "" || rec.AfterSHA256 == "" || rec.Undo != nil && rec.Undo.Ended == nil {
		return
	}
	p, why := x.process(ctx, s.Host)
	if why != "" || shownBy(s.Edits)(p.Args) == "" || asBefore(s.Edits, rec.Flags)(p.Args) != "" {
		return
	}
	if same, err := x.asItWas(ctx, s, *rec); err == nil && same {
		unwritten(rec)
	}
}

// unwritten makes a record say that no file was changed.
func unwritten(rec *v1.StepRecord) {
	rec.AfterSHA256 = ""
	for i := range rec.Files {
		rec.Files[i].AfterSHA256 = ""
	}
}

// changeOrRevert changes the host, and takes it back when the node does not come back as it was. A step that puts
// something back is not taken back.
func (x Kubelet) changeOrRevert(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if rec.Undo != nil && rec.Undo.Ended == nil {
		return x.undo(ctx, s, rec)
	}
	err := x.applyChange(ctx, s, rec)
	var bad *step.VerifyError
	switch {
	case err == nil:
		rec.Node = nil
		return nil
	case !errors.As(err, &bad):
		if s.Restore == "" && hasUntouchedFiles(ctx, x.Env, s, *rec, err) {
			unwritten(rec)
		}
		return CutOffError(s, *rec, err)
	case s.Restore != "":
		return x.stuck(ctx, s, bad)
	}
	rec.Undo = &v1.UndoRecord{Started: x.Env.Clock.Now().UTC(), Reason: bad.Reason + lastWords(ctx, x, s.Host)}
	return x.undo(ctx, s, rec)
}

func (x Kubelet) applyChange(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	files, err := x.Contents(ctx, s)
	if err != nil {
		return err
	}
	if err := x.baseline(ctx, s, rec); err != nil {
		return err
	}
	if err := x.backUpAll(ctx, s, rec); err != nil {
		return err
	}
	if err := x.writeAll(ctx, s, rec, files); err != nil {
		return err
	}
	before, err := x.guarded(ctx, s, *rec)
	if err != nil {
		return err
	}
	if err := x.restart(ctx, s, x.expectation(s), before); err != nil {
		return err
	}
	if rec.Node != nil {
		if err := x.awaitAsBefore(ctx, s, rec); err != nil {
			return err
		}
	}
	x.serving(ctx, s, rec)
	if s.Canary && s.Restore == "" {
		return x.soak(ctx, s, rec, options.Soak(x.Env.Plan.Options))
	}
	return nil
}

// baseline keeps in the record what the node is like and what the kubelet runs with, before anything is changed.
func (x Kubelet) baseline(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if rec.Node != nil {
		return nil // of an earlier try, which may have changed something since
	}
	now, _, err := nodeNow(ctx, x.Env, x.Env.NodeNames[s.Host])
	if s.Restore != "" && apierrors.IsNotFound(err) {
		return nil // nothing is known to compare with; the kubelet makes its Node again
	}
	if err != nil {
		return err
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	procs, err := h.Processes(ctx, component.Kubelet)
	switch {
	case err != nil:
		return err
	case len(procs) == 1:
		now.PID, now.StartTicks = procs[0].PID, procs[0].StartTicks
		rec.Flags = flagsNamed(s.Edits, procs[0].Args)
	case s.Restore == "":
		return fmt.Errorf(
			"%d processes of the kubelet run on host %s, so transplant could not see with which flags it runs after a change: nothing was changed; look at systemctl status kubelet there",
			len(procs),
			s.Host,
		)
	}
	now.Names = certified(ctx, x, s.Host)
	if err := checkBaseline(x.Env.NodeNames[s.Host], now, rec.Flags); err != nil {
		rec.Flags = nil
		return err
	}
	rec.Node = &now
	return nil
}

// guarded are the files of a step as they were before it, for a host that can put them back by itself.
func (x Kubelet) guarded(ctx context.Context, s v1.Step, rec v1.StepRecord) ([]hostaccess.GuardedFile, error) {
	files, err := x.kept(ctx, s, rec)
	if err != nil {
		return nil, err
	}
	var out []hostaccess.GuardedFile
	for _, f := range files {
		if !f.isUnchanged() {
			out = append(out, hostaccess.GuardedFile{Path: f.path, Data: f.Want, Mode: f.mode})
		}
	}
	return out, nil
}

// restart makes the kubelet read its files again, and waits until its new process is proven to run with what they say.
// If the host is reached through the kubelet, the host itself restores the given files when the kubelet does not stay
// up.
func (x Kubelet) restart(
	ctx context.Context,
	s v1.Step,
	expect func([]string) string,
	before []hostaccess.GuardedFile,
) error {
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	was, err := x.lifeOf(ctx, s)
	if err != nil {
		return err
	}
	if err := x.reread(ctx, s); err != nil {
		return err
	}
	again, guarded := h.RestartKubelet, false
	if g, ok := h.(hostaccess.KubeletGuard); ok && len(before) > 0 {
		again, guarded = func(ctx context.Context) error { return g.RestartKubeletGuarded(ctx, before) }, true
	}
	if err := x.Hinting(s, Hints(s, x.Env.Journal.Record(s.ID), guarded), func() error { return again(ctx) }); err != nil {
		if ctx.Err() != nil || hostaccess.IsUnreachable(err) {
			return err // nothing could be put back either; the next run goes on
		}
		return &step.VerifyError{
			Reason:  fmt.Sprintf("restarting the kubelet on host %s: %v", s.Host, err),
			PutBack: errors.Is(err, hostaccess.ErrPutBack),
		}
	}
	return x.awaitKubelet(ctx, s, was, expect)
}

// reread makes the service manager read its unit files again if the step has changed one of them. Otherwise it would
// start the kubelet with the old settings. An environment file is read at each start.
func (x Kubelet) reread(ctx context.Context, s v1.Step) error {
	inUnit := func(at string) bool {
		return slices.ContainsFunc(systemdunit.UnitDirs, func(dir string) bool { return strings.HasPrefix(at, dir+"/") })
	}
	if !slices.ContainsFunc(append([]string{s.Path}, s.Files...), inUnit) {
		return nil
	}
	h, err := x.Env.UnitHost(s.Host)
	if err != nil {
		return err
	}
	return h.DaemonReload(ctx)
}

// renewed is when the kubelet of a host renewed its node's lease last; never, where there is none, as after the Node
// was deleted.
func (x Kubelet) renewed(ctx context.Context, host string) (time.Time, error) {
	var at time.Time
	err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		l, err := x.Env.Kube.CoordinationV1().
			Leases(component.NodeLeaseNamespace).
			Get(ctx, x.Env.NodeNames[host], metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the lease of node %q (host %s): %w", x.Env.NodeNames[host], host, err)
		}
		if l.Spec.RenewTime != nil {
			at = l.Spec.RenewTime.Time
		}
		return nil
	})
	return at, err
}
