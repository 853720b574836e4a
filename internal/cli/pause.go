package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/cli/seed"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/status"
)

func newPause(c *console.Console) *cobra.Command {
	var reason string
	var output *printer.Format
	cmd := &cobra.Command{
		Use:     "pause",
		Short:   "Let a run wait before its next step, from any machine",
		Args:    cobra.NoArgs,
		Example: "  transplant pause --reason \"the shop is open\"\n  transplant pause --seed-namespace=cluster-abc",
		Long: "Pause asks the run to wait: the step that is under way is finished first. The process that executes the run keeps its lock meanwhile. An apply or rollback\n" +
			"that is started on a paused run says so and waits, too. Asking twice changes nothing. Pause needs the right to update one ConfigMap.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := ownRun(c)
			if err != nil {
				return err
			}
			return pauseRun(cmd.Context(), k, reason, output)
		},
	}
	output = console.AddFormatFlag(cmd, "text", "json", "yaml")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in a few words: it is shown to all who look on")
	return seed.AddTo(c, cmd, func(ctx context.Context, h *seed.Command) error {
		return pauseRun(ctx, runInSeed(h, h.Part), reason, output)
	})
}

// pauseRun asks a run to wait before its next step.
func pauseRun(ctx context.Context, k keptRun, reason string, output *printer.Format) error {
	if err := k.RefuseGuess(); err != nil {
		return err
	}
	doc, err := findUnfinishedRun(ctx, k, "pause")
	if err != nil {
		return err
	}
	want := v1.Pause{
		Run:    doc.Run,
		By:     requesterName(),
		At:     k.now().UTC(),
		Reason: reason,
	}
	asked, err := pause.Request(ctx, k.at, want)
	if err != nil {
		return err
	}
	held, err := lock.ReadAt(ctx, k.at)
	next := "transplant status --watch" + k.flags
	k.Narrate(
		"migration %s is %s\n%s\nnext: %s; %s lets it go on",
		doc.Run,
		pause.Describe(*asked),
		describePause(held, err),
		next,
		pause.HowToResume(k.at),
	)
	return k.PrintResult(output, v1.ChangeResult{
		Command: "pause",
		Changed: isOwnRequest(*asked, want),
		Run:     doc.Run,
		Phase:   doc.Phase,
		Paused:  asked,
		Lock:    lockStatus(k, held, err),
		Next:    next,
	})
}

// keptRun is where the journal, the pause and the lock of a run are kept, and how commands are called for it.
type keptRun struct {
	*console.Console
	at  journal.ObjectLocation
	now func() time.Time
	// flags name the run in further commands: those of a seed, or none.
	flags string
	// name says which cluster this is; the journal is nil where it was not read.
	name func(ctx context.Context, doc *v1.Journal)
}

// ownRun is the run on a cluster that runs its own control plane.
func ownRun(c *console.Console) (keptRun, error) {
	if err := c.Connect(); err != nil {
		return keptRun{}, err
	}
	name := func(ctx context.Context, doc *v1.Journal) { c.NameCluster(c.DescribeCluster(ctx, doc)) }
	return keptRun{
		Console: c,
		at:      journal.InCluster(c.Kube),
		now:     c.ServerTime,
		name:    name,
	}, nil
}

// runInSeed is the run of a part of a migration whose control plane is in a seed.
func runInSeed(h *seed.Command, part hosted.Part) keptRun {
	return keptRun{
		Console: h.Console,
		at:      h.Plane.Location(part),
		now:     h.Now,
		flags:   h.Where(part),
		name:    func(context.Context, *v1.Journal) { h.Narrate("%s", h.PlaneName()) },
	}
}

func newResume(c *console.Console) *cobra.Command {
	var output *printer.Format
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "Let a paused run go on",
		Args:    cobra.NoArgs,
		Example: "  transplant resume",
		Long:    "Resume takes back what pause asked for. It executes nothing itself: if the lock is free, run apply or rollback after it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := ownRun(c)
			if err != nil {
				return err
			}
			return resumeRun(cmd.Context(), k, output)
		},
	}
	output = console.AddFormatFlag(cmd, "text", "json", "yaml")
	return seed.AddTo(c, cmd, func(ctx context.Context, h *seed.Command) error {
		return resumeRun(ctx, runInSeed(h, h.Part), output)
	})
}

// resumeRun lifts the pause of a run.
func resumeRun(ctx context.Context, k keptRun, output *printer.Format) error {
	if err := k.RefuseGuess(); err != nil {
		return err
	}
	doc, err := findUnfinishedRun(ctx, k, "resume")
	if err != nil {
		return err
	}
	was, err := pause.Resume(ctx, k.at, doc.Run)
	if err != nil {
		return err
	}
	result := v1.ChangeResult{
		Command: "resume",
		Changed: was != nil,
		Run:     doc.Run,
		Phase:   doc.Phase,
		Paused:  was,
	}
	if was == nil {
		k.Narrate("migration %s was not paused: nothing to do", doc.Run)
		return k.PrintResult(output, result)
	}
	k.Narrate("the pause of migration %s is lifted: it was %s", doc.Run, pause.Describe(*was))
	held, err := lock.ReadAt(ctx, k.at)
	result.Lock = lockStatus(k, held, err)
	if errors.Is(err, lock.ErrNoLock) {
		result.Next = k.Called + " " + map[string]string{
			v1.RunApplying:    "apply",
			v1.RunRollingBack: "rollback",
		}[doc.Phase] + k.flags
		k.Narrate("no command executes it now\nnext: %s", result.Next)
	} else if err == nil {
		result.Next = k.AsCalled("transplant status --watch" + k.flags)
		k.Narrate("%s executes it\nnext: %s", held.Who(), result.Next)
	}
	return k.PrintResult(output, result)
}

// findUnfinishedRun is the run that is begun and not ended; an error where there is none to pause or resume.
func findUnfinishedRun(ctx context.Context, k keptRun, what string) (v1.Journal, error) {
	j, err := k.at.Open(ctx)
	if errors.Is(err, journal.ErrNoJournal) {
		return v1.Journal{}, exitcode.With(
			exitcode.Error,
			"no migration was started on this cluster: there is nothing to %s",
			what,
		)
	} else if err != nil {
		return v1.Journal{}, err
	}
	doc := j.Doc()
	k.name(ctx, &doc)
	if !doc.IsUnderWay() {
		return v1.Journal{}, exitcode.With(
			exitcode.Error,
			"migration %s is %s: there is nothing to %s",
			doc.Run,
			wording.StateWords(doc.Phase),
			what,
		)
	}
	return doc, nil
}

// describePause says from when on a paused run waits, by what was read of the lock.
func describePause(held *lock.State, err error) string {
	switch {
	case errors.Is(err, lock.ErrNoLock):
		return "no command executes it now; the next apply or rollback waits before its first step"
	case err != nil:
		return fmt.Sprintf("whether a process executes it now is unknown: %v", err)
	}
	return held.Who() + " finishes the step that is under way, and waits"
}

// lockStatus is what was read of a lock; nil where there is none.
func lockStatus(k keptRun, held *lock.State, err error) *v1.LockStatus {
	if err != nil {
		return nil
	}
	return status.Judge(status.Facts{Now: k.now(), Lock: held}).Lock
}

// isOwnRequest reports whether the run waits for this request, and not for an earlier one.
func isOwnRequest(asked, want v1.Pause) bool {
	return asked.By == want.By && asked.At.Truncate(time.Second).Equal(want.At.Truncate(time.Second))
}

// requesterName is who pauses a run.
func requesterName() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return client.UserName() + "@" + cmp.Or(host, "unknown-host")
}

func newUnlock(c *console.Console) *cobra.Command {
	var yes, force bool
	var output *printer.Format
	cmd := &cobra.Command{
		Use:     "unlock",
		Short:   "Remove the lock of a run whose holder has ended",
		Args:    cobra.NoArgs,
		Example: "  transplant unlock",
		Long: "Unlock shows who holds the lock on the cluster, and watches for ten seconds whether it is still renewed. Then it asks, and deletes the lock as it was\n" +
			"seen. If the holder was a process of this machine, in the same container, unlock knows at once that it has ended. A lock that is renewed is refused: its holder is at work.\n\n" +
			"With --force a lock that is renewed is deleted, too: its holder notices within seconds and stops in the middle of its step.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := ownRun(c)
			if err != nil {
				return err
			}
			return unlockRun(cmd.Context(), k, yes, force, output)
		},
	}
	output = console.AddFormatFlag(cmd, "text", "json", "yaml")
	cmd.Flags().BoolVar(&yes, "yes", false, console.YesUsage)
	cmd.Flags().
		BoolVar(&force, "force", false, "also when the lock is renewed: its holder stops in the middle of its step")
	return seed.AddTo(c, cmd, func(ctx context.Context, h *seed.Command) error {
		return unlockRun(ctx, runInSeed(h, hosted.Handover), yes, force, output) // the parts have one lock
	})
}

func unlockRun(ctx context.Context, k keptRun, yes, force bool, output *printer.Format) error {
	k.name(ctx, nil)
	result, err := removeLock(ctx, k, yes, force)
	if err != nil {
		return err
	}
	return k.PrintResult(output, result)
}

// removeLock deletes the lock, unless its holder is at work.
func removeLock(ctx context.Context, k keptRun, yes, force bool) (v1.ChangeResult, error) {
	result := v1.ChangeResult{Command: "unlock"}
	ownLock, err := lock.ReadAt(ctx, k.at)
	if errors.Is(err, lock.ErrNoLock) {
		k.Narrate("the lock is free: nothing to do")
		return result, nil
	} else if err != nil {
		return result, err
	}
	result.Lock = lockStatus(k, ownLock, nil)
	k.Narrate("the lock is held by %s", wording.HolderWords(*result.Lock))
	alive, err := isRenewed(ctx, k, ownLock)
	switch {
	case errors.Is(err, lock.ErrNoLock):
		k.Narrate("its holder gave it up while it was looked at: nothing to do")
		return result, nil
	case err != nil:
		return result, err
	case alive && !force:
		return result, exitcode.With(
			exitcode.Locked,
			"%s renews its lock, so it is at work: wait for it, stop it with Ctrl-C where it runs, or pause it with transplant pause; --force takes the lock from it in the middle of its step",
			ownLock.Who(),
		)
	case alive:
		k.Narrate("it is renewed: its holder is at work, and will stop in the middle of its step")
	}
	if err := k.Approve(client.Question{Yes: yes, What: fmt.Sprintf("delete the lock of %s", ownLock.Who())}); err != nil {
		return result, err
	}
	if force {
		err = lock.ForceUnlock(ctx, k.at, ownLock)
	} else {
		err = lock.Unlock(ctx, k.at, ownLock)
	}
	var locked *lock.HeldError
	if errors.As(err, &locked) {
		return result, exitcode.With(
			exitcode.Locked,
			"the lock was renewed or taken by %s in between: it was left alone",
			holder.Words(locked.Holder),
		)
	} else if err != nil {
		return result, err
	}
	result.Changed, result.Next = true, k.AsCalled(nextAfterUnlock(ctx, k))
	k.Narrate("the lock is gone\nnext: %s", result.Next)
	return result, nil
}

// isRenewed reports whether the holder of a lock is at work.
func isRenewed(ctx context.Context, k keptRun, ownLock *lock.State) (bool, error) {
	if ownLock.EndedHere() {
		k.Narrate("its holder was a process of this machine, which is gone")
		return false, nil
	}
	k.Narrate("looking for %s whether it is renewed", 2*lock.Renewal)
	err := lock.Observe(ctx, k.at, client.LockClock, ownLock)
	var locked *lock.HeldError
	if errors.As(err, &locked) {
		return true, nil
	}
	return false, err
}

// nextAfterUnlock is the command that goes on with what the holder of the lock had begun.
func nextAfterUnlock(ctx context.Context, k keptRun) string {
	parts := []keptRun{k}
	if k.at.NamespaceOrDefault() != component.Namespace { // the second part of a migration in a seed has the same lock
		finish := k
		finish.at.Part, finish.flags = string(hosted.Finish), k.flags+" --part "+string(hosted.Finish)
		parts = append(parts, finish)
	}
	for _, part := range parts {
		j, err := part.at.Open(ctx)
		if err != nil {
			continue
		}
		switch j.Doc().Phase {
		case v1.RunApplying:
			return "transplant apply" + part.flags + ", or transplant rollback" + k.flags
		case v1.RunRollingBack:
			return "transplant rollback" + k.flags
		}
	}
	return "transplant status" + k.flags
}
