// Package help decides how the help of a command looks: under which headings its flags stand, and which rights it
// needs.
package help

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/cli/printer"
)

// Group is a heading with the flags below it.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// ungrouped is up to how many flags of its own a command has them in one list.
const ungrouped = 12

// headings are the groups of flags in the order of the help.
var headings = []struct {
	title string
	flags []string
}{
	{"What is done", []string{
		"accept", "detailed-exitcode", "dry-run", "from-snapshot", "list", "node", "out", "part", "plan-sha256",
		"preview-cloud-config", "prove", "refresh", "slo", "steal-lock", "strict", "until", "without-host", "yes",
	}},
	{"Which clusters", []string{"except", "first", "provider", "release-holds", "restart-machines", "selector"}},
	{"How the cluster is changed", []string{
		"credential-provider", "disable-in-tree", "keep-leader-migration", "replace-hosts", "strategy", "target-version", "volumes",
	}},
	{"Cloud-controller-manager", []string{
		"ccm-env", "cluster-name", "image", "lease-name", "node-ipam", "renew-deadline", "retry-period", "shape",
	}},
	{"Pace and waiting", []string{
		"drain-timeout", "force-unmanaged", "look-parallel", "max-failures", "max-parallel", "max-unavailable",
		"patience", "pause-after-canary", "soak", "wait", "waves",
	}},
	{"What clients notice", []string{"probe", "probe-budget", "probe-connect-to", "probe-interval", "probe-timeout", "probe-url"}},
	{"Cluster", []string{
		"as", "as-group", "cluster", "context", "kubeconfig", "seed-context", "seed-direct", "seed-kubeconfig", "seed-namespace", "user",
	}},
	{"Hosts and cloud", []string{
		"cloud", "cloud-program", "control-plane-hosts", "host-access", "host-image", "host-ttl",
	}},
	{"Output", []string{"ascii", "color", "details", "help", "output", "problems", "quiet", "state-dir", "verbose"}},
}

// Groups are the flags of a command by heading, those of every command among them. A command with few flags has none.
// Flags without a heading come last.
func Groups(cmd *cobra.Command) []Group {
	own := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			own++
		}
	})
	if own <= ungrouped || !cmd.HasParent() {
		return nil
	}
	var out []Group
	of := map[string]*pflag.FlagSet{}
	for _, h := range headings {
		set := pflag.NewFlagSet(h.title, pflag.ContinueOnError)
		for _, name := range h.flags {
			of[name] = set
		}
		out = append(out, Group{Title: h.title, Flags: set})
	}
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	out = append(out, Group{Title: "Other", Flags: rest})
	add := func(f *pflag.Flag) {
		if set := of[f.Name]; set != nil {
			set.AddFlag(f)
		} else {
			rest.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return slices.DeleteFunc(out, func(g Group) bool { return !g.Flags.HasAvailableFlags() })
}

// flagsOf are the flags of a command as its help has them.
func flagsOf(cmd *cobra.Command) string {
	var b strings.Builder
	columns := widthOf(cmd)
	section := func(title string, flags *pflag.FlagSet) {
		if flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n\n%s:\n%s", title, strings.TrimRight(flags.FlagUsagesWrapped(columns), " \n"))
		}
	}
	groups := Groups(cmd)
	for _, g := range groups {
		section(g.Title, g.Flags)
	}
	if len(groups) == 0 {
		section("Flags", cmd.LocalFlags())
		section("Global Flags", cmd.InheritedFlags())
	}
	return b.String()
}

// Of cobra's template these parts are replaced.
const (
	longText   = "{{. | trimTrailingWhitespaces}}"
	localFlags = "{{if .HasAvailableLocalFlags}}\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}"
	otherFlags = "{{if .HasAvailableInheritedFlags}}\n\nGlobal Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}"
)

// register gives cobra's templates the functions of this package. Cobra keeps them for the whole process.
var register = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("transplantFlags", flagsOf)
	cobra.AddTemplateFunc("transplantRights", rightsOf)
	cobra.AddTemplateFunc("transplantText", func(cmd *cobra.Command, text string) string {
		return strings.TrimRight(printer.Layout{Width: widthOf(cmd)}.Paragraphs(text), " \n")
	})
})

// width is the annotation of a root command with the width of its help, in columns. A usage is made in a buffer first,
// which has none.
const width = "transplant.dev/help-width"

// widthOf is the width of a command's help, in columns; 0 where it is not set in lines.
func widthOf(cmd *cobra.Command) int {
	columns, _ := strconv.Atoi(cmd.Root().Annotations[width])
	return columns
}

// Set gives a root command, and all below it, a help with headings, rights and exit codes. It is as wide as the
// terminal on which it is printed; 0 columns for none.
func Set(root *cobra.Command, exitCodes string, columns int) {
	register()
	root.Annotations[width] = strconv.Itoa(columns)
	template := strings.NewReplacer(localFlags, "{{transplantFlags .}}", otherFlags, "").Replace(root.UsageTemplate())
	root.SetHelpTemplate(strings.Replace(root.HelpTemplate(), longText, "{{transplantText $ .}}", 1))
	root.SetUsageTemplate(template + "{{transplantRights .}}\n" + exitCodes + "\n")
}
