package cli

import (
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

// agentSocket is where an agent answers, in a directory of its pod's own.
const agentSocket = "/run/transplant/agent.sock"

// newHostAgent is what runs in the pods through which hosts are reached; an operator never starts it.
func newHostAgent(c *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "host-agent",
		Short:  "What runs in the pods of --host-access=pod",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	o := agent.Options{}
	var socket string
	serve := &cobra.Command{
		Use: "serve", Short: "Answer calls about the host that is mounted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), client.HandledSignals()...)
			defer stop()
			a, err := agent.New(o)
			if err != nil {
				return err
			}
			l, err := agent.Listen(socket)
			if err != nil {
				return err
			}
			return a.Serve(ctx, l)
		},
	}
	f := serve.Flags()
	f.StringVar(&o.Name, "name", "", "the host's name")
	f.StringVar(&o.Root, "root", "/host", "where the host's root is mounted")
	f.StringArrayVar(
		&o.Parts,
		"part",
		nil,
		"a directory that is mounted and may be changed (default: everything is mounted, and only read)",
	)
	f.BoolVar(&o.Service, "service", false, "units may be restarted, stopped and started")
	console.PositiveDurationVar(f, &o.Idle, "idle", 2*time.Minute, "end when no request came for so long")
	relay := &cobra.Command{
		Use: "relay", Short: "Join standard input and output to the agent", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return agent.Relay(cmd.Context(), socket, c.In, c.Out) },
	}
	for _, sub := range []*cobra.Command{serve, relay} {
		sub.Flags().StringVar(&socket, "socket", agentSocket, "where the agent answers")
		cmd.AddCommand(sub)
	}
	return cmd
}
