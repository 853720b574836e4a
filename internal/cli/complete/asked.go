package complete

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// ofKubeconfig completes what the kubeconfig names that a flag gives.
func ofKubeconfig(flag string, names func(client.Kubeconfig) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		// Its names are known without a current context.
		read, _ := client.ReadKubeconfig(console.StringFlag(cmd, flag), client.Choice{})
		return offered(names(read), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// ofPlan completes what a plan names: that of a file on the command line, or that of the journal in the cluster.
func (c completer) ofPlan(names func(*v1.Plan) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		p := c.planOf(cmd, args)
		if p == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offered(names(p), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func (c completer) planOf(cmd *cobra.Command, args []string) *v1.Plan {
	for _, path := range append(slices.Clone(args), console.StringFlag(cmd, "refresh")) {
		if path == "" {
			continue
		}
		if p, err := client.ReadPlan(path); err == nil {
			return p
		}
	}
	return withinLimit(cmd.Context(), c.client, begunPlan)
}

// fleetClusters completes the names of a fleet's clusters that are not on the command line yet.
func (c completer) fleetClusters(
	cmd *cobra.Command,
	args []string,
	typed string,
) ([]string, cobra.ShellCompDirective) {
	names := withinLimit(cmd.Context(), c.client, fleetNames)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	return offered(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// chosenClusters completes the names of a fleet's clusters for a flag that picks some of them. These are those that the
// command line names, where it names any.
func (c completer) chosenClusters(
	cmd *cobra.Command,
	args []string,
	typed string,
) ([]string, cobra.ShellCompDirective) {
	names := args
	if len(names) == 0 {
		names = withinLimit(cmd.Context(), c.client, fleetNames)
	}
	return offered(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// withinLimit returns what the cluster of the global flags answers, or nothing where that takes longer than a shell
// waits. What gives a kubeconfig its token may take its time, too, and minds no context.
func withinLimit[T any](ctx context.Context, named *client.Client, ask func(context.Context, *rest.Config) T) T {
	limit, found := Limit, make(chan T, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		var answer T
		if cfg := restConfig(named); cfg != nil {
			answer = ask(ctx, cfg)
		}
		found <- answer
	}()
	select {
	case answer := <-found:
		return answer
	case <-time.After(limit):
		var none T
		return none
	}
}

// restConfig is how a command would reach the cluster of the global flags; nil where they name none that can be used.
func restConfig(named *client.Client) *rest.Config {
	chosen := named.Chosen
	chosen.Context = named.Context
	if len(chosen.AsGroups) > 0 && chosen.As == "" {
		return nil // the command refuses that, since the caller may see more than the group
	}
	read, err := client.ReadKubeconfig(named.Kubeconfig, chosen)
	if err != nil {
		return nil
	}
	cfg := read.Config
	cfg.UserAgent, cfg.WarningHandler = "transplant/"+client.Version, rest.NoWarnings{}
	answerlimit.Lists(cfg)
	return cfg
}

// begunPlan is the plan of the migration that was begun on a cluster; nil where there is none or it cannot be read.
func begunPlan(ctx context.Context, cfg *rest.Config) *v1.Plan {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	j, err := journal.Open(ctx, kube)
	if err != nil {
		return nil
	}
	doc := j.Doc()
	return &doc.Plan
}

// fleetNames are the names of the Clusters of a seed, each once, by one list of each API group. Only metadata is asked
// for: the objects hold credentials. A group that cannot be read is left out.
func fleetNames(ctx context.Context, cfg *rest.Config) []string {
	lister, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	var names []string
	for _, group := range roster.Groups() {
		found, err := lister.Resource(objects.Resource(group)).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, o := range found.Items {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
