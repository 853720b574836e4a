package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Down ends the cluster and removes everything of it: processes, links, control groups and files. It goes by what it
// finds, so that it also cleans up after a crash, and may be called again.
func (c *Cluster) Down(ctx context.Context) error {
	var problems []error
	pids, err := processesWithPrefix(
		filepath.Join(c.binDir(), "lab-init"),
		filepath.Join(c.Dir, "hosts")+string(filepath.Separator),
	)
	problems = append(problems, err)
	for _, pid := range pids {
		problems = append(problems, end(ctx, pid, syscall.SIGKILL))
	}
	problems = append(problems, c.stopSupervisor(ctx))
	links, err := net.Interfaces()
	if err != nil {
		problems = append(problems, fmt.Errorf("listing network interfaces: %w", err))
	}
	for _, l := range links {
		if strings.HasPrefix(l.Name, "v-"+c.Name+"-") || l.Name == c.bridge() {
			problems = append(problems, removeLink(ctx, l.Name))
		}
	}
	bounded, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	problems = append(problems, removeCgroups(bounded, c.cgroup()))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return c.removeFiles()
}

// stopSupervisor ends the cloud and the load balancer.
func (c *Cluster) stopSupervisor(ctx context.Context) error {
	pids, err := processes(filepath.Join(c.binDir(), "lab-supervisor"), c.supervisorConfig())
	for _, pid := range pids {
		err = errors.Join(err, end(ctx, pid, syscall.SIGTERM))
	}
	return err
}

// removeFiles removes what a cluster writes, and nothing else that lies in its directory.
func (c *Cluster) removeFiles() error {
	var problems []error
	for _, name := range []string{
		"hosts", "bin", "usr", "images", "admin.conf", "audit.jsonl", "supervisor.json", "supervisor.log", stateFile,
	} {
		if err := os.RemoveAll(filepath.Join(c.Dir, name)); err != nil {
			problems = append(problems, fmt.Errorf("removing files of cluster: %w", err))
		}
	}
	_ = os.Remove(c.Dir) // unless something else is in it
	return errors.Join(problems...)
}
