// Package processlab decides how the faults of lab/faults are made in the lab of processes: what an eviction, a full
// disk and a power cut are where a host is a directory and everything on it a process.
package processlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/faults"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/trial"
)

// Lab is a trial whose hosts go wrong.
type Lab struct {
	*trial.Trial
	// dir holds what tells the command which of its hosts are lost or full.
	dir string
}

var _ faults.Cluster = (*Lab)(nil)

// New takes a trial that was started with the option Faults.
func New(t *trial.Trial, dir string) (*Lab, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a place for the faults: %w", err)
	}
	return &Lab{Trial: t, dir: dir}, nil
}

// Name is what tables call it.
func (l *Lab) Name() string {
	return fmt.Sprintf("process lab, %d control planes", len(l.ControlPlanes()))
}

// Hosts are the names of all hosts.
func (l *Lab) Hosts() []string {
	var out []string
	for _, h := range l.Trial.Hosts() {
		out = append(out, h.Name)
	}
	return out
}

// Command is the trial's, which looks for the faults of its hosts.
func (l *Lab) Command(args ...string) *exec.Cmd {
	cmd := l.Trial.Command(args...)
	cmd.Env = append(cmd.Env, "TRANSPLANT_TEST_FAULTS="+l.dir)
	return cmd
}

// How says how each fault is made.
func (l *Lab) How(kind faults.Kind) string {
	switch kind {
	case faults.APIGone:
		return "every connection to every API server is cut and refused"
	case faults.AccessLost:
		return "the test build of the command gets an error from every call to that host; its processes go on"
	case faults.DiskFull:
		if l.HasDisks() {
			return "the host's /etc/kubernetes and /var/lib/kubelet are file systems of their own and are filled: the kernel says ENOSPC"
		}
		return "the test build of the command gets ENOSPC from every write to that host; a real file system needs root"
	case faults.Rebooted:
		return "SIGKILL to the kubelet and every process of the host, and no access to it, until it is booted again"
	default:
		return howDisturbed[kind]
	}
}

// StopAPI cuts every connection to the API servers.
func (l *Lab) StopAPI(context.Context) (faults.Heal, error) {
	heal := l.Trial.StopAPI() //nolint:contextcheck // connections that heal opens live until Stop
	return func(context.Context) error { return heal() }, nil
}

// LoseAccess makes every call of the command to a host an error.
func (l *Lab) LoseAccess(_ context.Context, host string) (faults.Heal, error) {
	return l.mark("lost", host)
}

// mark tells the command what is wrong with a host.
func (l *Lab) mark(fault, host string) (faults.Heal, error) {
	path := filepath.Join(l.dir, fault+"-"+host)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, fmt.Errorf("marking host %s as %s: %w", host, fault, err)
	}
	return func(context.Context) error { return os.Remove(path) }, nil
}

// FillDisk fills a host's file systems where it has any.
func (l *Lab) FillDisk(_ context.Context, host string) (faults.Heal, error) {
	h, err := l.Host(host)
	if err != nil {
		return nil, err
	}
	if !l.HasDisks() {
		return l.mark("full", host)
	}
	free, err := l.Trial.FillDisk(h)
	if err != nil {
		return nil, errors.Join(err, free())
	}
	return func(context.Context) error { return free() }, nil
}

// Reboot cuts a host's power.
func (l *Lab) Reboot(_ context.Context, host string) (faults.Heal, error) {
	h, err := l.Host(host)
	if err != nil {
		return nil, err
	}
	found, err := l.mark("lost", host)
	if err != nil {
		return nil, err
	}
	if err := l.PowerOff(h); err != nil { //nolint:contextcheck // a power cut waits for nobody
		return nil, err
	}
	return func(ctx context.Context) error {
		return errors.Join(l.PowerOn(ctx, h), found(ctx))
	}, nil
}

// Up waits until every API server that the balancer knows is ready and every node is.
func (l *Lab) Up(ctx context.Context) error {
	return poll.Until(ctx, 100*time.Millisecond, "the lab", l.up)
}

func (l *Lab) up(ctx context.Context) error {
	for _, b := range l.LoadBalancer().Backends() {
		if !b.Ready {
			return fmt.Errorf("an API server is not ready: %w", b.Err)
		}
	}
	nodes, err := l.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s is not Ready", n.Name)
			}
		}
	}
	return nil
}

// Watch records who owns the loops and who writes to the cloud, with the lab's own eyes.
func (l *Lab) Watch(ctx context.Context) (faults.Judge, error) {
	w, err := l.Trial.Watch(ctx)
	if err != nil {
		return nil, err
	}
	return func() ([]faults.Problem, error) {
		j, err := w.Judge()
		if err != nil {
			return nil, err
		}
		var out []faults.Problem
		for _, o := range j.Overlaps {
			out = append(
				out,
				faults.Problem{From: o.Start, To: o.End, Text: fmt.Sprintf("two owners of %s by %s: %s and %s, %s to %s, %d calls",
					o.Loop, o.Evidence, o.Old, o.New, o.Start.Format(time.TimeOnly), o.End.Format(time.TimeOnly), len(o.Calls))},
			)
		}
		for _, call := range l.AWS().Unknown() {
			out = append(
				out,
				faults.Problem{
					Text: "the cloud was asked for what it does not know: " + strings.Join(
						[]string{call.Service, call.Action, call.Key},
						" ",
					),
				},
			)
		}
		return out, nil
	}, nil
}
