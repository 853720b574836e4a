package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/managertoken"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// errEndless says that managers have tokens which never expire.
var errEndless = errors.New("managers that an earlier version of transplant installed have a token that never expires: see \"Tokens that never expire\" in docs/explanation/manager-token.md")

func newRenew(c *connection) *cobra.Command {
	var all bool
	var named []string
	cmd := &cobra.Command{
		Use: "renew", Short: "Renew the tokens of the cloud-controller-managers that have one in a file", Args: cobra.NoArgs,
		Example: "  transplant renew --host-access=pod:node-role.kubernetes.io/control-plane\n" +
			"  transplant renew --seed-namespace=cluster-abc",
		Long: "Renew replaces the token of each manager that runs as a static pod, once a third of its life is over, and says when each of them expires. Managers read it\n" +
			"again by themselves: nothing is restarted. Our own manager on AWS renews its token by itself, and a DaemonSet's or Deployment's pods get theirs from the\n" +
			"kubelet. Run it once a month, from a timer: an official image that nobody renews for is locked out of its cluster after a year.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.open(cmd.Context()); err != nil {
				return err
			}
			return c.renew(cmd.Context(), named, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also tokens that are not due yet")
	cmd.Flags().StringSliceVar(&named, "host", nil, "hosts that may have a manager, by their names of --host-access, instead of those whose nodes are labelled as control plane")
	return cmd
}

// renew renews the tokens on the hosts of the control plane. What fails on one host does not keep the others from theirs.
func (c *connection) renew(ctx context.Context, named []string, all bool) error {
	hosts, err := c.managerHosts(ctx, named)
	if err != nil {
		return err
	}
	r := managertoken.Renewal{Kube: c.kube, Now: c.serverTime, Always: all}
	var errs []error
	found := 0
	for _, h := range hosts {
		token, err := r.OnHost(ctx, h)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if token.State != managertoken.None {
			found++
			errs = append(errs, c.sayToken("host "+h.Name(), token))
		}
	}
	if found == 0 && len(errs) == 0 {
		fmt.Fprintln(c.out, "no manager has a token in a file of these hosts: nothing to renew")
	}
	return errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return errors.Is(a, errEndless) && errors.Is(b, errEndless) })...)
}

// sayToken prints what became of a token.
func (c *connection) sayToken(where string, token managertoken.Token) error {
	days := int(token.Expires.Sub(c.serverTime()).Hours() / 24)
	switch token.State {
	case managertoken.Endless:
		fmt.Fprintf(c.out, "%s: the token never expires\n", where)
		return errEndless
	case managertoken.Renewed:
		fmt.Fprintf(c.out, "%s: renewed, expires %s, in %s\n", where, token.Expires.Format(time.RFC3339), count(days, "day"))
	default:
		fmt.Fprintf(c.out, "%s: expires %s, in %s\n", where, token.Expires.Format(time.RFC3339), count(days, "day"))
	}
	return nil
}

// managerHosts are the hosts that may have a manager: the named ones, or else those whose nodes are labelled as control plane. Never simply all: whose
// root may write a file with an old token of the manager, as on any worker, would be given a new one.
func (c *connection) managerHosts(ctx context.Context, named []string) ([]hostaccess.Host, error) {
	if len(c.hosts) == 0 {
		return nil, errors.New("no host can be reached (--host-access): the tokens of managers are in files of the control-plane hosts")
	}
	chosen := map[string]bool{}
	for _, name := range named {
		if !slices.ContainsFunc(c.hosts, func(h hostaccess.Host) bool { return h.Name() == name }) {
			return nil, fmt.Errorf("--host %s: --host-access reaches no host of this name", name)
		}
		chosen[name] = true
	}
	if len(named) == 0 {
		nodes, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing nodes: %s", mask.Error(err))
		}
		for _, n := range nodes.Items {
			if objects.HasControlPlaneRole(n.Labels) {
				chosen[n.Name] = true
			}
		}
	}
	hosts := slices.DeleteFunc(slices.Clone(c.hosts), func(h hostaccess.Host) bool { return !chosen[h.Name()] })
	if len(hosts) == 0 {
		return nil, errors.New("no host has the name of a node with the label node-role.kubernetes.io/control-plane: name those that run the manager with --host")
	}
	return hosts, nil
}

// hostedRenew renews the token of a manager that a seed hosts.
func hostedRenew(ctx context.Context, h *hostedRun) error {
	r := managertoken.Renewal{Kube: h.plane.User.Kube, Now: time.Now, Always: boolFlag(h.cmd, "all")}
	token, err := r.InSeed(ctx, h.plane.Seed.Kube, h.plane.Namespace)
	if err != nil {
		return err
	}
	if token.State == managertoken.None {
		fmt.Fprintf(h.out, "namespace %s: no manager with a token: nothing to renew\n", h.plane.Namespace)
		return nil
	}
	return h.sayToken("namespace "+h.plane.Namespace, token)
}
