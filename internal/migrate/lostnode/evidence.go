// Package lostnode decides whether a host that is out of reach may be excluded from a migration, and whether an
// excluded one is back.
package lostnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Host is a host that was out of reach when a run stopped, and what the API says of its node.
type Host struct {
	Name, Node string
	// Why is what reaching it ended with.
	Why string
	// Evidence are sentences about its node.
	Evidence []string
	// Alive is why the host may live, so that it cannot be excluded from the migration. It is empty when its node has been
	// silent for long enough or is gone.
	Alive string
}

// Error says that a run stopped while hosts were out of reach. What it wraps is what the run stopped with.
type Error struct {
	Hosts []Host
	Err   error
}

func (e *Error) Error() string {
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

func (e *Error) Unwrap() error { return e.Err }

// AddLostHosts adds to the error of a run which hosts were out of reach, and still are, and what is known of them.
func AddLostHosts(ctx context.Context, e *step.Env, err error) error {
	if err == nil || step.IsInterrupted(err) || ctx.Err() != nil {
		return err
	}
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		e.NoteUnreachable(out)
	}
	e.UnreachableHosts.Mu.Lock()
	names := make([]string, 0, len(e.UnreachableHosts.LastAttempts))
	for name := range e.UnreachableHosts.LastAttempts {
		names = append(names, name)
	}
	e.UnreachableHosts.Mu.Unlock()
	slices.Sort(names)
	var hosts []Host
	for _, name := range names {
		if why := e.WhyUnreachable(ctx, name); why != nil {
			hosts = append(hosts, evidence(ctx, e, name, why))
		}
	}
	if len(hosts) == 0 {
		return err
	}
	return &Error{Hosts: hosts, Err: err}
}

// evidence is what the API knows of a host that is out of reach.
func evidence(ctx context.Context, e *step.Env, name string, why error) Host {
	out := Host{Name: name, Node: e.NodeOf(name), Why: why.Error()}
	state, err := readNodeState(ctx, e, out.Node)
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

func readNodeState(ctx context.Context, e *step.Env, node string) (nodeState, error) {
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
	lease, err := e.Kube.CoordinationV1().Leases(component.NodeLeaseNamespace).Get(ctx, node, metav1.GetOptions{})
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
		out = append(
			out,
			fmt.Sprintf(
				"its node %s is gone from the API, which does not say that its processes have ended: see that the machine is off",
				s.name,
			),
		)
	case s.ready == corev1.ConditionTrue:
		out = append(out, fmt.Sprintf("its node %s is Ready", s.name))
	case s.ready == "":
		out = append(out, fmt.Sprintf("its node %s says nothing about being Ready", s.name))
	default:
		out = append(
			out,
			fmt.Sprintf("its node %s is not Ready (%s) since %s", s.name, s.ready, s.since.UTC().Format(time.RFC3339)),
		)
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

// quiet is for how long a kubelet has to have been silent. It is the time after which a node counts as not Ready. By
// its end every lease of a manager next to the kubelet has expired. So has the time in which that manager may go on
// writing to the cloud.
const quiet = 40 * time.Second

// listenInterval is how often a lease is looked at meanwhile; kubelets renew theirs every ten seconds.
const listenInterval = 5 * time.Second

// alive says why a node seems to be alive; empty when it does not. By the clocks of two machines, so that it decides
// what is offered and nothing else.
func (s nodeState) alive(now time.Time) string {
	if why := s.isReady(); why != "" {
		return why
	}
	if age := now.Sub(s.renewed); !s.renewed.IsZero() && age >= 0 && age < quiet {
		return fmt.Sprintf(
			"its kubelet renewed its lease %s ago, so its managers may run; wait until it has been silent for %s, or repair the connection to it",
			age.Round(time.Second),
			quiet,
		)
	}
	return ""
}

func (s nodeState) isReady() string {
	if s.gone || s.ready != corev1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf(
		"its node %s is Ready, so that its managers may run and own the loops: repair the way to it",
		s.name,
	)
}

// listen says why a node may be alive, after watching for as long as its kubelet has to be silent. It watches whether
// the lease is renewed. The times in the lease are by the clock of an unreachable machine. Empty when it was silent.
func listen(ctx context.Context, e *step.Env, node string) (string, error) {
	first, err := readNodeState(ctx, e, node)
	if err != nil || first.isReady() != "" {
		return first.isReady(), err
	}
	if first.lease != "" {
		e.Report(
			v1.Step{},
			step.EventProgress,
			fmt.Sprintf("looking for %s whether the kubelet of node %s renews its lease", quiet, node),
		)
	}
	last := first
	for end := e.Clock.Now().Add(quiet); last.lease != "" && e.Clock.Now().Before(end); {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-e.Clock.After(min(listenInterval, end.Sub(e.Clock.Now()))):
		}
		// An error ends it: while no API server answers no kubelet can renew its lease, and silence proves nothing.
		if last, err = readNodeState(ctx, e, node); err != nil || last.isReady() != "" {
			return last.isReady(), err
		}
		if last.lease != "" && last.lease != first.lease {
			return fmt.Sprintf(
				"its kubelet renewed its lease during this check, so its managers may run; wait until it has been silent for %s, or repair the connection to it",
				quiet,
			), nil
		}
	}
	return "", nil
}
