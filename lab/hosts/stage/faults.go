package stage

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/faults"
	"github.com/transplant-dev/transplant/lab/hosts"
)

// Faulty is a stage on which things go wrong. Its cluster was made with the build tag faults.
type Faulty struct{ stage *Stage }

var _ faults.Cluster = Faulty{}

// Name is what tables call it.
func (f Faulty) Name() string {
	return fmt.Sprintf("real hosts (control planes: %d, workers: %d)", f.stage.ControlPlanes, f.stage.Workers)
}

// Hosts are the names of all hosts, which are their nodes'.
func (f Faulty) Hosts() []string {
	var out []string
	for _, h := range f.stage.Hosts() {
		out = append(out, h.NodeName)
	}
	return out
}

// Command is the stage's.
func (f Faulty) Command(args ...string) *exec.Cmd { return f.stage.Command(args...) }

// How says how each fault is made.
func (f Faulty) How(kind faults.Kind) string {
	switch kind {
	case faults.APIGone:
		return "every kube-apiserver is stopped with SIGSTOP: connections hang, and nothing answers"
	case faults.AccessLost:
		return "every pod of the command on that host is evicted and taken away without a grace period"
	case faults.DiskFull:
		return "the host's own file system is filled: the kernel says ENOSPC"
	case faults.Rebooted:
		return "the host's namespaces end with everything in them, as in a power cut; its disk stays, and it is started again"
	default:
		return ""
	}
}

// StopAPI stops every API server where it stands.
func (f Faulty) StopAPI(ctx context.Context) (faults.Heal, error) {
	var stopped []int
	heal := func(context.Context) error {
		var errs []error
		for _, pid := range stopped {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
				errs = append(errs, fmt.Errorf("letting kube-apiserver %d go on: %w", pid, err))
			}
		}
		return errors.Join(errs...)
	}
	for _, h := range f.stage.controlPlanes() {
		found, err := h.Processes(ctx, cluster.APIServer)
		if err != nil {
			return nil, errors.Join(err, heal(ctx))
		}
		for _, p := range found {
			if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
				return nil, errors.Join(fmt.Errorf("stopping kube-apiserver on host %s: %w", h.Name, err), heal(ctx))
			}
			stopped = append(stopped, p.PID)
		}
	}
	return heal, nil
}

// LoseAccess takes the command's pods on a host away; the command makes new ones.
func (f Faulty) LoseAccess(ctx context.Context, host string) (faults.Heal, error) {
	pods := f.stage.Client.CoreV1().Pods(metav1.NamespaceSystem)
	list, err := pods.List(
		ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=transplant", FieldSelector: "spec.nodeName=" + host},
	)
	if err != nil {
		return nil, fmt.Errorf("looking for the pods on host %s: %w", host, err)
	}
	for _, p := range list.Items {
		err := pods.EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{
				Name:      p.Name,
				Namespace: p.Namespace,
			},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("evicting pod %s: %w", p.Name, err)
		}
	}
	return func(context.Context) error { return nil }, nil
}

func (f Faulty) host(name string) (*hosts.Host, error) { return f.stage.Host(name) }

// FillDisk fills a host's own file system.
func (f Faulty) FillDisk(ctx context.Context, host string) (faults.Heal, error) {
	h, err := f.host(host)
	if err != nil {
		return nil, err
	}
	return h.FreeDisk, h.FillDisk(ctx)
}

// Reboot cuts a host's power.
func (f Faulty) Reboot(ctx context.Context, host string) (faults.Heal, error) {
	h, err := f.host(host)
	if err != nil {
		return nil, err
	}
	return h.Up, h.Down(ctx)
}

// Up waits until every host and every static pod is ready again.
func (f Faulty) Up(ctx context.Context) error { return f.stage.WaitReady(ctx) }

// Facts are the stage's.
func (f Faulty) Facts(ctx context.Context) ([]string, error) { return f.stage.Facts(ctx) }

// Watch records who owns the loops and who writes to the cloud.
func (f Faulty) Watch(ctx context.Context) (faults.Judge, error) {
	w := f.stage.Watch(ctx)
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
		unknown, err := f.stage.admin(ctx, "unknown")
		if text := strings.TrimSpace(string(unknown)); err != nil || text != "null" && text != "[]" {
			out = append(
				out,
				faults.Problem{Text: fmt.Sprintf("the cloud was asked for what it does not know: %s (%v)", text, err)},
			)
		}
		return out, nil
	}, nil
}
