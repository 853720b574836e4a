package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// operator changes a lab with an editor and kubectl, as somebody does who follows the published documents, and can undo all of it.
type operator struct {
	lab   *Trial
	hosts map[string]hostaccess.Host // the control planes
	ask   func(context.Context, manager.Target) (v1.Manager, error)

	touched []touchedFile
	// undo takes back what was made in the API, last first.
	undo []func(context.Context) error
}

// touchedFile is a file as it was before the operator first wrote to it.
type touchedFile struct {
	host, path string
	was        hostaccess.File
	absent     bool
}

func newOperator(t *testing.T, lab *Trial) *operator {
	t.Helper()
	all, err := local.Open(lab.HostAccess())
	if err != nil {
		t.Fatal(err)
	}
	client := recorder.NewClient(nil)
	t.Cleanup(client.CloseIdleConnections)
	op := &operator{lab: lab, hosts: map[string]hostaccess.Host{}}
	op.ask = func(ctx context.Context, target manager.Target) (v1.Manager, error) {
		return recorder.Scrape(ctx, client, target.Address, lab.MetricsToken())
	}
	for _, h := range all {
		if slices.ContainsFunc(lab.ControlPlanes(), func(c *cluster.Host) bool { return c.Name == h.Name() }) {
			op.hosts[h.Name()] = h
		}
	}
	return op
}

// read returns a file, and whether there is one.
func (op *operator) read(t *testing.T, host, path string) (hostaccess.File, bool) {
	t.Helper()
	f, err := op.hosts[host].ReadFile(t.Context(), path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return f, err == nil
}

// write puts a file on a host.
func (op *operator) write(t *testing.T, host, path string, data []byte, mode fs.FileMode) {
	t.Helper()
	if !slices.ContainsFunc(op.touched, func(f touchedFile) bool { return f.host == host && f.path == path }) {
		was, there := op.read(t, host, path)
		op.touched = append(op.touched, touchedFile{host, path, was, !there})
	}
	if err := op.hosts[host].WriteFile(t.Context(), path, data, mode); err != nil {
		t.Fatal(err)
	}
}

// edit changes flags and mounts of a component on every control plane.
func (op *operator) edit(t *testing.T, component string, edits ...v1.Edit) {
	t.Helper()
	path := controlplane.ManifestDir + "/" + component + ".yaml"
	for name := range op.hosts {
		f, there := op.read(t, name, path)
		if !there {
			t.Fatalf("host %s has no %s", name, path)
		}
		data, err := controlplane.Apply(f.Data, edits)
		if err != nil {
			t.Fatal(err)
		}
		op.write(t, name, path, data, f.Mode)
	}
}

// remove takes a file that the operator has written away again.
func (op *operator) remove(t *testing.T, host, path string) {
	t.Helper()
	if err := op.hosts[host].Remove(t.Context(), path); err != nil {
		t.Fatal(err)
	}
}

// restart waits until a change of manifests has ended every process of the component, and deletes the leases that they leave behind: without that the
// next ones would wait until these expire, and otherwise do the same.
func (op *operator) restart(t *testing.T, component string, leases []string, change func()) {
	t.Helper()
	old := op.processes(t, component)
	left := map[string]*coordinationv1.Lease{}
	for _, name := range leases {
		if l, err := op.leases().Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			left[name] = l
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	change()
	await(t, "the end of every "+component+" with the old manifest", func(context.Context) (string, error) {
		now := op.processes(t, component)
		for key := range old {
			if now[key] {
				return key + " still runs", nil
			}
		}
		return "", nil
	})
	for name, l := range left {
		err := op.leases().Delete(t.Context(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// processes names every process of a component for good.
func (op *operator) processes(t *testing.T, component string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for name, h := range op.hosts {
		found, err := h.Processes(t.Context(), component)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			out[fmt.Sprintf("process %d of host %s, started at tick %d,", p.PID, name, p.StartTicks)] = true
		}
	}
	return out
}

// managers asks every manager that should run for its gauges; one that does not answer has Error set.
func (op *operator) managers(ctx context.Context) ([]v1.Manager, error) {
	targets, err := op.lab.targets(ctx, slices.Collect(maps.Values(op.hosts)))
	if err != nil {
		return nil, err
	}
	out := make([]v1.Manager, 0, len(targets))
	for _, target := range targets {
		m, err := op.ask(ctx, target)
		if err != nil {
			m.Error = err.Error()
		}
		m.Component, m.Host = target.Component, target.Host
		out = append(out, m)
	}
	return out, nil
}

// awaitOwners waits until each loop runs in exactly these components, once in each, and every manager answers but those named.
func (op *operator) awaitOwners(t *testing.T, want map[string][]string, silent ...string) {
	t.Helper()
	await(t, fmt.Sprintf("the owners %v", want), func(ctx context.Context) (string, error) {
		managers, err := op.managers(ctx)
		if err != nil {
			return "", err
		}
		have := map[string][]string{}
		for _, m := range managers {
			if m.Error != "" && !slices.Contains(silent, m.Component) {
				return fmt.Sprintf("%s@%s: %s", m.Component, m.Host, m.Error), nil
			}
			for _, loop := range m.Loops {
				have[loop] = append(have[loop], m.Component)
			}
		}
		for loop, components := range want {
			slices.Sort(have[loop])
			if !slices.Equal(slices.Sorted(slices.Values(components)), have[loop]) {
				return fmt.Sprintf("%s runs in %v", loop, have[loop]), nil
			}
		}
		return "", nil
	})
}

// awaitLeader waits until a manager of the component says that it leads the lease, and returns its host.
func (op *operator) awaitLeader(t *testing.T, component, lease string) string {
	t.Helper()
	host := ""
	await(t, component+" to lead "+lease, func(ctx context.Context) (string, error) {
		managers, err := op.managers(ctx)
		if err != nil {
			return "", err
		}
		for _, m := range managers {
			if m.Component == component && slices.Contains(m.Leads, lease) {
				host = m.Host
				return "", nil
			}
		}
		return "none does", nil
	})
	return host
}

// awaitRenewals waits until the lease has been renewed for longer than it holds: whoever waits for it to expire waits without success.
func (op *operator) awaitRenewals(t *testing.T, name string) {
	t.Helper()
	var first *coordinationv1.Lease
	await(t, "the lease "+name+" to be renewed", func(ctx context.Context) (string, error) {
		l, err := op.leases().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if first == nil || *l.Spec.HolderIdentity != *first.Spec.HolderIdentity {
			first = l
		}
		if l.Spec.RenewTime.Sub(first.Spec.RenewTime.Time) <= time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
			return "last at " + l.Spec.RenewTime.String(), nil
		}
		return "", nil
	})
}

func (op *operator) leases() coordinationclient.LeaseInterface {
	return op.lab.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
}

// logged reports whether what runs from a component's manifest on a host now has logged the text.
func (op *operator) logged(host, component, text string) (bool, error) {
	h, err := op.lab.Host(host)
	if err != nil {
		return false, err
	}
	for _, p := range h.Kubelet.Pods() {
		if !strings.HasPrefix(p.Name, component) {
			continue
		}
		files, err := filepath.Glob(h.Path("/var/log/pods/" + p.Namespace + "_" + p.Name + "_" + p.Hash + "/*/*.log"))
		if err != nil {
			return false, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return false, err
			}
			if strings.Contains(string(data), text) {
				return true, nil
			}
		}
	}
	return false, nil
}

// awaitLogged waits until what runs from a component's manifest on a host has logged the text.
func (op *operator) awaitLogged(t *testing.T, host, component, text string) {
	t.Helper()
	await(t, fmt.Sprintf("%s@%s to log %q", component, host, text), func(context.Context) (string, error) {
		there, err := op.logged(host, component, text)
		if err != nil || there {
			return "", err
		}
		return "it has not", nil
	})
}

// restore takes everything back, and waits until the lab works as before.
func (op *operator) restore(t *testing.T) {
	t.Helper()
	put := func(manifests bool) {
		for _, f := range op.touched {
			if strings.HasPrefix(f.path, controlplane.ManifestDir) != manifests {
				continue
			}
			if f.absent {
				op.remove(t, f.host, f.path)
			} else if err := op.hosts[f.host].WriteFile(t.Context(), f.path, f.was.Data, f.was.Mode); err != nil {
				t.Error(err)
			}
		}
	}
	op.restart(t, cluster.CloudControllerManager, []string{cluster.CloudControllerManager}, func() {
		op.restart(t, cluster.ControllerManager, []string{cluster.ControllerManager, MigrationLease}, func() { put(true) })
	})
	put(false)
	for _, undo := range slices.Backward(op.undo) {
		if err := undo(t.Context()); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := op.lab.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	settled(t, op.lab)
}

// inTree are owners as kube-controller-manager should be of each of the loops.
func inTree(loops ...string) map[string][]string { return ownedBy(cluster.ControllerManager, loops) }

// external are owners as cloud-controller-manager should be of each of the loops.
func external(loops ...string) map[string][]string {
	return ownedBy(cluster.CloudControllerManager, loops)
}

func ownedBy(manager string, loops []string) map[string][]string {
	out := map[string][]string{}
	for _, loop := range loops {
		out[loop] = []string{manager}
	}
	return out
}

// patience is how long anything is waited for, on a busy machine and with the delays of a real kubelet.
const patience = 2 * time.Minute

// await polls until f finds nothing missing; f says what is. An error ends the test at once.
func await(t *testing.T, what string, f func(context.Context) (missing string, err error)) {
	t.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		missing, err = f(ctx)
		return err == nil && missing == "", err
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v (%s)", what, err, missing)
	}
}
