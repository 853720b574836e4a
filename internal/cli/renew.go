package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/managertoken"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

func newRenew(c *console.Console) *cobra.Command {
	var all bool
	var named []string
	var output *printer.Format
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Renew the tokens of the cloud-controller-managers that have one in a file",
		Args:  cobra.NoArgs,
		Example: "  transplant renew --host-access=pod:node-role.kubernetes.io/control-plane\n" +
			"  transplant renew --seed-namespace=cluster-abc",
		Long: "Renew replaces the token of each manager that runs as a static pod, when a third of its life is over. It prints when each token expires. Managers read it\n" +
			"again by themselves: nothing is restarted. Our own managers renew their tokens by themselves, and a DaemonSet's or Deployment's pods get theirs from the\n" +
			"kubelet. Run it once a month, from a timer: a manager of an official image is locked out of its cluster after a year without it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Connect(); err != nil {
				return err
			}
			if err := c.RefuseGuess(); err != nil {
				return err
			}
			c.NameCluster(c.DescribeCluster(cmd.Context(), nil))
			if hasNoAccount(cmd.Context(), c.Client) {
				return c.PrintTokens(output, nil, "there is no ServiceAccount "+component.Namespace+"/"+layout.CCMAccount+
					", and so no manager has a token of it: nothing to renew")
			}
			if err := c.Open(cmd.Context()); err != nil {
				return err
			}
			return renewTokens(cmd.Context(), c, named, all, output)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also tokens that are not due yet")
	cmd.Flags().
		StringSliceVar(&named, "host", nil, "hosts that may have a manager, by their names of --host-access, instead of those whose nodes are labelled as control plane")
	output = console.AddFormatFlag(cmd, "text", "json", "yaml")
	return cmd
}

// hasNoAccount reports whether the managers' ServiceAccount is known not to be there. No pod needs to be started on
// hosts then, to find no token.
func hasNoAccount(ctx context.Context, c *client.Client) bool {
	_, err := c.Kube.CoreV1().ServiceAccounts(component.Namespace).Get(ctx, layout.CCMAccount, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// renewTokens renews the tokens on the hosts of the control plane. What fails on one host does not keep the others from
// theirs.
func renewTokens(ctx context.Context, c *console.Console, named []string, all bool, output *printer.Format) error {
	hosts, errs, err := managerHosts(ctx, c.Client, named)
	if err != nil {
		return err
	}
	r := managertoken.Renewal{Kube: c.Kube, Now: c.ServerTime, Always: all}
	var tokens console.Tokens
	for _, h := range hosts {
		token, err := r.OnHost(ctx, h)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if token.State != managertoken.None {
			tokens.Add(v1.TokenStatus{Host: h.Name()}, token)
		}
	}
	if len(tokens) == 0 && len(errs) > 0 {
		return errors.Join(errs...)
	}
	err = c.PrintTokens(output, tokens, "no manager has a token in a file of these hosts: nothing to renew")
	return errors.Join(append(errs, err)...)
}

// managerHosts are the hosts that may have a manager: the named ones, or else those whose nodes are labelled as control
// plane. It is never simply all hosts. A worker's root could write a file with an old token of the manager, and would
// get a new one.
//
// A host that is labelled and refused is an error of its own: the others get their tokens.
func managerHosts(
	ctx context.Context,
	c *client.Client,
	named []string,
) (hosts []hostaccess.Host, refused []error, err error) {
	if len(c.Hosts) == 0 {
		return nil, nil, errors.New(
			"no host can be reached (--host-access): the tokens of managers are in files of the control-plane hosts",
		)
	}
	chosen := map[string]bool{}
	for _, name := range named {
		if !slices.ContainsFunc(c.Hosts, func(h hostaccess.Host) bool { return h.Name() == name }) {
			return nil, nil, fmt.Errorf("--host %s: --host-access reaches no host of this name", name)
		}
		chosen[name] = true
	}
	if len(named) == 0 {
		nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("listing nodes: %s", mask.Error(err))
		}
		evidence, err := objects.ReadEvidence(ctx, c.Kube)
		if err != nil {
			return nil, nil, err
		}
		evidence.Name(c.Host.ControlPlane...)
		for _, n := range nodes.Items {
			isNode := func(h hostaccess.Host) bool { return h.Name() == n.Name }
			if !component.HasControlPlaneRole(n.Labels) || !slices.ContainsFunc(c.Hosts, isNode) {
				continue // hosts with names of their own are named by the operator
			}
			if why := evidence.Why(n.Name); why != "" {
				refused = append(refused, fmt.Errorf("host %s is left out: %s", n.Name, why))
				continue
			}
			chosen[n.Name] = true
		}
	}
	hosts = slices.DeleteFunc(slices.Clone(c.Hosts), func(h hostaccess.Host) bool { return !chosen[h.Name()] })
	if len(hosts) == 0 {
		return nil, nil, errors.Join(append(refused, errors.New(
			"no host has the name of a node with the label node-role.kubernetes.io/control-plane: name those that run the manager, as --host-access does, with --host",
		))...)
	}
	return hosts, refused, nil
}
