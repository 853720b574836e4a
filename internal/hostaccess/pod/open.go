package pod

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/nodemanager"
	"github.com/transplant-dev/transplant/internal/podreason"
)

const mergePatch = types.MergePatchType

// Options say which hosts are reached and how. Kube, Config and Image are needed.
type Options struct {
	Kube   kubernetes.Interface
	Config *rest.Config
	// Image holds this program at /transplant.
	Image string
	// Selector of nodes by their labels; empty for all of them.
	Selector string
	// Nodes are the names of those that are wanted; nil for all that the selector finds.
	Nodes []string
	// Namespace of the pods; kube-system when empty.
	Namespace string
	// User is who runs this command, in words, for an administrator who finds its pods.
	User string
	// Tell is called with what a watching operator wants to know; nil for silence.
	Tell func(string)
	// TTL is how long pods stay when this process is killed; zero means 10 minutes.
	TTL time.Duration
	// Idle is how long an agent lives without requests. Zero means 4 minutes, which is longer than any call waits for the
	// API server.
	Idle time.Duration
	// Start bounds the start of a pod; zero means 2 minutes.
	Start time.Duration
	// Look and Change bound how long a call waits for a host that cannot be reached, such as one whose API server
	// restarts. Zero means 1 and 3 minutes.
	Look, Change time.Duration
	// Linger is how long a change pod stays for a next step on its host that needs exactly the same directories. Zero
	// means not at all.
	Linger time.Duration
	// Parallel bounds how many pods are made or taken away at a time; zero means 16.
	Parallel int

	exec executor // a seam for tests
}

// access is what all hosts of one command share.
type access struct {
	Options
	run  string
	self holder.Process

	// living ends with the access; what it does by itself ends with it.
	living context.Context //nolint:containedctx // see above
	cancel context.CancelFunc
	loops  sync.WaitGroup

	owning         sync.Mutex // held while the Job is renewed or made again
	mu             sync.Mutex
	job            types.UID
	born, bornHere time.Time // when the Job was made, by the API server's clock and by this one's
	carriers       map[*podSession]bool
	made           int
	told           map[string]time.Time // when it was said last that a host cannot be asked

	reasons *podreason.Reader
}

// Open makes a look pod on every host, and waits until each can be asked, or cannot be for a reason. Its methods then
// return that reason. The caller calls closing once, with a context that bounds the cleaning up.
func Open(ctx context.Context, o Options) (hosts []hostaccess.Host, closing func(context.Context) error, err error) {
	a, err := newAccess(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	names, err := a.nodes(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, a.close(ctx))
	}
	if err := a.own(ctx); err != nil {
		return nil, nil, errors.Join(explainRefusal(err), a.close(ctx))
	}
	a.loops.Go(a.keepAlive) //nolint:contextcheck // as long as the access is open; a large cluster is opened for longer than agents wait for somebody to ask
	if err := a.removeLeftovers(ctx); err != nil {
		a.Tell(err.Error())
	}
	all := make([]*host, len(names))
	for i, name := range names {
		all[i] = newHost(a, name)
		hosts = append(hosts, all[i])
	}
	a.Tell(
		fmt.Sprintf(
			"looking at %s through pods in %s; --host-access=none asks the API alone",
			english.Count(len(names), "host"),
			a.Namespace,
		),
	)
	a.lookAtAll(ctx, all)
	return hosts, a.close, ctx.Err()
}

// lookAtAll waits until each host can be asked, or cannot be for a reason. A pod that does not start is waited for
// minutes. So it is said after some seconds which hosts are waited for, and again as long as that lasts.
func (a *access) lookAtAll(ctx context.Context, all []*host) {
	looked := make([]atomic.Bool, len(all))
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		for pause := 2 * impatience; ; pause = reminder / 2 {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			var late []*host
			for i, h := range all {
				if !looked[i].Load() {
					late = append(late, h)
				}
			}
			if len(late) > 0 {
				a.Tell(fmt.Sprintf(
					"still waiting for %d of %s, host %s among them: %s",
					len(late), english.Count(len(all), "host"), late[0].Name(), late[0].reader.waitsFor(),
				))
			}
		}
	})
	_ = a.each(ctx, len(all), func(ctx context.Context, i int) error {
		_, _, _ = all[i].reader.get(ctx) // a host that cannot be reached says so whenever it is asked
		looked[i].Store(true)
		return nil
	})
	close(done)
	telling.Wait()
}

func newAccess(ctx context.Context, o Options) (*access, error) {
	if o.Namespace == "" {
		o.Namespace = component.Namespace
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	for d, value := range map[*time.Duration]time.Duration{
		&o.TTL:    10 * time.Minute,
		&o.Idle:   4 * time.Minute,
		&o.Start:  2 * time.Minute,
		&o.Look:   time.Minute,
		&o.Change: 3 * time.Minute,
	} {
		if *d <= 0 {
			*d = value
		}
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.exec == nil {
		var err error
		if o.exec, err = execIn(o.Config); err != nil {
			return nil, fmt.Errorf("using the kubeconfig: %w", err)
		}
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("choosing a name for the pods: %w", err)
	}
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &access{
		Options: o, run: hex.EncodeToString(random), self: holder.This(o.User), living: living, cancel: cancel,
		carriers: map[*podSession]bool{}, told: map[string]time.Time{},
		reasons: &podreason.Reader{Clock: clock.RealClock{}, NoLogs: true},
	}, nil
}

// nodes are the names of the hosts, sorted.
func (a *access) nodes(ctx context.Context) ([]string, error) {
	var names []string
	list := metav1.ListOptions{LabelSelector: a.Selector, Limit: 500}
	for {
		page, err := a.Kube.CoreV1().Nodes().List(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("looking for hosts: listing nodes: %w", err)
		}
		for i := range page.Items {
			if n := &page.Items[i]; hasHost(n) && (a.Nodes == nil || slices.Contains(a.Nodes, n.Name)) {
				names = append(names, n.Name)
			}
		}
		if list.Continue = page.Continue; list.Continue == "" {
			break
		}
	}
	slices.Sort(names)
	switch {
	case len(names) > 0:
		return names, nil
	case a.Selector != "":
		return nil, fmt.Errorf(
			"no Linux node has the labels %q: see them with \"kubectl get nodes --show-labels\"",
			a.Selector,
		)
	}
	return nil, errors.New("there is no Linux node to look at")
}

// hasHost reports whether there is a Linux machine behind a node on which pods of the host's can run.
func hasHost(n *corev1.Node) bool {
	os := n.Labels[corev1.LabelOSStable]
	if os == "" {
		os = n.Status.NodeInfo.OperatingSystem
	}
	return (os == "" || os == "linux") && !nodemanager.IsVirtual(n.Labels) &&
		n.Labels["eks.amazonaws.com/compute-type"] != "fargate"
}

// each does something for 0 to n-1, a few at a time, and joins what went wrong.
func (a *access) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	errs := make([]error, n)
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(a.Parallel, n) {
		wg.Go(func() {
			for i := range work {
				errs[i] = do(ctx, i)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}

// keepAlive renews the Job and tells the agents that their client is still there, until the access is closed.
func (a *access) keepAlive() {
	renew, ask := time.NewTicker(a.TTL/4), time.NewTicker(a.Idle/4)
	defer renew.Stop()
	defer ask.Stop()
	for {
		select {
		case <-a.living.Done():
			return
		case <-renew.C:
			ctx, cancel := context.WithTimeout(a.living, a.TTL/4)
			_ = a.ownAgain(ctx, a.owner()) // tried again by then
			cancel()
		case <-ask.C:
			a.mu.Lock()
			var all []*podSession
			for c := range a.carriers {
				all = append(all, c)
			}
			a.mu.Unlock()
			ctx, cancel := context.WithTimeout(a.living, a.Idle/4)
			_ = a.each(ctx, len(all), func(ctx context.Context, i int) error {
				all[i].ping(ctx)
				return nil
			})
			cancel()
		}
	}
}

// close takes everything away that this command made.
func (a *access) close(ctx context.Context) error {
	a.cancel()
	a.loops.Wait()
	a.mu.Lock()
	var all []*podSession
	for c := range a.carriers {
		all = append(all, c)
	}
	job := a.job
	a.mu.Unlock()
	for _, c := range all {
		c.shut()
	}
	if job == "" {
		return nil
	}
	if err := a.remove(ctx, a.run); err != nil {
		return fmt.Errorf(
			"deleting the pods on the hosts: %w; they end by themselves in %s and are gone in %s; to delete them now: \"kubectl -n %s delete job,pod -l %s=%s\"",
			err,
			a.Idle,
			a.TTL,
			a.Namespace,
			LabelRun,
			a.run,
		)
	}
	return nil
}

// name is that of the next pod. A kubelet sees the names of other pods, and may make pods of its own node under any. So
// none can be guessed.
func (a *access) name(kind string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made++
	return strings.Join([]string{"transplant", kind, a.run, fmt.Sprint(a.made), strings.ToLower(rand.Text()[:16])}, "-")
}
