package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/access"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// checkWithout refuses what names no host.
func (f *Options) checkWithout() error {
	for _, name := range f.Without {
		if name == "" || strings.ContainsAny(name, " \t=/") {
			return exitcode.With(
				exitcode.Error,
				"--without-host=%q names no host: give the name that the plan has for it, e.g. --without-host=cp-3",
				name,
			)
		}
	}
	return nil
}

// checkHosts refuses to go on, or back, with hosts that are not clear. The checks do not run again, and each run gets
// its own --host-access. A host of another cluster would be changed, or a step on one host be proven by another.
func checkHosts(now *v1.Snapshot) error {
	wrong := access.WrongHosts(now)
	if wrong.Empty() {
		return nil
	}
	return exitcode.With(
		exitcode.Blocked,
		"no step was begun: %s: correct --host-access or --context",
		strings.Join(wrong.Texts(), "; "),
	)
}

// remaining are the hosts that are still part of a migration once those of --without-host are excluded.
func remaining(doc v1.Journal, hosts []hostaccess.Host, without []string) []hostaccess.Host {
	return slices.DeleteFunc(
		journal.Staying(doc, hosts),
		func(h hostaccess.Host) bool { return slices.Contains(without, h.Name()) },
	)
}

// excludeHosts excludes the hosts of --without-host from the migration, if it is proven that they are gone. From then
// on it reads only the others.
func excludeHosts(ctx context.Context, c *client.Client, j *journal.Journal, f Options, before *v1.Snapshot) error {
	if len(f.Without) > 0 {
		o := step.Options{
			Kube:    c.Kube,
			Dynamic: c.Dynamic,
			Hosts:   c.Hosts,
			Scrape:  c.Scrape,
			Before:  before,
			Tell:    c.Tell,
			Clock:   fault.Clock(),
		}
		if err := lostnode.Exclude(ctx, o, j, f.Without, client.UserName()); err != nil {
			return err
		}
	}
	doc := j.Doc()
	for _, h := range doc.Without {
		c.Narrate(
			"without host %s, which %s excluded at %s: its steps are skipped. It must not come back as it was: reset it or delete its machine, and kubectl delete node %s",
			h.Name,
			h.By,
			h.At.Format("2006-01-02 15:04:05 MST"),
			h.Node,
		)
	}
	c.Hosts = journal.Staying(doc, c.Hosts)
	return nil
}

// ExplainLostHosts says what can be done about hosts that were lost.
func ExplainLostHosts(c *client.Client, err error, direction string) {
	lost, ok := errors.AsType[*lostnode.Error](err)
	if !ok {
		return
	}
	var names, gone []string
	again := map[string]string{planstep.Forward: "apply", planstep.Rollback: "rollback"}[direction]
	var lines []string
	for _, h := range lost.Hosts {
		names = append(names, h.Name)
		if h.Alive == "" {
			gone = append(gone, h.Name)
			continue
		}
		lines = append(lines, fmt.Sprintf("host %s cannot be given up: %s", h.Name, h.Alive))
	}
	lines = append(
		lines,
		fmt.Sprintf(
			"to go on when %s back: transplant %s",
			strings.Join(names, ", ")+english.Word(len(names), " is", " are"),
			again,
		),
	)
	if len(gone) > 0 {
		list := strings.Join(gone, ",")
		lines = append(
			lines,
			fmt.Sprintf("to go on without what is gone for good: transplant %s --without-host=%s", again, list),
		)
		if direction == planstep.Forward {
			lines = append(lines, "to go back without it: transplant rollback --without-host="+list)
		}
	}
	for _, line := range lines {
		c.Narrate("%s", line)
	}
}
