package ccmtrial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/edge"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/provider"
)

const (
	mainLease      = "cloud-controller-manager"
	migrationLease = "cloud-provider-extraction-migration"

	ours     = "ours"
	upstream = "upstream"

	// ensureRequests is of how many requests an EnsureLoadBalancer consists, so that a manager is in the middle of one
	// when it is frozen.
	ensureRequests = 10
)

// world is a cluster without machines, a cloud, and the managers that are tried.
type world struct {
	dir     string
	program string // sim-cloud-controller-manager
	api     *apiserver.Server
	admin   kubernetes.Interface
	cloud   *simcloud.Cloud
	flags   []string // of every manager
	started int

	inPods bool // managers run in pods, and the trial is their kubelet
	// migrates reports whether managers have a lease for each group of loops.
	migrates bool
	// ways are the connections of managers to the API, by name, where they are disturbed.
	ways map[string]*edge.Edge

	turning sync.Mutex // of the load, which waits while it is held
	joined  []string   // the nodes of the load that no one has taken away

	kubeconfig string // of every manager; where it is empty, each has a user of its own
}

// start starts a manager of an implementation, which reaches the API at a host:port. Its user in the API is its name in
// the cloud. It returns before the manager serves.
func (w *world) start(ctx context.Context, implementation, api string) (*ccmlab.Manager, error) {
	w.started++
	name := fmt.Sprintf("%s-%d", implementation, w.started)
	kubeconfig := w.kubeconfig
	if kubeconfig == "" {
		var err error
		if kubeconfig, err = w.api.KubeconfigVia(api, name); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(w.dir, name+"-cloud.yaml")
	if err := (provider.Config{Endpoint: w.cloud.URL(), Caller: name, EnsureRequests: ensureRequests}).WriteFile(
		config,
	); err != nil {
		return nil, err
	}
	flags, env := w.flags, []string(nil)
	if w.inPods {
		more, of, err := w.inPod(ctx, name)
		if err != nil {
			return nil, err
		}
		flags, env = slices.Concat(flags, more), of
	}
	return ccmlab.Start(ccmlab.Options{
		API: w.api, Name: name, Program: w.program, Dir: w.dir, Kubeconfig: kubeconfig, Env: env,
		Flags: append([]string{
			"--implementation=" + implementation,
			"--v=2",
			"--cloud-provider=" + provider.Name,
			"--cloud-config=" + config,
			"--configure-cloud-routes=false",
		}, flags...),
	})
}

// patience is how long anything may take that is not measured: much longer than it does, even on a busy machine.
const patience = 90 * time.Second

// errNotYet is for what is waited for and not there.
var errNotYet = errors.New("not yet")

// eventually waits until look returns nil. Its error says what was missing last.
func eventually(ctx context.Context, what string, limit time.Duration, look func(context.Context) error) error {
	return poll.Within(ctx, 50*time.Millisecond, limit, what, look)
}

// term is one holding of a lease.
type term struct {
	holder      string
	transitions int32
}

// term is who holds a lease, or an error while nobody does.
func (w *world) term(ctx context.Context, lease string) (term, error) {
	l, err := w.admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return term{}, err
	}
	t := term{ptr.Deref(l.Spec.HolderIdentity, ""), ptr.Deref(l.Spec.LeaseTransitions, 0)}
	if t.holder == "" {
		return t, fmt.Errorf("nobody holds lease %s", lease)
	}
	return t, nil
}

// passes waits until a lease has another holder than before.
func (w *world) passes(ctx context.Context, lease string, before term, limit time.Duration) error {
	return eventually(ctx, "lease "+lease+" to pass from "+before.holder, limit, func(ctx context.Context) error {
		now, err := w.term(ctx, lease)
		if err == nil && now.holder == before.holder {
			err = fmt.Errorf("%s still holds it", now.holder)
		}
		return err
	})
}

// acts are what has been done in this world since a moment.
func (w *world) acts(since time.Time) ([]act, error) {
	writes, err := w.api.Audit()
	if err != nil {
		return nil, err
	}
	all := acts(w.cloud.Calls(simcloud.Filter{Mutating: true}), writes)
	for i, a := range all {
		if !a.at.Before(since) {
			return all[i:], nil
		}
	}
	return nil, nil
}

// busy waits until a manager has made a number of changes in the cloud since a moment.
func (w *world) busy(ctx context.Context, m *ccmlab.Manager, since time.Time, changes int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := w.cloud.Wait(
		ctx,
		simcloud.Filter{Mutating: true, Callers: []string{m.Name()}},
		func(calls []simcloud.Call) bool {
			n := 0
			for _, c := range calls {
				if c.Arrived.After(since) {
					n++
				}
			}
			return n >= changes
		},
	)
	if err != nil {
		return fmt.Errorf("waiting for %s to make %d changes: %w", m.Name(), changes, errors.Join(err, m.Alive()))
	}
	return nil
}
