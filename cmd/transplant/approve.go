package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
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
