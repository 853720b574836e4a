package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// LostHost is a host that was out of reach when a run stopped, and what the API says of its node.
type LostHost struct {
	Name, Node string
	// Why is what reaching it ended with.
	Why string
	// Evidence are sentences about its node.
	Evidence []string
	// Alive is why the host may live, so that it cannot be taken out of the migration; empty when its node has been silent for long enough or is gone.
	Alive string
}

// LostError says that a run stopped while hosts were out of reach. What it wraps is what the run stopped with.
type LostError struct {
	Hosts []LostHost
	Err   error
}

func (e *LostError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	for _, h := range e.Hosts {
		fmt.Fprintf(&b, "\nhost %s is out of reach (%s)", h.Name, h.Why)
		for _, line := range h.Evidence {
			b.WriteString("\n    " + line)
		}
	}
	return b.String()
}

func (e *LostError) Unwrap() error { return e.Err }

// away are the hosts that could not be reached, each with the last attempt.
type away struct {
	mu    sync.Mutex
	hosts map[string]away1
}

type away1 struct {
	at  time.Time
	err error
}

// awayFor is for how long a host that could not be reached is not tried again by those who look at all hosts: a look may take a minute to end in vain.
const awayFor = 20 * time.Second

// missed remembers a host that was out of reach.
func (e *Engine) missed(err error) {
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		e.away.mu.Lock()
		defer e.away.mu.Unlock()
		if e.away.hosts == nil {
			e.away.hosts = map[string]away1{}
		}
		e.away.hosts[out.Host] = away1{e.Clock.Now(), out}
	}
}

// missing is what the last attempt to reach a host ended with, if that was a moment ago.
func (e *Engine) missing(host string) error {
	e.away.mu.Lock()
	defer e.away.mu.Unlock()
	if a, ok := e.away.hosts[host]; ok && e.Clock.Since(a.at) < awayFor {
		return a.err
	}
	return nil
}

// targets are the managers that should run, and an unknown one for each control-plane host that is out of reach: what it runs is not known, and whoever
// asks for all has to know that.
func (e *Engine) targets(ctx context.Context, components ...string) ([]Target, []v1.Manager, error) {
	if e.Seed != nil {
		return e.seedTargets(ctx, components...)
	}
	var out []Target
	var unknown []v1.Manager
	for _, h := range e.Hosts {
		if e.worker(h.Name()) {
			continue
		}
		err := e.missing(h.Name())
		var found []Target
		if err == nil {
			found, err = Targets(ctx, []hostaccess.Host{h}, components...)
			e.missed(err)
		}
		if hostaccess.IsUnreachable(err) {
			for _, c := range components {
				unknown = append(unknown, v1.Manager{Component: c, Host: h.Name(), Error: err.Error()})
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		out = append(out, found...)
	}
	deployed, err := e.deployedTargets(ctx, components)
	if err != nil {
		return nil, nil, err
	}
	out = AddTargets(out, deployed...)
	slices.SortFunc(out, func(a, b Target) int { return strings.Compare(a.Component+"@"+a.Host, b.Component+"@"+b.Host) })
	return out, unknown, nil
}

// worker tells that a host had no part of the control plane before the migration. One that is not known may have, and one
// that has a part of it now is none: what it was before is in a ConfigMap.
func (e *Engine) worker(name string) bool {
	isControlPlane := func(h v1.Host) bool { return h.Name == name && h.ControlPlane }
	if e.Before == nil || slices.ContainsFunc(beforeHosts(e.Live), isControlPlane) {
		return false
	}
	if slices.ContainsFunc(e.Before.Managers, func(m v1.Manager) bool { return m.Host == name }) {
		return false // it ran a manager of a Deployment, which has no manifest on the host
	}
	return slices.ContainsFunc(e.Before.Hosts, func(h v1.Host) bool { return h.Name == name && !h.ControlPlane && !h.APIOnly })
}

// lost adds to the error of a run which hosts were out of reach, and still are, and what is known of them.
func (e *Engine) lost(ctx context.Context, err error) error {
	if err == nil || interrupted(err) || ctx.Err() != nil {
		return err
	}
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		e.missed(out)
	}
	e.away.mu.Lock()
	names := make([]string, 0, len(e.away.hosts))
	for name := range e.away.hosts {
		names = append(names, name)
	}
	e.away.mu.Unlock()
	slices.Sort(names)
	var hosts []LostHost
	for _, name := range names {
		if why := e.unreachable(ctx, name); why != nil {
			hosts = append(hosts, e.evidence(ctx, name, why))
		}
	}
	if len(hosts) == 0 {
		return err
	}
	return &LostError{Hosts: hosts, Err: err}
}

// lookBudget bounds one more look at a host that was out of reach.
const lookBudget = 15 * time.Second

// unreachable is why a host cannot be looked at; nil when it can.
func (e *Engine) unreachable(ctx context.Context, name string) error {
	h, ok := e.hosts[name]
	if !ok {
		return errors.New("it is not among the hosts of --host-access")
	}
	ctx, cancel := context.WithTimeout(ctx, lookBudget)
	defer cancel()
	_, err := h.List(ctx, "/etc/kubernetes")
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		return out.Err
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer in %s", lookBudget)
	}
	return nil
}

// nodeOf is the name of a host's node.
func (e *Engine) nodeOf(host string) string {
	if name := e.NodeNames[host]; name != "" {
		return name
	}
	if e.Before != nil {
		for _, h := range e.Before.Hosts {
			if h.Name == host && h.NodeName != "" {
				return h.NodeName
			}
		}
	}
	return host
}

// evidence is what the API knows of a host that is out of reach.
func (e *Engine) evidence(ctx context.Context, name string, why error) LostHost {
	out := LostHost{Name: name, Node: e.nodeOf(name), Why: why.Error()}
	state, err := e.nodeState(ctx, out.Node)
	if err != nil {
		out.Evidence = append(out.Evidence, "what its node says is not known: "+err.Error())
		return out
	}
	out.Evidence, out.Alive = state.sentences(e.Clock.Now()), state.alive(e.Clock.Now())
	return out
}

// nodeState is what the API says of a node's life.
type nodeState struct {
	name    string
	gone    bool
	ready   corev1.ConditionStatus
	since   time.Time
	renewed time.Time // by the kubelet's clock
	// lease is the resourceVersion of the node's lease; empty for none.
	lease string
}

func (e *Engine) nodeState(ctx context.Context, node string) (nodeState, error) {
	out := nodeState{name: node}
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		out.gone = true
	case err != nil:
		return out, fmt.Errorf("reading node %s: %w", node, err)
	default:
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				out.ready, out.since = c.Status, c.LastTransitionTime.Time
			}
		}
	}
	lease, err := e.Kube.CoordinationV1().Leases(leaseNamespace).Get(ctx, node, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return out, fmt.Errorf("reading the lease of node %s: %w", node, err)
	}
	if err == nil {
		out.renewed, out.lease = renewTime(lease), lease.ResourceVersion
	}
	return out, nil
}

func renewTime(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

func (s nodeState) sentences(now time.Time) []string {
	var out []string
	switch {
	case s.gone:
		out = append(out, fmt.Sprintf("its node %s is gone from the API, which does not say that its processes have ended: see that the machine is off", s.name))
	case s.ready == corev1.ConditionTrue:
		out = append(out, fmt.Sprintf("its node %s is Ready", s.name))
	case s.ready == "":
		out = append(out, fmt.Sprintf("its node %s says nothing about being Ready", s.name))
	default:
		out = append(out, fmt.Sprintf("its node %s is not Ready (%s) since %s", s.name, s.ready, s.since.UTC().Format(time.RFC3339)))
	}
	if s.renewed.IsZero() {
		return out
	}
	last := "its kubelet renewed its lease last at " + s.renewed.UTC().Format(time.RFC3339)
	if age := now.Sub(s.renewed).Round(time.Second); age >= 0 {
		return append(out, fmt.Sprintf("%s, %s ago", last, age))
	}
	return append(out, last+" by its own clock, which is ahead of this machine's")
}

// quiet is for how long a kubelet has to have been silent: the time after which a node counts as not Ready, in which every lease that a manager beside it
// held has run out, and with it the time in which that manager may go on writing to the cloud.
const quiet = 40 * time.Second

// listenInterval is how often a lease is looked at meanwhile; kubelets renew theirs every ten seconds.
const listenInterval = 5 * time.Second

// alive says why a node seems to be alive; empty when it does not. By the clocks of two machines, so that it decides what is offered and nothing else.
func (s nodeState) alive(now time.Time) string {
	if why := s.isReady(); why != "" {
		return why
	}
	if age := now.Sub(s.renewed); !s.renewed.IsZero() && age >= 0 && age < quiet {
		return fmt.Sprintf("its kubelet renewed its lease %s ago, so that its managers may run: wait until it has been silent for %s, or repair the way to it", age.Round(time.Second), quiet)
	}
	return ""
}

func (s nodeState) isReady() string {
	if s.gone || s.ready != corev1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf("its node %s is Ready, so that its managers may run and own the loops: repair the way to it", s.name)
}

// listen says why a node may be alive, after looking for as long as its kubelet has to be silent: whether it renews its lease can be seen, where what the lease
// says of its time is by the clock of a machine that nobody can reach. Empty when it was silent.
func (e *Engine) listen(ctx context.Context, node string) (string, error) {
	first, err := e.nodeState(ctx, node)
	if err != nil || first.isReady() != "" {
		return first.isReady(), err
	}
	if first.lease != "" {
		e.tell(v1.Step{}, "progress", fmt.Sprintf("looking for %s whether the kubelet of node %s renews its lease", quiet, node))
	}
	last := first
	for end := e.Clock.Now().Add(quiet); last.lease != "" && e.Clock.Now().Before(end); {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-e.Clock.After(min(listenInterval, end.Sub(e.Clock.Now()))):
		}
		// An error ends it: while no API server answers no kubelet can renew its lease, and silence proves nothing.
		if last, err = e.nodeState(ctx, node); err != nil || last.isReady() != "" {
			return last.isReady(), err
		}
		if last.lease != "" && last.lease != first.lease {
			return fmt.Sprintf("its kubelet renewed its lease while it was looked at, so that its managers may run: wait until it has been silent for %s, or repair the way to it", quiet), nil
		}
	}
	return "", nil
}
