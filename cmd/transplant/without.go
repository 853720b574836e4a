package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// withoutFlag names the hosts that are gone for good.
func (f *changing) withoutFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.without, "without-host", nil, "go on without this host, which is gone for good: its steps are skipped, and it must not come back as it was (repeatable)")
}

// checkWithout refuses what names no host.
func (f *changing) checkWithout() error {
	for _, name := range f.without {
		if name == "" || strings.ContainsAny(name, " \t=/") {
			return withCode(exitError, "--without-host=%q names no host: give the name that the plan has for it, e.g. --without-host=cp-3", name)
		}
	}
	return nil
}

// remaining are the hosts that are still part of a migration once those of --without-host are taken out.
func remaining(doc v1.Journal, hosts []hostaccess.Host, without []string) []hostaccess.Host {
	return slices.DeleteFunc(journal.Staying(doc, hosts), func(h hostaccess.Host) bool { return slices.Contains(without, h.Name()) })
}

// takeOut takes the hosts of --without-host out of the migration, where it is proven that they are gone, and looks at the others alone from then on.
func (c *connection) takeOut(ctx context.Context, j *journal.Journal, f changing, before *v1.Snapshot) error {
	if len(f.without) > 0 {
		o := step.Options{Kube: c.kube, Dynamic: c.dynamic, Hosts: c.hosts, Scrape: c.scrape, Before: before, Tell: c.tell, Clock: testClock()}
		if err := lostnode.Exclude(ctx, o, j, f.without, userName()); err != nil {
			return err
		}
	}
	doc := j.Doc()
	for _, h := range doc.Without {
		c.narrate("without host %s, which %s took out at %s: its steps are skipped. It must not come back as it was: reset it or delete its machine, and kubectl delete node %s",
			h.Name, h.By, h.At.Format("2006-01-02 15:04:05 MST"), h.Node)
	}
	c.hosts = journal.Staying(doc, c.hosts)
	return nil
}

// choices says what can be done about hosts that were lost.
func (c *connection) choices(err error, direction string) {
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
	lines = append(lines, fmt.Sprintf("to go on when %s back: transplant %s", strings.Join(names, ", ")+isOrAre(len(names)), again))
	if len(gone) > 0 {
		list := strings.Join(gone, ",")
		lines = append(lines, fmt.Sprintf("to go on without what is gone for good: transplant %s --without-host=%s", again, list))
		if direction == planstep.Forward {
			lines = append(lines, "to go back without it: transplant rollback --without-host="+list)
		}
	}
	c.narrate("%s", strings.Join(lines, "\n"))
}

func isOrAre(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}
