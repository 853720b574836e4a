package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/help"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/holder"
)

func TestTheHelpOfACommandWithManyFlagsGroupsThem(t *testing.T) {
	root := newRoot(console.Streams{}, "transplant")
	grouped := []string{}
	for _, cmd := range allCommands(root) {
		groups := help.Groups(cmd)
		if len(groups) == 0 {
			continue
		}
		grouped = append(grouped, strings.TrimPrefix(cmd.CommandPath(), "transplant "))
		seen := map[string]int{}
		for _, g := range groups {
			if g.Title == "Other" {
				t.Errorf("%s: flags without a heading: %s", cmd.CommandPath(), g.Flags.FlagUsages())
			}
			g.Flags.VisitAll(func(f *pflag.Flag) { seen[f.Name]++ })
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if seen[f.Name] != 1 {
				t.Errorf("%s: --%s stands under %d headings", cmd.CommandPath(), f.Name, seen[f.Name])
			}
		})
	}
	for _, want := range []string{"apply", "check", "plan", "diff", "rollback", "fleet plan", "fleet apply"} {
		if !slices.Contains(grouped, want) {
			t.Errorf("the flags of %s are in one list; those of %v are not", want, grouped)
		}
	}
	for _, want := range []string{"What is done", "Pace and waiting", "Hosts and cloud", "Cloud-controller-manager", "Cluster", "Output"} {
		want = "\n" + want + ":\n"
		if out := transplant(t, "apply", "--help").out; strings.Count(out, want) != 1 || strings.Contains(out, "Global Flags:") {
			t.Errorf("the help of apply has %q %d times", want, strings.Count(out, want))
		}
	}
}

// TestTheHelpIsAsWideAsTheTerminal, and not set in lines where it is read from a pipe.
func TestTheHelpIsAsWideAsTheTerminal(t *testing.T) {
	const columns = 90
	keyboard, terminal := openTerminal(t)
	setWidth(t, terminal, columns)
	read := make(chan string)
	go func() {
		data, _ := io.ReadAll(keyboard) // ends with an error when the terminal is closed
		read <- string(data)
	}()
	root := newRoot(console.Streams{In: terminal, Out: terminal, Err: terminal}, "transplant")
	root.SetArgs([]string{"apply", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	out := <-read
	if !strings.Contains(out, "--host-access") {
		t.Fatalf("this is no help:\n%s", out)
	}
	text, _, _ := strings.Cut(out, "Examples:") // which is to be copied
	_, flags, _ := strings.Cut(out, "What is done:")
	flags, _, _ = strings.Cut(flags, "Exit codes:")
	for line := range strings.Lines(text + flags) {
		if line = strings.TrimRight(line, "\r\n"); len(line) > columns {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if piped := transplant(t, "apply", "--help").out; strings.Count(piped, "\n") >= strings.Count(out, "\n") {
		t.Error("a pipe gets as many lines")
	}
}

func allCommands(cmd *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		out = append(out, allCommands(sub)...)
	}
	return out
}

// askNoCluster are the commands that ask no API server.
var askNoCluster = []string{"explain", "version", "fleet", "host-agent", "host-agent serve", "host-agent relay"}

func TestTheHelpSaysWhichRolesACommandNeeds(t *testing.T) {
	root := newRoot(console.Streams{}, "kubectl transplant")
	for _, cmd := range allCommands(root)[1:] {
		name := strings.TrimPrefix(cmd.CommandPath(), "kubectl transplant ")
		roles, _ := help.Roles(cmd)
		if (len(roles) == 0) != slices.Contains(askNoCluster, name) {
			t.Errorf("%s needs %v", name, roles)
		}
		for _, role := range roles {
			if _, err := os.Stat(filepath.Join("..", "..", "deploy", "rbac", role+".yaml")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for args, want := range map[string]string{
		"status": "Rights:\n  The roles in deploy/rbac: reader.\n",
		"apply": "Rights:\n  The roles in deploy/rbac: reader, planner, pauser, migrator." +
			" With --host-access=pod also host-access. With --probe also prober.\n",
	} {
		if out := transplant(t, args, "--help").out; !strings.Contains(out, want) || !strings.Contains(out, "\n"+exitCodes) {
			t.Errorf("the help of %s:\n%s", args, out)
		}
	}
	if out := transplant(t, "version", "--help").out; strings.Contains(out, "Rights:") {
		t.Error("version needs no rights")
	}
}

// The roles that the help of the other commands names are held by the tests of the roles.
func TestTheRolesOfProbeRenewAndUnlockAllowWhatTheyAsk(t *testing.T) {
	root := newRoot(console.Streams{}, "transplant")
	c := newLive(t)
	c.published("web")
	c.journal(v1.RunApplying, 5, 0)
	c.token("cp-1")
	for name, args := range map[string][]string{
		"probe":  {"--for", "300ms", "--interval", "50ms"},
		"renew":  {"--all", "--host=cp-1"},
		"unlock": {"--yes"},
	} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		roles, _ := help.Roles(cmd)
		if name == "unlock" {
			gone := holder.This("gone")
			gone.PID = 1<<22 - 3 // no machine has so many
			c.lock(gone.String())
		}
		asked := c.api.Record()
		if r := c.run(append([]string{name}, args...)...); r.code != exitcode.OK {
			t.Errorf("%s: %s", name, r.text(nil))
		}
		holds(t, asked.Rights(), roles...)
		if name == "probe" {
			missed := apitest.Right{Verb: "list", Group: "coordination.k8s.io", Resource: "leases", Namespace: component.Namespace}
			noMore(t, append(asked.Rights(), missed), "prober") // it lists them when its watch is silent
		}
	}
}
