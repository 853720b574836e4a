package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate"
)

// approve asks; without a terminal and without --yes it refuses, since nobody could have agreed.
func (c *connection) approve(yes bool, what string) error {
	if yes {
		return nil
	}
	if f, ok := c.in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return withCode(exitNotApproved, "not approved: to %s there is no terminal to ask on; review the plan above and run the same command with --yes", what)
	}
	fmt.Fprintf(c.err, "%s? Type yes to go on: ", what)
	line, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return withCode(exitNotApproved, "not approved; nothing was changed")
	}
	return nil
}

// tell prints what happens to a step, a line each.
func (c *connection) tell(e migrate.Event) {
	at, l := e.Time.Format("15:04:05"), layout{ascii: c.ascii}
	switch e.Kind {
	case "started":
		c.narrate("%s [%2d/%d] %s", at, e.Number, e.Total, e.Step.Title)
	case "progress":
		c.narrate("%s         %s", at, e.Message)
	case "done":
		c.narrate("%s       %s %s", at, l.mark(v1.Pass), e.Step.ID)
	case "already-done":
		c.narrate("%s [%2d/%d] %s %s (was so already)", at, e.Number, e.Total, l.mark(v1.Pass), e.Step.ID)
	case "deferred":
		c.narrate("%s       %s %s waits: %s", at, l.mark(v1.Skip), e.Step.Group, e.Message)
	case "failed":
		c.narrate("%s       %s %s: %s", at, l.mark(v1.Fail), e.Step.ID, e.Message)
	}
}
