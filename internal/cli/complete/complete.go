// Package complete decides what the shell offers behind a flag or an argument. It asks a cluster for a second at most,
// and says nothing when it cannot answer.
package complete

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// ShellLimit is for how long a shell waits at most.
const ShellLimit = time.Second

// Limit is for how long a cluster is waited for. Tests set another one, since a busy machine may need longer.
var Limit = ShellLimit

// completer answers the shell. The client has the global flags of the command line, and so the cluster to ask.
type completer struct{ client *client.Client }

// Register adds the completions to all commands below a root, whose global flags fill the client.
func Register(root *cobra.Command, filled *client.Client) {
	c := completer{filled}
	words := c.byFlag()
	each(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f, words) })
		switch {
		case cmd.ValidArgsFunction != nil:
		case strings.HasSuffix(cmd.Use, " [CLUSTER...]"):
			cmd.ValidArgsFunction = c.fleetClusters
		case cmd.Args != nil && cmd.Args(cmd, []string{"x"}) != nil:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	})
}

func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, do)
	}
}

// byFlag are the completions of flags that mean the same in every command.
func (c completer) byFlag() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"cloud": cobra.FixedCompletions(
			cloudprogram.Ours,
			cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace,
		),
		"cluster":      ofKubeconfig("kubeconfig", func(k client.Kubeconfig) []string { return k.Clusters }),
		"context":      ofKubeconfig("kubeconfig", func(k client.Kubeconfig) []string { return k.Contexts }),
		"user":         ofKubeconfig("kubeconfig", func(k client.Kubeconfig) []string { return k.Users }),
		"seed-context": ofKubeconfig("seed-kubeconfig", func(k client.Kubeconfig) []string { return k.Contexts }),
		"image":        cobra.FixedCompletions(describedImages, cobra.ShellCompDirectiveNoFileComp),
		"until":        c.ofPlan(steps),
		"node":         c.ofPlan(planstep.Workers),
		"without-host": c.ofPlan(hosts),
		"provider":     listed(fleetProviders),
		"first":        listed(c.chosenClusters),
		"except":       listed(c.chosenClusters),
	}
}

// completeFlag adds the completion of a flag by its kind and name. One that was added where the flag is stays.
func completeFlag(cmd *cobra.Command, f *pflag.Flag, byName map[string]cobra.CompletionFunc) {
	if _, there := cmd.GetFlagCompletionFunc(f.Name); there {
		return
	}
	words := byName[f.Name]
	switch {
	case f.Name == "image" && f.Value.Type() == "stringToString": // one for each provider
		words = imagesOfProviders
	case words == nil:
		format, ok := f.Value.(*printer.Format)
		if !ok {
			return
		}
		words = cobra.FixedCompletions(format.Allowed, cobra.ShellCompDirectiveNoFileComp)
	}
	console.Complete(cmd, f.Name, words)
}

// describedImages are the words in the place of an image, each with what it stands for.
var describedImages = []string{
	cloudprovider.Official + "\tby the provider's makers, for the cluster's minor version",
	cloudprovider.Own + "\tby this project",
}

// imagesOfProviders completes PROVIDER=IMAGE: first the provider, then the words in the place of its image.
func imagesOfProviders(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if name, _, ok := strings.Cut(typed, "="); ok {
		for _, image := range describedImages {
			out = append(out, name+"="+image)
		}
		return startingWith(typed, out), cobra.ShellCompDirectiveNoFileComp
	}
	for _, p := range rules.Providers {
		if p.InTree != "" {
			out = append(out, p.InTree+"=")
		}
	}
	return startingWith(typed, out), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// fleetProviders completes the providers of a fleet's clusters, as their objects name them.
func fleetProviders(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, p := range rules.Providers {
		out = append(out, p.Name)
	}
	return startingWith(typed, out), cobra.ShellCompDirectiveNoFileComp
}

// listed completes the last word of a list with commas, and offers none that is in the list already.
func listed(words cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		out, directive := words(cmd, args, strings.TrimPrefix(typed, before))
		out = slices.DeleteFunc(out, func(w string) bool { return slices.Contains(strings.Split(before, ","), w) })
		for i := range out {
			out[i] = before + out[i]
		}
		return out, directive
	}
}

// steps are the phases of a plan and its steps.
func steps(p *v1.Plan) []string {
	var out []string
	for i, s := range p.Steps {
		if i == 0 || p.Steps[i-1].Phase != s.Phase {
			out = append(out, s.Phase)
		}
	}
	for _, s := range p.Steps {
		out = append(out, s.ID)
	}
	return out
}

func hosts(p *v1.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Host != "" && !slices.Contains(out, s.Host) {
			out = append(out, s.Host)
		}
	}
	return out
}

// plain are words that a shell takes as they are. A journal is written by others, and what is offered is typed.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@:+-]*$`)

// offered are those of some words of others that the shell may be given.
func offered(words []string, typed string) []string {
	return startingWith(typed, slices.DeleteFunc(words, func(w string) bool { return !plain.MatchString(w) }))
}

func startingWith(typed string, words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, typed) })
}
