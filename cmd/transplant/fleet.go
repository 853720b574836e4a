package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

func newFleet(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use: "fleet", Short: "The clusters of a seed: how their migrations stand, in which waves they are migrated, and start them",
		Example: "  transplant fleet status\n" +
			"  transplant fleet plan --waves 1,10%,50%,100%\n" +
			"  transplant fleet apply --waves 1,10%,50%,100% --soak 30m",
		Long: "Fleet is about the Cluster objects of a seed (a management cluster), whose user clusters transplant-operator migrates. It reads the seed's kubeconfig, and\n" +
			"everything that status and apply need to know is in those objects.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFleetStatus(c), newFleetPlan(c), newFleetApply(c), newFleetRights(c))
	return cmd
}

// selecting are the flags that choose clusters.
type selecting struct {
	selector  string
	providers []string
	names     []string
}

func (s *selecting) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "only Clusters with these labels, e.g. env=staging")
	cmd.Flags().StringSliceVar(&s.providers, "provider", nil, "only clusters of these providers, e.g. aws,openstack")
}

// labels are the selector, judged before anything is read.
func (s *selecting) labels() (labels.Selector, error) {
	out, err := labels.Parse(s.selector)
	if err != nil {
		return nil, withCode(exitError, "--selector %q: %w", s.selector, err)
	}
	return out, nil
}

// rows are those of the objects that were chosen. All of them are looked at first: one name under both groups is seen whichever of the two has the labels.
func (s *selecting) rows(all []fleet.Object, by labels.Selector) []v1.FleetCluster {
	chosen := map[fleet.Key]bool{}
	for _, o := range all {
		chosen[o.Key()] = by.Matches(labels.Set(o.Cluster.Labels))
	}
	rows := slices.DeleteFunc(fleet.Rows(all), func(r v1.FleetCluster) bool { return !chosen[fleet.Key{Group: r.Group, Name: r.Name}] })
	return fleet.Select(rows, s.providers, s.names)
}

// missing says which of the names that were given are none.
func (s *selecting) missing(rows []v1.FleetCluster) error {
	var out []string
	for _, name := range s.names {
		if !slices.ContainsFunc(rows, func(r v1.FleetCluster) bool { return r.Name == name }) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return withCode(exitError, "there is no cluster %s among those that were selected: transplant fleet status lists them", strings.Join(out, ", "))
}

// seed connects to the seed and says which it is.
func (c *connection) seed() (v1.Cluster, error) {
	if err := c.connect(); err != nil {
		return v1.Cluster{}, err
	}
	out := v1.Cluster{Server: c.config.Host, Context: c.context}
	if v, err := c.kube.Discovery().ServerVersion(); err == nil {
		out.Version = v.GitVersion
	}
	c.narrate("seed %s · %s · context %s", orDash(out.Server), orDash(out.Version), orDash(out.Context))
	return out, nil
}

// readFleet lists the clusters that were chosen.
func (c *connection) readFleet(ctx context.Context, s *selecting) (rows []v1.FleetCluster, objects []fleet.Object, notRead []string, err error) {
	by, err := s.labels()
	if err != nil {
		return nil, nil, nil, err
	}
	objects, notRead, err = roster.Read(ctx, c.dynamic)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading the fleet: %w", err)
	}
	rows = s.rows(objects, by)
	return rows, objects, notRead, s.missing(rows)
}
