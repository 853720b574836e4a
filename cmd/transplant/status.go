package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/status"
)

// Values of status --details.
const (
	detailsNone  = "none"
	detailsNodes = "nodes"
)

func newStatus(c *connection) *cobra.Command {
	var output *format
	var w watching
	details := format{value: detailsNone, allowed: []string{detailsNone, detailsNodes}}
	cmd := &cobra.Command{
		Use: "status", Short: "One screen: how far it is, who owns the loops, what stands in the way, what to do next", Args: cobra.NoArgs,
		Example: "  transplant status           # from any machine, with the right to read a few objects\n" +
			"  transplant status --watch   # until the run ends; the exit code is that of its result",
		Long: "Status says how a run goes that may be carried out on another machine. It reads objects of the API and nothing else: no host is opened, nothing is\n" +
			"written. What may not be read is named in a line, and the rest is said all the same.\n\n" +
			"With --watch a terminal is drawn anew in place, a pipe gets a line when something changes, and -o json one document a line. It ends when the run does:\n" +
			"with 0 when it was applied or rolled back, with 1 when it failed, with 130 at Ctrl-C.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.refused(output.value); err != nil {
				return err
			}
			if err := c.connect(); err != nil {
				return err
			}
			board, err := c.board(cmd.Context(), w.on)
			if err != nil {
				return err
			}
			if w.on {
				return c.watchStatus(cmd.Context(), board, output.value, details.value == detailsNodes)
			}
			board.Look(cmd.Context())
			s := status.Judge(board.Facts())
			c.header(s.Cluster)
			return output.print(c.out, s, map[string]func() error{"text": func() error {
				return printStatus(c.out, s, c.layoutFor(c.out, false), details.value == detailsNodes)
			}})
		},
	}
	output = formatFlag(cmd, "text", "json", "yaml")
	cmd.Flags().Var(&details, "details", "nodes: every host and node, not only the worst ten")
	w.flags(cmd)
	return cmd
}

// board is what is read of the cluster, and followed.
func (c *connection) board(ctx context.Context, follow bool) (*status.Board, error) {
	kube := c.kube
	if follow {
		// The limit of a request's time would end a watch, too.
		cfg := rest.CopyConfig(c.config)
		cfg.Timeout = 0
		var err error
		if kube, err = kubernetes.NewForConfig(cfg); err != nil {
			return nil, fmt.Errorf("using the kubeconfig: %w", err)
		}
	}
	doc, err := status.ReadJournal(ctx, c.kube)
	if err != nil {
		doc = nil // the board says why, beside what can be read
	}
	return status.NewBoard(status.Options{Kube: kube, Cluster: c.cluster(ctx, doc), Now: c.serverTime}, status.LeaseNames(doc)), nil
}

// serverTime is the time of the API server.
func (c *connection) serverTime() time.Time { return now().Add(c.traffic.Offset()) }

// cluster names the cluster as far as the API says which it is.
func (c *connection) cluster(ctx context.Context, doc *v1.Journal) v1.Cluster {
	out := v1.Cluster{Server: c.config.Host, Context: c.context}
	if doc != nil {
		out.Name, out.UID, out.Provider = doc.Plan.Cluster.Name, doc.Plan.Cluster.UID, doc.Plan.Cluster.Provider
	}
	if v, err := c.kube.Discovery().ServerVersion(); err == nil {
		out.Version = v.GitVersion
	}
	if ns, err := c.kube.CoreV1().Namespaces().Get(ctx, planlayout.Namespace, metav1.GetOptions{}); err == nil {
		out.UID = string(ns.UID)
	}
	return out
}
