package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
)

// proofs are what this process has seen itself of the holders of leases, and of their ends.
//
// Handovers in a journal say the same, but a journal is a ConfigMap: who may write it can name any process as the holder of a
// lease, and call it ended. Such a handover is a claim, and its lease is released only after unheld has found no holder.
type proofs struct {
	mu    sync.Mutex
	bound map[boundTerm]bool
	ended map[uint64]bool
}

// boundTerm is a process as the holder of a lease in one term.
type boundTerm struct {
	lease, holder, component, host string
	transitions                    int32
	pid                            int
	startTicks                     uint64
}

func termOf(r v1.HandoverRecord) boundTerm {
	return boundTerm{r.Lease, r.Holder, r.Component, r.Host, r.Transitions, r.PID, r.StartTicks}
}

func newProofs() *proofs { return &proofs{bound: map[boundTerm]bool{}, ended: map[uint64]bool{}} }

// noteBound remembers that this process has bound a holder.
func (p *proofs) noteBound(r v1.HandoverRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound[termOf(r)] = true
}

// isBound reports whether this process has bound the holder of a handover.
func (p *proofs) isBound(r v1.HandoverRecord) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[termOf(r)]
}

// noteEnded remembers that a container was seen terminated.
func (p *proofs) noteEnded(container uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[container] = true
}

// hasEnded reports whether this process has seen a container terminated. Its pod may be gone since.
func (p *proofs) hasEnded(container uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[container]
}

// listenBudget is for how long a lease must not be renewed before it is released for a holder that only a journal knows, and
// a third of what the lease lasts if that is longer. A manager renews every 2 s unless its flags say otherwise.
const listenBudget = 5 * time.Second

// unheld returns why a lease may have a living holder; nil when every manager was asked, none leads by the lease, and no
// renewal was seen for a while. It is asked for handovers that another process has written into the journal.
func (e *Engine) unheld(ctx context.Context, r v1.HandoverRecord, silence *handover.Silence) error {
	candidates, err := e.everyManager(ctx)
	if err != nil {
		return fmt.Errorf("whether a manager leads by lease %s: %w", r.Lease, err)
	}
	if other := e.namedAfter(r, candidates); other != "" {
		return fmt.Errorf("the journal binds holder %s to %s on %s, and it is named after %s", r.Holder, r.Component, r.Host, other)
	}
	who, err := handover.FindClaim(ctx, r.Lease, candidates)
	if err != nil {
		return fmt.Errorf("whether a manager leads by lease %s: %w", r.Lease, err)
	}
	if who != nil {
		return fmt.Errorf("%s on %s says that it leads by lease %s", who.Component, who.Host, r.Lease)
	}
	silent, lasts, err := e.leases.SilentFor(ctx, r.Lease, silence)
	if err != nil {
		return err
	}
	if need := max(listenBudget, lasts/3); silent < need {
		return fmt.Errorf("looking for %s whether lease %s is renewed", need, r.Lease)
	}
	return nil
}

// namedAfter returns another place than that of a handover, after which its holder is named; empty for none. A manager calls
// itself by its host name and a random id. The host name may be one that nothing here knows.
func (e *Engine) namedAfter(r v1.HandoverRecord, candidates []handover.Candidate) string {
	isOf := func(host string) bool {
		return isHostOf(host, r.Holder) || e.Seed == nil && isHostOf(e.nodeOf(host), r.Holder)
	}
	if isOf(r.Host) || r.Node != "" && isHostOf(r.Node, r.Holder) {
		return ""
	}
	for _, c := range candidates {
		if isOf(c.Host) {
			return c.Host
		}
	}
	return ""
}

// longestHostName is what a kubelet cuts the host name of a pod to.
const longestHostName = 63

// isHostOf reports whether the identity of a lease's holder begins with the name of a host, with or without its domain.
func isHostOf(name, identity string) bool {
	at := strings.LastIndex(identity, "_")
	if name == "" || at <= 0 {
		return false
	}
	host := identity[:at]
	short := func(of string) string {
		before, _, _ := strings.Cut(of, ".")
		return before
	}
	cut := strings.TrimRight(name[:min(len(name), longestHostName)], "-.")
	return host == name || host == cut || host == short(name) || short(host) == name
}

// everyManager are the candidates of Bind, and everything else that may run on a host of the control plane: a process that no
// manifest or unit explains, and hosts to which there is no access. What cannot be asked may lead.
func (e *Engine) everyManager(ctx context.Context) ([]handover.Candidate, error) {
	out, err := e.candidates(ctx)
	if err != nil || e.Seed != nil {
		return out, err
	}
	known := map[string]bool{}
	for _, c := range out {
		known[c.Component+"@"+c.Host] = true
	}
	unasked := func(component, host string, processes func(context.Context) ([]v1.Process, error), why string) {
		if !known[component+"@"+host] {
			known[component+"@"+host] = true
			out = append(out, handover.Candidate{
				Component: component, Host: host, Processes: processes,
				Look: func(context.Context) (v1.Manager, error) { return v1.Manager{}, errors.New(why) },
			})
		}
	}
	for _, component := range []string{kcm, ccm} {
		for _, h := range e.Hosts {
			if !e.worker(h.Name()) {
				unasked(component, h.Name(), func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, component) },
					"neither a manifest nor a unit says where this process answers")
			}
		}
		for _, h := range slices.Concat(beforeHosts(e.Live), beforeHosts(e.Before)) {
			if _, reached := e.hosts[h.Name]; !reached && h.ControlPlane {
				unasked(component, h.Name, func(context.Context) ([]v1.Process, error) { return nil, errors.New("there is no access to the host") }, "")
			}
		}
	}
	return out, nil
}
