package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// undo puts the files of a host back as its step found them, and restarts the kubelet. It waits until the kubelet is
// proven to run with what it had before. The record says that it was begun, so that a process that continues after a
// crash continues with this and not with the step. It returns an error in any case: why the step was taken back.
func (x Kubelet) undo(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("undo", s.ID)
	back := &step.RegressionError{Host: s.Host, Node: x.Env.NodeNames[s.Host], Reason: rec.Undo.Reason}
	x.Env.Report(s, step.EventProgress, fmt.Sprintf("putting the kubelet on host %s back: %s", s.Host, rec.Undo.Reason))
	if err := x.putBack(ctx, s, *rec); ctx.Err() != nil {
		return err
	} else if err != nil {
		var bad *step.VerifyError
		if !errors.As(err, &bad) { // a file, or the way to the host
			return CutOffError(
				s,
				*rec,
				fmt.Errorf(
					"%s. The old files of the kubelet on host %s could not be put back, and the same command tries that first: %w",
					rec.Undo.Reason,
					s.Host,
					err,
				),
			)
		}
		back.Still = bad.Reason + lastWords(ctx, x, s.Host)
		return back
	}
	now := x.Env.Clock.Now().UTC()
	rec.Undo.Ended, rec.Ended, rec.Result = &now, &now, v1.StepResultUndone
	unwritten(rec) // the plan's facts hold again
	rec.Node = nil
	return back
}

func (x Kubelet) putBack(ctx context.Context, s v1.Step, rec v1.StepRecord) error {
	files, err := x.kept(ctx, s, rec)
	if err != nil {
		return err
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.isUnchanged() {
			continue
		}
		if err := h.WriteFile(ctx, f.path, f.Want, f.mode); err != nil {
			return err
		}
	}
	if err := x.restart(ctx, s, asBefore(s.Edits, rec.Flags), nil); err != nil {
		return err
	}
	if rec.Node == nil {
		return nil
	}
	return x.awaitReadyAgain(ctx, s, *rec.Node)
}

// awaitReadyAgain waits until a node that was taken back is what it was. What the node object has lost a kubelet may
// not restore. That is reported, and is no reason to doubt that the host is as it was.
func (x Kubelet) awaitReadyAgain(ctx context.Context, s v1.Step, was v1.NodeRecord) error {
	why, _, err := x.worse(ctx, s, was)
	if err == nil && why != "" {
		x.Env.Report(
			s,
			step.EventProgress,
			fmt.Sprintf("node %s runs with its old flags again; what is not yet as before: %s", x.Env.NodeNames[s.Host], why),
		)
	}
	return err
}

// stuck is the error of a kubelet that does not come back although everything on its host is as it was before the
// migration. Or its host has restored what it ran with, since it did not start as it was before the migration.
func (x Kubelet) stuck(ctx context.Context, s v1.Step, bad *step.VerifyError) error {
	if bad.PutBack {
		return &step.VerifyError{
			Waited: bad.Waited,
			Reason: fmt.Sprintf(
				"%s. So it runs with the flags of the migration, and does not start with those from before it; look on host %s why not (journalctl -u kubelet), "+
					"and run the same command again when that is fixed",
				bad.Reason,
				s.Host,
			),
		}
	}
	return &step.VerifyError{
		Waited: bad.Waited,
		Reason: fmt.Sprintf(
			"%s%s. The files of the kubelet on host %s are as they were before the migration; look there at systemctl status kubelet and journalctl -u kubelet, "+
				"and run the same command again when it runs",
			bad.Reason,
			lastWords(ctx, x, s.Host),
			s.Host,
		),
	}
}

// CutOffError adds to an error what a person has to do on a host that cannot be reached after its kubelet was changed.
// If a host is reached through its kubelet, as with pods, a kubelet that does not start cuts it off. Other errors, and
// hosts on which nothing was changed, are left as they are.
func CutOffError(s v1.Step, rec v1.StepRecord, err error) error {
	if !hostaccess.IsUnreachable(err) {
		return err
	}
	how := RepairByHand(s, rec)
	if how == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, how)
}

// RepairByHand are the commands with which a person puts a kubelet back that a step has changed; empty where it has
// changed nothing.
func RepairByHand(s v1.Step, rec v1.StepRecord) string {
	if s.Kind != v1.StepKubelet {
		return ""
	}
	var copies []string
	for _, f := range trust.Files(s.Path, rec) {
		if f.Backup != "" && f.AfterSHA256 != "" {
			copies = append(copies, fmt.Sprintf(
				"    echo '%s  %s' | sha256sum -c && cp %s %s", f.BackupSHA256, f.Backup, f.Backup, f.Path,
			))
		}
	}
	if len(copies) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"if the kubelet on host %s does not start (systemctl status kubelet), nothing reaches the host through it. To put it back, run there as root:\n%s\n    systemctl daemon-reload && systemctl restart kubelet\n"+
			"then run the same command again",
		s.Host,
		strings.Join(copies, "\n"),
	)
}

// silence is how long the restart of a kubelet may go unanswered before the progress says what will be done about it,
// or can be.
const silence = 30 * time.Second

// hint is what is told when something has taken so long.
type hint struct {
	After   time.Duration
	Message string
}

// Hints are for the restart of a kubelet that a step has changed, in order. A person who puts files back by hand must
// not meet the host's own guard doing so.
func Hints(s v1.Step, rec v1.StepRecord, guarded bool) []hint {
	how := RepairByHand(s, rec)
	switch {
	case how == "":
		return nil
	case !guarded:
		return []hint{{silence, how}}
	}
	guard := fmt.Sprintf(
		"if its kubelet does not stay up within %[2]s of its restart, host %[1]s puts the old files back by itself",
		s.Host,
		hostaccess.KubeletPatience,
	)
	return []hint{{silence, guard}, {hostaccess.KubeletPatience + silence, how}}
}

// Hinting waits for something that may go unanswered for minutes, and gives the hints on the way. It is the machine's
// time that counts here, which the access to a host measures in, too.
func (x Kubelet) Hinting(s v1.Step, hints []hint, do func() error) error {
	done := make(chan struct{})
	var told sync.WaitGroup
	told.Go(func() {
		begun := time.Now()
		for _, h := range hints {
			select {
			case <-done:
				return
			case <-time.After(h.After - time.Since(begun)):
				x.Env.Report(s, step.EventProgress, h.Message)
			}
		}
	})
	defer told.Wait() // what is over is not reported
	defer close(done)
	return do()
}

// lastWords are what a kubelet logged last, as the end of a sentence.
func lastWords(ctx context.Context, x Kubelet, host string) string {
	if words := step.KubeletWords(ctx, x.Env, host); words != "" {
		return "; its last words: " + words
	}
	return ""
}
