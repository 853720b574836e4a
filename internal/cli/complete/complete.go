// Package complete decides what the shell offers behind a flag or an argument. It asks a cluster for a second at most,
// and says nothing when it cannot answer.
package complete

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Limit is for how long a shell waits at most.
var Limit = time.Second

// Register adds the completions to all commands below a root.
func Register(root *cobra.Command) {
	console.Complete(root, "context", contexts("kubeconfig"))
	each(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
		if cmd.ValidArgsFunction == nil && cmd.Args != nil && cmd.Args(cmd, []string{"x"}) != nil {
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

// completeFlag adds the completion of a flag by its kind and name. One that was added where the flag is stays.
func completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	if _, there := cmd.GetFlagCompletionFunc(f.Name); there {
		return
	}
	if format, ok := f.Value.(*printer.Format); ok {
		console.Complete(cmd, f.Name, cobra.FixedCompletions(format.Allowed, cobra.ShellCompDirectiveNoFileComp))
		return
	}
	switch f.Name {
	case "cloud":
		console.Complete(cmd, f.Name, cobra.FixedCompletions(
			cloudprogram.Ours,
			cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace,
		))
	case "seed-context":
		console.Complete(cmd, f.Name, contexts("seed-kubeconfig"))
	case "until":
		console.Complete(cmd, f.Name, ofPlan(steps))
	case "node":
		console.Complete(cmd, f.Name, ofPlan(planstep.Workers))
	case "without-host":
		console.Complete(cmd, f.Name, ofPlan(hosts))
	}
}

// contexts completes the contexts of the kubeconfig that a flag names.
func contexts(flag string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		// Its contexts are known without a current one.
		read, _ := client.ReadKubeconfig(console.StringFlag(cmd, flag), client.Choice{})
		return offered(read.Contexts, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// ofPlan completes what a plan names: that of a file on the command line, or that of the journal in the cluster.
func ofPlan(names func(*v1.Plan) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		p := planOf(cmd, args)
		if p == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offered(names(p), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func planOf(cmd *cobra.Command, args []string) *v1.Plan {
	for _, path := range append(slices.Clone(args), console.StringFlag(cmd, "refresh")) {
		if path == "" {
			continue
		}
		if p, err := client.ReadPlan(path); err == nil {
			return p
		}
	}
	found := make(chan *v1.Plan, 1)
	go func() { found <- begun(cmd) }() // what gives a kubeconfig its token may take its time
	select {
	case p := <-found:
		return p
	case <-time.After(Limit):
		return nil
	}
}

// begun is the plan of the migration that was begun on the cluster; nil where there is none or it cannot be read.
func begun(cmd *cobra.Command) *v1.Plan {
	groups, _ := cmd.Flags().GetStringArray("as-group") // every command has it
	read, err := client.ReadKubeconfig(console.StringFlag(cmd, "kubeconfig"), client.Choice{
		Context:  console.StringFlag(cmd, "context"),
		Cluster:  console.StringFlag(cmd, "cluster"),
		User:     console.StringFlag(cmd, "user"),
		As:       console.StringFlag(cmd, "as"),
		AsGroups: groups,
	})
	if err != nil {
		return nil
	}
	cfg := read.Config
	cfg.UserAgent, cfg.Timeout, cfg.WarningHandler = "transplant/"+client.Version, Limit, rest.NoWarnings{}
	answerlimit.Lists(cfg)
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), Limit)
	defer cancel()
	j, err := journal.Open(ctx, kube)
	if err != nil {
		return nil
	}
	doc := j.Doc()
	return &doc.Plan
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

func offered(words []string, typed string) []string {
	return slices.DeleteFunc(words, func(w string) bool {
		return !plain.MatchString(w) || !strings.HasPrefix(w, typed)
	})
}
