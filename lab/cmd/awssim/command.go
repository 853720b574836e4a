package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/awssim"
)

// drain is how long calls under way may take to end when the program is told to stop. Calls that a fault holds are let
// go at once.
const drain = 5 * time.Second

const example = `  # The account: three instances, and a key that may only read next to one that may do everything.
  cat > account.yaml <<EOF
  instances:
  - privateIP: 10.0.0.11
  - privateIP: 10.0.0.12
  - privateIP: 10.0.1.11
  keys:
    AKIAMANAGER: full
    AKIAVIEWER: read-only
  EOF
  awssim --config account.yaml --audit calls.jsonl

  # A client: any SDK or the AWS CLI.
  AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=AKIAVIEWER AWS_SECRET_ACCESS_KEY=any \
    aws ec2 describe-instances

  # The controls: what is there, who called what, and a fault.
  curl -s http://127.0.0.1:4566/_sim/state
  curl -s 'http://127.0.0.1:4566/_sim/audit?mutating=true'
  curl -s -X POST http://127.0.0.1:4566/_sim/faults -d '{"action":"Create*","before":"2s","times":3}'`

// settings are the command's flags.
type settings struct {
	listen, config, audit string
}

func newCommand() *cobra.Command {
	var f settings
	cmd := &cobra.Command{
		Use:   "awssim",
		Short: "Serve a simulated AWS account: EC2, classic ELB, ELBv2 and instance metadata",
		Long: `Serve a simulated AWS account: EC2, classic ELB, ELBv2 and instance metadata, as far as the AWS cloud managers of Kubernetes use them.

What it does not know it refuses, and lists under /_sim/unknown. Signatures are not verified: an access key id is enough to call, which is why only
loopback addresses can be listened on. State lives in memory. Stop it with Ctrl-C.`,
		Example:       example,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().
		StringVar(&f.listen, "listen", "127.0.0.1:4566", "loopback address and port for the APIs, the metadata service (/latest) and the controls (/_sim); port 0 picks one")
	cmd.Flags().
		StringVar(&f.config, "config", "", "YAML file that describes the account; without it: one VPC, two subnets, no instances")
	cmd.Flags().
		StringVar(&f.audit, "audit", "", "file to append one JSON line per call to; overrides auditFile of --config")
	return cmd
}

// run serves until the context ends.
func (f settings) run(ctx context.Context, out io.Writer) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	listener, err := f.listener(ctx)
	if err != nil {
		return err
	}
	sim, err := awssim.New(options)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle(awssim.AdminPath, sim.AdminHandler())
	mux.Handle("/", sim)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(
		out,
		"Serving a simulated AWS account on http://%s (state: /_sim/state, calls: /_sim/audit).\n",
		listener.Addr(),
	)

	select {
	case err = <-failed:
		return errors.Join(fmt.Errorf("serving on %s: %w", listener.Addr(), err), sim.Close())
	case <-ctx.Done():
	}
	closed := sim.Close()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		closed = errors.Join(closed, fmt.Errorf("ending connections: %w", err), server.Close())
	}
	return closed
}

func (f settings) options() (awssim.Options, error) {
	var o awssim.Options
	if f.config != "" {
		text, err := os.ReadFile(f.config)
		if err != nil {
			return o, fmt.Errorf("reading the account: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, &o); err != nil {
			return o, fmt.Errorf("reading the account from %q: %w", f.config, err)
		}
	}
	if f.audit != "" {
		o.AuditFile = f.audit
	}
	return o, nil
}

// listener refuses addresses that others could reach: whoever reaches this endpoint may do everything with it.
func (f settings) listener(ctx context.Context) (net.Listener, error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, fmt.Errorf("reading --listen %q: %w", f.listen, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf(
			"--listen %q is not a loopback address such as 127.0.0.1:4566; signatures are not verified here, so nobody else may reach it",
			f.listen,
		)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", f.listen, err)
	}
	return listener, nil
}
