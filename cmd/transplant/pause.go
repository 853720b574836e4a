package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
)

func newPause(c *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "pause", Short: "Let a run wait before its next step, from any machine", Args: cobra.NoArgs,
		Example: "  transplant pause --reason \"the shop is open\"",
		Long: "Pause asks the run to wait: the step that is under way is finished first. Whoever carries the run out holds its lock meanwhile, and an apply or rollback\n" +
			"that is started on a paused run says so and waits, too. Asking twice changes nothing. It takes the right to update one ConfigMap.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.connect(); err != nil {
				return err
			}
			doc, err := c.running(cmd.Context(), "pause")
			if err != nil {
				return err
			}
			asked, err := pause.Request(cmd.Context(), c.kube, v1.Pause{Run: doc.Run, By: c.asker(), At: c.serverTime().UTC(), Reason: reason})
			if err != nil {
				return err
			}
			c.narrate("migration %s is %s\n%s\nnext: transplant status --watch; transplant resume lets it go on", doc.Run, pause.Describe(*asked), c.waitsWhen(cmd.Context()))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in a few words: it is shown to everybody who looks on")
	return cmd
}

func newResume(c *connection) *cobra.Command {
	return &cobra.Command{
		Use: "resume", Short: "Let a paused run go on", Args: cobra.NoArgs,
		Example: "  transplant resume",
		Long:    "Resume takes back what pause asked for. It carries nothing out itself: where nobody holds the lock, run apply or rollback after it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.connect(); err != nil {
				return err
			}
			doc, err := c.running(cmd.Context(), "resume")
			if err != nil {
				return err
			}
			was, err := pause.Resume(cmd.Context(), c.kube, doc.Run)
			if err != nil {
				return err
			}
			if was == nil {
				c.narrate("migration %s was not paused: nothing to do", doc.Run)
				return nil
			}
			c.narrate("migration %s goes on; it was %s", doc.Run, pause.Describe(*was))
			if ownLock, err := lock.Read(cmd.Context(), c.kube); errors.Is(err, lock.ErrNoLock) {
				c.narrate("nobody carries it out now\nnext: transplant %s", map[string]string{v1.RunApplying: "apply", v1.RunRollingBack: "rollback"}[doc.Phase])
			} else if err == nil {
				c.narrate("%s carries it out\nnext: transplant status --watch", ownLock.Who())
			}
			return nil
		},
	}
}

// running is the run that is begun and not ended; an error where there is none to pause or resume.
func (c *connection) running(ctx context.Context, what string) (v1.Journal, error) {
	j, err := journal.Open(ctx, c.kube)
	if errors.Is(err, journal.ErrNoJournal) {
		return v1.Journal{}, withCode(exitError, "no migration was started on this cluster: there is nothing to %s", what)
	} else if err != nil {
		return v1.Journal{}, err
	}
	doc := j.Doc()
	if doc.Phase != v1.RunApplying && doc.Phase != v1.RunRollingBack {
		return v1.Journal{}, withCode(exitError, "migration %s is %s: there is nothing to %s", doc.Run, stateWords(doc.Phase), what)
	}
	return doc, nil
}

// waitsWhen says from when on a paused run waits.
func (c *connection) waitsWhen(ctx context.Context) string {
	ownLock, err := lock.Read(ctx, c.kube)
	switch {
	case errors.Is(err, lock.ErrNoLock):
		return "nobody carries it out now; the next apply or rollback waits before its first step"
	case err != nil:
		return fmt.Sprintf("whether somebody carries it out now is unknown: %v", err)
	}
	return ownLock.Who() + " finishes the step that is under way, and waits"
}

// asker is who pauses a run.
func (c *connection) asker() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return userName() + "@" + cmp.Or(host, "unknown-host")
}
