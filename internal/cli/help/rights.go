package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/cli/printer"
)

// Names of the manifests in deploy/rbac.
const (
	reader        = "reader"
	planner       = "planner"
	pauser        = "pauser"
	migrator      = "migrator"
	fleetViewer   = "fleet-viewer"
	fleetMigrator = "fleet-migrator"
	hostAccess    = "host-access"
	prober        = "prober"
	bundler       = "bundler"
)

// roles are the manifests whose roles a command needs together, by its name below the root. The command that is not
// here asks no API server.
var roles = map[string][]string{
	"check":          {reader, planner},
	"status":         {reader},
	"timeline":       {reader},
	"verify":         {reader, planner},
	"snapshot":       {reader, planner},
	"plan":           {reader, planner},
	"diff":           {reader, planner},
	"report":         {reader, planner},
	"bundle":         {reader, planner, bundler},
	"probe":          {reader, planner, prober},
	"pause":          {reader, pauser},
	"resume":         {reader, pauser},
	"apply":          {reader, planner, pauser, migrator},
	"rollback":       {reader, planner, pauser, migrator},
	"unlock":         {reader, planner, pauser, migrator},
	"renew":          {reader, planner, migrator},
	"remove-orphans": {reader, planner},
	"fleet status":   {fleetViewer},
	"fleet plan":     {fleetViewer},
	"fleet rights":   {fleetViewer},
	"fleet apply":    {fleetViewer, fleetMigrator},
}

// needsHosts are the commands that reach hosts, through pods unless they are told otherwise.
var needsHosts = map[string]bool{
	"check": true, "verify": true, "snapshot": true, "plan": true, "diff": true, "report": true, "bundle": true,
	"apply": true, "rollback": true, "renew": true,
}

// Roles are the manifests in deploy/rbac whose roles a command needs together.
func Roles(cmd *cobra.Command) (names []string, withPods bool) {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	if root := cmd.Root().CommandPath(); strings.HasPrefix(cmd.CommandPath(), root+" ") {
		name = strings.TrimPrefix(cmd.CommandPath(), root+" ") // the root's name may have a space: kubectl transplant
	}
	return roles[name], needsHosts[name]
}

// Rights says which rights a command needs, in a sentence or two; empty for one that asks no API server.
func Rights(cmd *cobra.Command) string {
	names, pods := Roles(cmd)
	if len(names) == 0 {
		return ""
	}
	text := "The roles in deploy/rbac: " + strings.Join(names, ", ") + "."
	if pods {
		text += fmt.Sprintf(" With --host-access=pod also %s.", hostAccess)
	}
	if cmd.Flags().Lookup("probe") != nil {
		text += fmt.Sprintf(" With --probe also %s.", prober)
	}
	return text
}

func rightsOf(cmd *cobra.Command) string {
	text := Rights(cmd)
	if text == "" {
		return ""
	}
	const indent = "  "
	lines := printer.Layout{Width: widthOf(cmd) - len(indent)}.Paragraphs(text)
	return "\nRights:\n" + indent + strings.ReplaceAll(strings.TrimRight(lines, "\n"), "\n", "\n"+indent) + "\n"
}
