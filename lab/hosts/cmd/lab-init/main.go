// Command lab-init is the first process of a host of the lab, and under the name systemctl the client of its services.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/transplant-dev/transplant/lab/hosts/machine"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background()) // the first process ends by a power cut alone
	code, err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context) (int, error) {
	if filepath.Base(os.Args[0]) == "systemctl" {
		return machine.Systemctl(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if len(os.Args) != 2 || os.Getpid() != 1 {
		return 2, fmt.Errorf(
			"lab-init is started by the lab with the configuration of a host, as the first process of its namespaces",
		)
	}
	c, err := machine.Load(os.Args[1])
	if err != nil {
		return 1, err
	}
	return 1, machine.Boot(ctx, c, os.Stdin, os.Stdout)
}
