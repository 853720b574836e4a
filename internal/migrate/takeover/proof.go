package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// listenTimeout is for how long a lease must not be renewed before it is released for a holder that only a journal
// knows. It is a third of what the lease lasts if that is longer. A manager renews every 2 s unless its flags say
// otherwise.
const listenTimeout = 5 * time.Second

// unheld returns why a lease may have a living holder. It is nil when every manager was asked, none leads by the lease,
// and no renewal was seen for a while. It is asked for handovers that another process has written into the journal.
func unheld(ctx context.Context, e *step.Env, r v1.HandoverRecord, silence *handover.Silence) error {
	candidates, err := everyManager(ctx, e)
	if err != nil {
		return fmt.Errorf("whether a manager leads by lease %s: %w", r.Lease, err)
	}
	if other := namedAfter(e, r, candidates); other != "" {
		return fmt.Errorf(
			"the journal binds holder %s to %s on %s, and it is named after %s",
			r.Holder,
			r.Component,
			r.Host,
			other,
		)
	}
	who, err := handover.FindClaim(ctx, r.Lease, candidates)
	if err != nil {
		return fmt.Errorf("whether a manager leads by lease %s: %w", r.Lease, err)
	}
	if who != nil {
		return fmt.Errorf("%s on %s says that it leads by lease %s", who.Component, who.Host, r.Lease)
	}
	silent, lasts, err := e.LeaseClient.SilentFor(ctx, r.Lease, silence)
	if err != nil {
		return err
	}
	if need := max(listenTimeout, lasts/3); silent < need {
		return fmt.Errorf("looking for %s whether lease %s is renewed", need, r.Lease)
	}
	return nil
}

// namedAfter returns another place than that of a handover, after which its holder is named; empty for none. A manager
// calls itself by its host name and a random id. The host name may be one that nothing here knows.
func namedAfter(e *step.Env, r v1.HandoverRecord, candidates []handover.Candidate) string {
	isOf := func(host string) bool {
		return trust.IsHostOf(host, r.Holder) || e.Seed == nil && trust.IsHostOf(e.NodeOf(host), r.Holder)
	}
	if isOf(r.Host) || r.Node != "" && trust.IsHostOf(r.Node, r.Holder) {
		return ""
	}
	for _, c := range candidates {
		if isOf(c.Host) {
			return c.Host
		}
	}
	return ""
}

// everyManager are the candidates of Bind, and everything else that may run on a host of the control plane. That is a
// process that no manifest or unit explains, and hosts to which there is no access. What cannot be asked may lead.
func everyManager(ctx context.Context, e *step.Env) ([]handover.Candidate, error) {
	out, err := manager.Candidates(ctx, e)
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
	for _, component := range []string{component.KCM, component.CCM} {
		for _, h := range e.Hosts {
			if !e.IsWorker(h.Name()) {
				unasked(component, h.Name(), func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, component) },
					"neither a manifest nor a unit says where this process answers")
			}
		}
		for _, h := range slices.Concat(trust.BeforeHosts(e.Live), trust.BeforeHosts(e.Before)) {
			if _, reached := e.HostsByName[h.Name]; !reached && h.ControlPlane {
				unasked(
					component,
					h.Name,
					func(context.Context) ([]v1.Process, error) { return nil, errors.New("there is no access to the host") },
					"",
				)
			}
		}
	}
	return out, nil
}
