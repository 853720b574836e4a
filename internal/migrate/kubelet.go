package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

const leaseNamespace = "kube-node-lease"

// kubelet changes the flags of a kubelet, or puts them back, and restarts it.
type kubelet struct{ *Engine }

// done is about the file and the node; that the kubelet was restarted after the write only the journal can say, so a step that was begun and
// not finished restarts it again.
func (x kubelet) done(ctx context.Context, s v1.Step) (bool, error) {
	if s.Restore != "" {
		_, restored, err := x.restored(ctx, s)
		return restored, err
	}
	f, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum == absent {
		return false, fmt.Errorf("%s on host %s is gone", s.Path, s.Host)
	}
	want, err := controlplane.ApplyKubelet(f.Data, s.Edits)
	if err != nil {
		return false, fmt.Errorf("%s on host %s: %w", s.Path, s.Host, err)
	}
	return string(want) == string(f.Data), nil
}

func (x kubelet) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if s.Drain {
		return x.drained(ctx, s, rec, func() error { return x.change(ctx, s, rec) })
	}
	return x.change(ctx, s, rec)
}

func (x kubelet) change(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	f, _, err := x.read(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	data, mode := []byte(nil), fs.FileMode(0)
	if s.Restore != "" {
		if data, mode, _, err = x.backedUp(ctx, s.Restore, s.Host); err != nil {
			return err
		}
	} else {
		if data, err = controlplane.ApplyKubelet(f.Data, s.Edits); err != nil {
			return fmt.Errorf("%s on host %s: %w", s.Path, s.Host, err)
		}
		mode = f.Mode.Perm()
	}
	if err := x.backup(ctx, s, rec); err != nil {
		return err
	}
	if err := x.write(ctx, s, rec, data, mode); err != nil {
		return err
	}
	h, err := x.host(s.Host)
	if err != nil {
		return err
	}
	before, err := x.renewed(ctx, s.Host)
	if err != nil {
		return err
	}
	if err := x.reread(ctx, s); err != nil {
		return err
	}
	if err := h.RestartKubelet(ctx); err != nil {
		return fmt.Errorf("restarting the kubelet on host %s with its new flags: %w", s.Host, err)
	}
	return x.awaitNode(ctx, s, before)
}

// reread makes the service manager read its unit files again where the step has changed one of them: it would start the kubelet with the old settings
// else. An environment file is read at each start.
func (x kubelet) reread(ctx context.Context, s v1.Step) error {
	if !slices.ContainsFunc(controlplane.UnitDirs, func(dir string) bool { return strings.HasPrefix(s.Path, dir+"/") }) {
		return nil
	}
	h, err := x.units(s.Host)
	if err != nil {
		return err
	}
	return h.DaemonReload(ctx)
}

func (x kubelet) renewed(ctx context.Context, host string) (time.Time, error) {
	var at time.Time
	err := Retry(ctx, writeBudget, func(ctx context.Context) error {
		l, err := x.Kube.CoordinationV1().Leases(leaseNamespace).Get(ctx, x.NodeNames[host], metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the lease of node %q (host %s): %w", x.NodeNames[host], host, err)
		}
		if l.Spec.RenewTime != nil {
			at = l.Spec.RenewTime.Time
		}
		return nil
	})
	return at, err
}

// awaitNode waits until the restarted kubelet has renewed its lease and its node is Ready under the same identity.
func (x kubelet) awaitNode(ctx context.Context, s v1.Step, before time.Time) error {
	reason := ""
	err := x.poll(ctx, timeout(s), settleInterval, func(ctx context.Context) (bool, error) {
		at, err := x.renewed(ctx, s.Host)
		if err != nil {
			return false, err
		}
		if !at.After(before) {
			reason = "the kubelet has not renewed its node's lease since it was restarted"
			return false, nil
		}
		n, err := x.Kube.CoreV1().Nodes().Get(ctx, x.NodeNames[s.Host], metav1.GetOptions{})
		if err != nil {
			reason = err.Error()
			return false, nil
		}
		reason = "the node is not Ready"
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if errors.Is(err, errWaited) {
		return &VerifyError{Waited: timeout(s), Reason: fmt.Sprintf("node %s: %s", x.NodeNames[s.Host], reason)}
	}
	return err
}
