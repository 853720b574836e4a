package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	// bindBudget is for how long the holder of a lease is asked for before the step gives up: an election may just be under way.
	bindBudget = 45 * time.Second
	// endBudget is for how long an old process may take to end: a kubelet's grace of 30 s, and some.
	endBudget = 75 * time.Second
	// endInterval is how often the process table is looked at while an owner ends; each look is a part of the gap.
	endInterval = 20 * time.Millisecond
)

// bindOwners binds each lease of the step that the process about to end holds, and waits until somebody can take over. What is bound is
// written into the record, so that a crash right after the old process has ended still releases its leases on the next run.
func (e *Engine) bindOwners(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	var bound []v1.HandoverRecord // what the record says stays in it until all are bound
	for _, lease := range s.Leases {
		var b *handover.Binding
		var last error
		var silence handover.Silence
		err := e.waitFor(ctx, s, bindBudget, settleInterval, func() string { return fmt.Sprintf("who holds lease %s is not proven: %v", lease, last) }, func(ctx context.Context) (bool, error) {
			candidates, err := e.candidates(ctx)
			if err != nil {
				return false, err
			}
			b, last = e.leases.Bind(ctx, lease, candidates)
			if handover.IsUnclaimed(last) && e.forsaken(ctx, s, lease, &silence) {
				last = nil
			}
			if handover.IsUnbound(last) || last != nil && Transient(last) {
				return false, nil
			}
			return true, last
		})
		if errors.Is(err, errWaited) {
			return &WaitError{Waited: bindBudget, Reason: fmt.Sprintf("who owns the loops could not be proven, so the owner was not restarted: %v", last)}
		} else if err != nil {
			return err
		}
		if b == nil || b.Host != s.Host && !e.refInSeed(s.Ref) || b.Component != s.Component {
			continue
		}
		if err := e.successor(ctx, s, *b); err != nil {
			return err
		}
		bound = append(bound, v1.HandoverRecord{
			Lease: lease, Holder: b.Holder, PID: b.PID, StartTicks: b.StartTicks, Component: b.Component, Host: b.Host, Transitions: b.Transitions, AcquireTime: b.AcquireTime,
		})
		e.proofs.noteBound(bound[len(bound)-1])
	}
	rec.Handovers = bound
	return nil
}

// forsaken tells that nobody holds a lease although it names a holder: every manager has answered that it does not lead by it, and it was not renewed for
// longer than it lasts. The migration lease is left so by a holder that died by itself when nobody who took its other lease over wanted this one. A main lease
// always has somebody who takes it, and is waited for, but where the last of its kind is to go: one that crashes whenever it has won would hold up the way
// back for as long as it crashes, with nobody to run the loops.
func (e *Engine) forsaken(ctx context.Context, s v1.Step, lease string, silence *handover.Silence) bool {
	if lease != e.plan.Options.LeaseName && !goes(s) {
		return false
	}
	expired, err := e.leases.Expired(ctx, lease, silence)
	if err != nil || !expired {
		return false
	}
	e.tell(s, "progress", fmt.Sprintf("lease %s is nobody's: its holder is gone, and every manager says that it does not lead by it", lease))
	return true
}

// goes tells that a step takes its component off a host, and does not end before no process of it is left.
func goes(s v1.Step) bool { return s.Kind == v1.StepRemoveManifest || s.Kind == v1.StepStopUnit }

func (e *Engine) candidates(ctx context.Context) ([]handover.Candidate, error) {
	targets, unknown, err := e.targets(ctx, kcm, ccm)
	if err != nil {
		return nil, err
	}
	var out []handover.Candidate
	for _, m := range unknown {
		out = append(out, handover.Candidate{Component: m.Component, Host: m.Host, Processes: func(context.Context) ([]v1.Process, error) { return nil, errors.New(m.Error) }})
	}
	for _, t := range targets {
		processes, err := e.processesOf(t.Component, t.Host)
		if err != nil {
			return nil, err
		}
		out = append(out, handover.Candidate{
			Component: t.Component, Host: t.Host, Processes: processes,
			Look: func(ctx context.Context) (v1.Manager, error) { return e.Scrape(ctx, t.Component, t.Host, t.Address) },
		})
	}
	return out, nil
}

// successor waits until somebody is ready to take the lease over: for a component's own lease a process of it on another host that answers,
// for the migration lease a manager that already leads its main lease and has reached the cloud.
func (e *Engine) successor(ctx context.Context, s v1.Step, b handover.Binding) error {
	if goes(s) && b.Lease == s.Component {
		return nil // the last of its kind goes; nobody is to take this lease over
	}
	if e.refInSeed(s.Ref) && b.Lease == s.Component {
		return nil // the pods that take it over come with the step
	}
	reason := ""
	err := e.waitFor(ctx, s, bindBudget, settleInterval, func() string { return "nobody is ready to take lease " + b.Lease + " over: " + reason }, func(ctx context.Context) (bool, error) {
		managers, err := e.managers(ctx, s.Successors...)
		if err != nil {
			return false, err
		}
		reason = takeover(managers, s, b)
		return reason == "", nil
	})
	if errors.Is(err, errWaited) {
		return &WaitError{Waited: bindBudget, Reason: fmt.Sprintf("the owner %s on host %s was not stopped, since nobody is ready to take lease %s over: %s", b.Component, b.Host, b.Lease, reason)}
	}
	return err
}

// takeover says why no manager can take the lease over; empty when one can.
func takeover(managers []v1.Manager, s v1.Step, b handover.Binding) string {
	reason := "no other manager runs"
	for _, m := range managers {
		if m.Host == b.Host && m.Component == b.Component {
			continue
		}
		if m.Error != "" {
			reason = fmt.Sprintf("%s on %s does not answer: %s", m.Component, m.Host, m.Error)
			continue
		}
		if m.Component == b.Component {
			// A standby of the same component takes the main lease first and the migration lease right after it.
			if b.Lease == b.Component || len(s.Successors) == 1 {
				return ""
			}
			continue
		}
		if b.Lease == b.Component {
			continue
		}
		switch {
		case !slices.Contains(m.Leads, m.Component):
			reason = fmt.Sprintf("%s on %s has not got its main lease", m.Component, m.Host)
		case m.CloudCalls != nil && *m.CloudCalls == 0:
			reason = fmt.Sprintf("%s on %s has not reached the cloud yet", m.Component, m.Host)
		default:
			return ""
		}
	}
	return reason
}

// release waits until each bound process has ended and gives its leases up. It runs after every write and again after a crash.
func (e *Engine) release(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if !released(*rec) {
		if err := e.commit(ctx, s.Host); err != nil { // the process ends when somebody has made the change
			return err
		}
	}
	for i := range rec.Handovers {
		if r := &rec.Handovers[i]; r.Released == nil && r.Note == "" {
			if err := e.releaseOne(ctx, s, r); err != nil {
				return err
			}
			if err := e.journal.Save(ctx, *rec); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) releaseOne(ctx context.Context, s v1.Step, r *v1.HandoverRecord) error {
	if e.Seed != nil {
		return e.releasePod(ctx, s, r)
	}
	b := handover.Binding{Lease: r.Lease, Holder: r.Holder, Transitions: r.Transitions, AcquireTime: r.AcquireTime, Component: r.Component, Host: r.Host, PID: r.PID, StartTicks: r.StartTicks}
	h, err := e.host(r.Host)
	if err != nil {
		return err
	}
	processes := func(ctx context.Context) ([]v1.Process, error) { return h.Processes(ctx, r.Component) }
	interval, isOwn := endInterval, e.proofs.isBound(*r)
	if !isOwn {
		interval = settleInterval
	}
	var last error
	var quiet, silence handover.Silence
	err = e.waitFor(ctx, s, endBudget, interval, func() string {
		if last != nil {
			return fmt.Sprintf("lease %s is left to run out: %v", r.Lease, last)
		}
		return fmt.Sprintf("%s on host %s (process %d) has not ended", r.Component, r.Host, r.PID)
	}, func(ctx context.Context) (bool, error) {
		var gone bool
		if gone, last = handover.Gone(ctx, b, processes); !gone || isOwn {
			return gone, nil
		}
		if last = e.unheld(ctx, *r, &quiet); last == nil {
			return true, nil
		}
		return e.taken(ctx, r, last, &silence)
	})
	if errors.Is(err, errWaited) {
		if last != nil {
			return &WaitError{Waited: endBudget, Reason: fmt.Sprintf("whether the old owner has ended is unknown, so its lease %s was left to expire: %v", r.Lease, last)}
		}
		return &WaitError{Waited: endBudget, Reason: fmt.Sprintf("the old owner (process %d of %s on host %s) did not end; its lease %s was left alone: "+
			"find out what keeps the process, then run the same command again", r.PID, r.Component, r.Host, r.Lease)}
	} else if err != nil {
		return err
	}
	if r.Note != "" {
		e.tell(s, "progress", fmt.Sprintf("lease %s was left alone: %s", r.Lease, r.Note))
		return nil
	}
	ended := e.Clock.Now().UTC()
	r.Ended = &ended
	var out handover.Outcome
	err = Retry(ctx, writeBudget, func(ctx context.Context) error {
		var err error
		out, err = e.leases.Release(ctx, b, processes)
		return err
	})
	if err != nil {
		return err
	}
	r.NextHolder = out.Holder
	if !out.Released {
		r.Note = out.Reason
		e.tell(s, "progress", fmt.Sprintf("lease %s was left alone: %s", r.Lease, out.Reason))
		return nil
	}
	now := e.Clock.Now().UTC()
	r.Released = &now
	e.tell(s, "progress", fmt.Sprintf("%s on %s has ended (pid %d); released lease %s", r.Component, r.Host, r.PID, r.Lease))
	return nil
}

// awaitTakeover waits until the leases that were given up have new holders, so that the process that gave them up comes back as a standby. Nobody
// taking one over within the time that its holder's lease would have lasted is no reason to leave the host without its manager.
func (e *Engine) awaitTakeover(ctx context.Context, s v1.Step, rec v1.StepRecord) {
	for _, r := range rec.Handovers {
		if r.Lease != s.Component {
			continue // who takes the component's own lease takes the migration lease too, or nobody wants it any longer
		}
		err := e.poll(ctx, takeoverBudget, endInterval, func(ctx context.Context) (bool, error) {
			holder, err := e.leases.Holder(ctx, r.Lease)
			return err == nil && holder != "" && holder != r.Holder, nil
		})
		if err != nil {
			e.tell(s, "progress", fmt.Sprintf("nobody has taken lease %s over for %s", r.Lease, takeoverBudget))
		}
	}
}

// takeoverBudget is a lease's duration and the longest wait of a standby between two looks at it.
const takeoverBudget = 20 * time.Second

// moving is the name of the part of a step in which a manager hands over.
func moving(s v1.Step, component string) string { return s.ID + movingInfix + component }

// moveOwners makes the managers of a host standbys before its API server is restarted under them: leadership may have moved there since the plan
// was made, and a manager whose API server is gone would lose its leases without having drained anything.
func (e *Engine) moveOwners(ctx context.Context, s v1.Step) error {
	if s.Component != kas {
		return nil
	}
	for _, component := range []string{kcm, ccm} {
		sub := v1.Step{ID: moving(s, component), Phase: s.Phase, Host: s.Host, Component: component,
			Leases: []string{component, e.plan.Options.LeaseName}, Successors: []string{kcm, ccm}}
		rec := e.journal.Record(sub.ID)
		path, owns, err := e.depends(ctx, s, component)
		if err != nil {
			return fmt.Errorf("looking who depends on the API server of host %s: %w", s.Host, err)
		}
		switch {
		case owns: // whatever the record says of an earlier try: it leads now
			rec = v1.StepRecord{ID: sub.ID, Started: e.Clock.Now().UTC(), Result: "started", Path: path}
		case rec.Result != "started":
			continue
		case path != "" && path != rec.Path:
			return &UntrustedError{What: "the record of step " + sub.ID, Err: fmt.Errorf(
				"%s on host %s is started from %s, and not from %s", component, s.Host, path, rec.Path)}
		}
		sub.Path = rec.Path
		e.tell(s, "progress", fmt.Sprintf("%s on %s leads and depends on the API server that is about to be restarted: it hands over first", component, s.Host))
		if err := e.move(ctx, sub, rec); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) move(ctx context.Context, sub v1.Step, rec v1.StepRecord) error {
	asked, err := movingStep(sub)
	if err != nil {
		return &UntrustedError{What: "step " + sub.ID, Err: err}
	}
	if err := e.allowed(asked); err != nil {
		return err
	}
	back := func(ctx context.Context) (bool, error) {
		f, sum, err := e.read(ctx, sub.Host, sub.Path)
		if err != nil || sum == absent {
			return false, err
		}
		done, err := e.running(ctx, sub, f.Data)
		var pending pendingError
		if errors.As(err, &pending) || err != nil && Transient(err) {
			err = nil // worth waiting for
		}
		return done, err
	}
	if asked.Kind != v1.StepStartUnit {
		err = e.replace(ctx, sub, &rec, func(now []byte) ([]byte, fs.FileMode, error) { return now, 0, isManifestOf(sub, now) })
	} else { // a unit is stopped and started; its files stay
		sub = asked
		back = func(ctx context.Context) (bool, error) { return unit{e}.done(ctx, sub) }
		err = unit{e}.do(ctx, sub, &rec)
	}
	if err != nil {
		return err
	}
	if err := e.commit(ctx, sub.Host); err != nil {
		return err
	}
	err = e.waitFor(ctx, sub, timeout(sub), settleInterval, func() string { return fmt.Sprintf("%s on host %s is not back as a standby", sub.Component, sub.Host) }, back)
	if errors.Is(err, errWaited) {
		return &VerifyError{Waited: timeout(sub), Reason: fmt.Sprintf("%s on host %s is not back as a standby", sub.Component, sub.Host)}
	} else if err != nil {
		return err
	}
	now := e.Clock.Now().UTC()
	rec.Ended, rec.Result = &now, "done"
	return e.journal.Save(ctx, rec)
}

// isManifestOf returns an error if a file is no manifest of the component that hands over: the record that names the file is in
// the journal, which others may write.
func isManifestOf(s v1.Step, data []byte) error {
	m, err := controlplane.Parse(data)
	if err != nil {
		return fmt.Errorf("%s on host %s, from which %s is started: %w", s.Path, s.Host, s.Component, err)
	}
	if m.Component() != s.Component {
		return &UntrustedError{What: "the record of step " + s.ID, Err: fmt.Errorf("%s on host %s starts %s, not %s", s.Path, s.Host, m.Component(), s.Component)}
	}
	return nil
}

// depends waits until it is known whether a component leads anything on a host: a manager that has just been started, as after a reboot of its host, knows
// nobody yet whom it could answer. One that does not run leads nothing.
func (e *Engine) depends(ctx context.Context, s v1.Step, component string) (path string, owns bool, err error) {
	h, err := e.host(s.Host)
	if err != nil {
		return "", false, err
	}
	var last error
	err = e.waitFor(ctx, s, bindBudget, settleInterval, func() string { return last.Error() }, func(ctx context.Context) (bool, error) {
		if path, owns, last = e.ownsOn(ctx, s.Host, component); last == nil {
			return true, nil
		}
		procs, err := h.Processes(ctx, component)
		return err == nil && len(procs) == 0, nil
	})
	if errors.Is(err, errWaited) {
		return "", false, last
	}
	return path, owns, err
}

// ownsOn tells whether a component leads anything on a host, and where its manifest is.
func (e *Engine) ownsOn(ctx context.Context, host, component string) (path string, owns bool, err error) {
	h, err := e.host(host)
	if err != nil {
		return "", false, err
	}
	targets, err := Targets(ctx, []hostaccess.Host{h}, component)
	if err != nil || len(targets) == 0 {
		return "", false, err
	}
	t := targets[0]
	m, err := e.Scrape(ctx, t.Component, t.Host, t.Address)
	if err != nil {
		return t.Path, false, err
	}
	return t.Path, len(m.Leads) > 0 && t.Path != "", nil // a DaemonSet's pod is not the host's to stop
}
