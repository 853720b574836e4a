package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/waiting"
)

// Selection are the flags that choose clusters.
type Selection struct {
	Selector  string
	Providers []string
	Names     []string
}

// Labels are the selector, judged before anything is read.
func (s *Selection) Labels() (labels.Selector, error) {
	out, err := labels.Parse(s.Selector)
	if err != nil {
		return nil, exitcode.With(exitcode.Error, "--selector %q: %w", s.Selector, err)
	}
	return out, nil
}

// Rows are those of the objects that were chosen. All of them are looked at first: one name under both groups is seen
// whichever of the two has the labels.
func (s *Selection) Rows(all []fleet.Object, by labels.Selector) []v1.FleetCluster {
	chosen := map[fleet.Key]bool{}
	for _, o := range all {
		chosen[o.Key()] = by.Matches(labels.Set(o.Cluster.Labels))
	}
	rows := slices.DeleteFunc(
		fleet.Rows(all),
		func(r v1.FleetCluster) bool { return !chosen[fleet.Key{Group: r.Group, Name: r.Name}] },
	)
	return fleet.Select(rows, s.Providers, s.Names)
}

// checkNames says which of the names that were given are none.
func (s *Selection) checkNames(rows []v1.FleetCluster) error {
	var out []string
	for _, name := range s.Names {
		if !slices.ContainsFunc(rows, func(r v1.FleetCluster) bool { return r.Name == name }) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return exitcode.With(
		exitcode.Error,
		"there is no cluster %s among those that were selected: transplant fleet status lists them",
		strings.Join(out, ", "),
	)
}

// ConnectSeed connects to the seed and says which it is.
func ConnectSeed(c *client.Client) (v1.Cluster, error) {
	if err := c.Connect(); err != nil {
		return v1.Cluster{}, err
	}
	out := v1.Cluster{Server: mask.Server(c.Config.Host), Context: c.Context}
	if v, err := c.Kube.Discovery().ServerVersion(); err == nil {
		out.Version = v.GitVersion
	}
	c.Narrate(
		"seed %s · %s · context %s",
		wording.OrDash(out.Server),
		wording.OrDash(out.Version),
		wording.OrDash(out.Context),
	)
	return out, nil
}

// ReadFleet lists the clusters that were chosen.
func ReadFleet(
	ctx context.Context,
	c *client.Client,
	s *Selection,
) (rows []v1.FleetCluster, objects []fleet.Object, notRead []string, err error) {
	by, err := s.Labels()
	if err != nil {
		return nil, nil, nil, err
	}
	objects, notRead, err = roster.Read(ctx, c.Dynamic)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading the fleet: %w", err)
	}
	rows = s.Rows(objects, by)
	return rows, objects, notRead, s.checkNames(rows)
}

// ServerTime is the time that ages are measured by: that of the API server.
func ServerTime(c *client.Client) time.Time { return c.ServerTime().UTC().Round(time.Second) }

// followFleet follows the Clusters until ctx ends; wait waits for what it started.
func followFleet(ctx context.Context, c *client.Client) (*roster.Following, func(), error) {
	cfg := rest.CopyConfig(c.Config)
	cfg.Timeout = 0 // the limit of a request's time would end a watch, too
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("using the kubeconfig: %w", err)
	}
	f, wait, err := roster.Follow(ctx, client)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the fleet: %w", err)
	}
	return f, wait, nil
}

// EachChange calls show when the clusters are read, whenever one may have changed, and once a second, until it returns
// true or ctx ends.
func EachChange(ctx context.Context, c *client.Client, show func(*roster.Following) (bool, error)) error {
	following, end := context.WithCancel(ctx)
	defer end()
	f, wait, err := followFleet(following, c)
	if err != nil {
		return err
	}
	defer wait()
	defer end()
	changed := f.Changed(following)
	again := time.NewTicker(client.TickPeriod)
	defer again.Stop()
	for {
		if _, complete := f.List(); complete {
			if done, err := show(f); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-changed:
			waiting.For(ctx, client.CollectPeriod)
		}
	}
}
