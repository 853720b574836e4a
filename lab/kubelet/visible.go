package kubelet

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// visible is a process of the kubelet's name with its command line. The kubelet itself is a part of the lab's process:
// whoever wants to know what a kubelet runs with asks the host for its processes, and finds this one. It starts and
// ends with a run of the kubelet, and does nothing.
type visible struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// show starts the process in the host's directory, by which it is known to be the host's.
func (k *Kubelet) show(args []string) (*visible, error) {
	const waits = "read ended" // until its standard input ends, also when the lab's process does
	cmd := &exec.Cmd{
		Path: "/bin/sh", Dir: k.opts.HostDir, Env: []string{},
		Args: append([]string{"kubelet", "-c", waits, "kubelet"}, args...),
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("showing the kubelet's process: %w", err)
	}
	if err := k.engine.spawner.start(cmd); err != nil {
		return nil, fmt.Errorf("showing the kubelet's process (%s): %w", strings.Join(cmd.Args, " "), err)
	}
	return &visible{cmd, stdin}, nil
}

func (v *visible) end() {
	_ = v.stdin.Close()
	_ = v.cmd.Wait() // it says nothing
}
