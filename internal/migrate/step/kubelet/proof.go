package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/visible"
)

// life is what tells one process of a kubelet from the next one.
type life struct {
	pid   int
	ticks uint64
	// renewed is when the node's lease was renewed last, heartbeat when the node's kubelet said last what state it is
	// in.
	renewed   time.Time
	heartbeat metav1.Time
}

func (l life) is(p v1.Process) bool { return l.pid == p.PID && l.ticks == p.StartTicks }

// lifeOf is the kubelet of a step's host as it is right before a restart.
func (x Kubelet) lifeOf(ctx context.Context, s v1.Step) (life, error) {
	at, err := x.renewed(ctx, s.Host)
	if err != nil {
		return life{}, err
	}
	out := life{renewed: at}
	err = retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		n, err := x.Env.Kube.CoreV1().Nodes().Get(ctx, x.Env.NodeNames[s.Host], metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // a kubelet makes its Node when it starts: the restart is what brings it back
		}
		if err != nil {
			return fmt.Errorf("reading node %s: %w", x.Env.NodeNames[s.Host], err)
		}
		_, out.heartbeat = drain.ReadyStatus(n)
		return nil
	})
	if err != nil {
		return life{}, err
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return life{}, err
	}
	procs, err := h.Processes(ctx, component.Kubelet)
	if err == nil && len(procs) == 1 {
		out.pid, out.ticks = procs[0].PID, procs[0].StartTicks
	}
	return out, err
}

// awaitKubelet waits until a kubelet is proven to run. There must be a new process with the expected arguments. The
// node's lease must be renewed after that process was first seen, with no other process that could have renewed it. And
// the node must be Ready by a report from after the restart.
func (x Kubelet) awaitKubelet(ctx context.Context, s v1.Step, was life, expect func([]string) string) error {
	var seen life
	reason := ""
	err := x.Env.WaitFor(
		ctx,
		s,
		step.TimeoutOf(s),
		step.SettleInterval,
		func() string { return "node " + x.Env.NodeNames[s.Host] + ": " + reason },
		func(ctx context.Context) (bool, error) {
			p, why := x.process(ctx, s.Host)
			if why == "" && was.is(p) {
				why = fmt.Sprintf("its process %d is still the one from before the restart", p.PID)
			}
			if why == "" {
				why = expect(p.Args)
			}
			if why != "" {
				seen, reason = life{}, "the kubelet: "+why
				return false, nil
			}
			at, err := x.renewed(ctx, s.Host)
			if err != nil {
				return false, err
			}
			if !seen.is(p) {
				seen = life{pid: p.PID, ticks: p.StartTicks, renewed: at}
			}
			if !at.After(seen.renewed) || !at.After(was.renewed) {
				reason = "the kubelet has not renewed its node's lease since it was restarted"
				return false, nil
			}
			reason = unreadySince(ctx, x, s, was)
			return reason == "", nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return &step.VerifyError{
			Waited: step.TimeoutOf(s),
			Reason: fmt.Sprintf("node %s: %s", x.Env.NodeNames[s.Host], reason),
		}
	}
	return err
}

// process is the one kubelet of a host; why it is not known else.
func (x Kubelet) process(ctx context.Context, host string) (p v1.Process, why string) {
	h, err := x.Env.Host(host)
	if err != nil {
		return p, err.Error()
	}
	procs, err := h.Processes(ctx, component.Kubelet)
	switch {
	case err != nil:
		return p, err.Error()
	case len(procs) == 0:
		return p, "no process of it runs on host " + host
	case len(procs) > 1:
		return p, fmt.Sprintf("%d processes of it run on host %s", len(procs), host)
	}
	return procs[0], ""
}

// unreadySince says why a node is not Ready by what its kubelet has said since a restart.
func unreadySince(ctx context.Context, x Kubelet, s v1.Step, was life) string {
	n, err := x.Env.Kube.CoreV1().Nodes().Get(ctx, x.Env.NodeNames[s.Host], metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	status, heartbeat := drain.ReadyStatus(n)
	switch {
	case status != corev1.ConditionTrue:
		if state := podreason.NodeState(n); state != "" {
			return "the node is not Ready (" + state + ")"
		}
		return "the node is not Ready"
	case heartbeat.Equal(&was.heartbeat):
		return "the kubelet has not said since its restart whether the node is Ready"
	}
	return ""
}

// expectation is what the arguments of a step's kubelet have to show. That is the edits, or, if the step puts something
// back, what the process had before.
func (x Kubelet) expectation(s v1.Step) func(args []string) string {
	if s.Restore == "" {
		return shownBy(s.Edits)
	}
	if there, ok := x.Env.StepByID(s.Restore); ok {
		return asBefore(there.Edits, x.Env.Journal.Record(s.Restore).Flags)
	}
	return func([]string) string { return "" }
}

// asBefore expects the flags of some edits to have the values that they had.
func asBefore(edits []v1.Edit, had map[string]string) func([]string) string {
	if had == nil {
		return func([]string) string { return "" } // nothing was changed, or by a version that did not write it down
	}
	var back []v1.Edit
	for _, e := range edits {
		if e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
			continue
		}
		back = append(back, undone(e, had))
	}
	return shownBy(back)
}

// undone is the edit that gives a flag the value back that it had, or takes it away.
func undone(e v1.Edit, had map[string]string) v1.Edit {
	e.Op, e.Value = v1.EditUnsetFlag, ""
	if value, there := had[e.Name]; there {
		e.Op, e.Value = v1.EditSetFlag, value
	}
	return e
}

// maxShown bounds, in bytes, what is quoted of a process: root on the host writes its arguments.
const maxShown = 256

// shownBy says which of some edits a command line does not show. Gates of a configuration file are on no command line.
func shownBy(edits []v1.Edit) func([]string) string {
	want := map[string]v1.Edit{}
	for _, e := range edits {
		if e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag {
			want[e.Name] = e
		}
	}
	return func(args []string) string {
		have := commandline.FlagsOf(args)
		for _, name := range sortedEdits(want) {
			value, there := have[name]
			switch e := want[name]; {
			case e.Op == v1.EditUnsetFlag && there:
				return fmt.Sprintf("its process still runs with --%s=%s", name, visible.Cut(value, maxShown))
			case e.Op == v1.EditSetFlag && (!there || !isSameValue(name, e.Value, value)):
				return fmt.Sprintf("its process runs with --%s=%q, not %q", name, visible.Cut(value, maxShown), e.Value)
			}
		}
		return ""
	}
}

func sortedEdits(edits map[string]v1.Edit) []string {
	out := make([]string, 0, len(edits))
	for name := range edits {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// isSameValue reports whether two values mean the same: gates without their order, and paths as sameFlags has them.
func isSameValue(flag, want, have string) bool {
	if flag != "feature-gates" {
		return want == have || staticpod.SamePaths(want, have)
	}
	a, b := gatesIn(want), gatesIn(have)
	for g := range a {
		if a[g] != b[g] {
			return false
		}
	}
	return len(a) == len(b)
}

func gatesIn(value string) map[string]string {
	out := map[string]string{}
	for _, pair := range strings.Split(value, ",") {
		name, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if on, err := strconv.ParseBool(v); ok && err == nil {
			v = strconv.FormatBool(on)
		}
		if name != "" {
			out[name] = v
		}
	}
	return out
}

// flagsNamed are the flags of a command line that some edits are about.
func flagsNamed(edits []v1.Edit, args []string) map[string]string {
	have := commandline.FlagsOf(args)
	out := map[string]string{}
	for _, e := range edits {
		if value, there := have[e.Name]; there && (e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag) {
			out[e.Name] = value
		}
	}
	return out
}
