// Command lab-supervisor serves the simulated AWS account and the load balancer of a cluster of hosts until it is told
// to stop.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/transplant-dev/transplant/lab/hosts/supervise"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) != 2 {
		return errors.New("lab-supervisor is started by the lab with its configuration")
	}
	c, err := supervise.Load(os.Args[1])
	if err != nil {
		return err
	}
	return supervise.Run(ctx, c, func() error {
		_, err := fmt.Fprintln(os.Stdout, "ready")
		return err
	})
}
