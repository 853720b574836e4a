package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/transplant-dev/transplant/lab/hosts"
	"github.com/transplant-dev/transplant/lab/trial"
)

// How a block of commands of --host-access=manual begins and ends; all of it is a script for a shell, as it is.
const (
	blockBegins = "# run this on host "
	blockEnds   = "# transplant looks at host "
)

// byHand runs a command with --host-access=manual, and pastes each block that it prints into a shell. It returns the blocks.
func byHand(t *testing.T, s *Stage, args ...string) (trial.Result, []string) {
	t.Helper()
	hand := &hand{ssh: sshFor(t, s), copy: told(s.Cluster.Name), work: make(chan string)}
	var wg sync.WaitGroup
	wg.Go(func() { // next to the command, which waits until its block has been run
		for block := range hand.work {
			hand.run(t.Context(), block)
		}
	})
	r, err := s.Run(t.Context(), hand, append(args, "--host-access=manual")...)
	close(hand.work)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range hand.complaints {
		t.Error(complaint)
	}
	return r, hand.blocks
}

// hand reads what a command prints, and does as it says.
type hand struct {
	ssh        string
	copy       io.Writer
	work       chan string
	part       bytes.Buffer // of a line
	block      strings.Builder
	inside     bool
	blocks     []string
	complaints []string
}

func (h *hand) Write(p []byte) (int, error) {
	_, _ = h.copy.Write(p)
	h.part.Write(p)
	for {
		line, err := h.part.ReadString('\n')
		if err != nil {
			h.part.Reset()
			h.part.WriteString(line)
			return len(p), nil
		}
		h.line(line)
	}
}

func (h *hand) line(line string) {
	if strings.HasPrefix(line, blockBegins) {
		h.inside = true
		h.block.Reset()
	}
	if h.inside {
		h.block.WriteString(line)
	}
	if h.inside && strings.HasPrefix(line, blockEnds) {
		h.inside = false
		h.blocks = append(h.blocks, h.block.String())
		h.work <- h.block.String()
	}
}

func (h *hand) run(ctx context.Context, block string) {
	cmd := exec.CommandContext(ctx, "sh", "-c", block)
	cmd.Env = append(os.Environ(), "PATH="+h.ssh+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		h.complaints = append(h.complaints, fmt.Sprintf("what is to be done by hand fails: %v\n%s\n%s", err, block, out))
	}
}

// sshFor makes an ssh that leads to the hosts of a stage, and returns its directory. Whoever it lets in is root and needs no sudo, which is not there.
func sshFor(t *testing.T, s *Stage) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("#!/bin/sh\nhost=$1\ncase $host in\n")
	for _, h := range s.Hosts() {
		fmt.Fprintf(&b, "%s) enter=%q ;;\n", h.NodeName, enter(t, h))
	}
	b.WriteString("*) echo \"no host $host\" >&2; exit 255 ;;\nesac\n" +
		"exec $enter /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c 'sudo() { \"$@\"; }; '\"$2\"\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(b.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// enter is the command in front of one that runs on a host.
func enter(t *testing.T, h *hosts.Host) string {
	t.Helper()
	prefix, err := h.Enter()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(prefix, " ")
}
