package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// grant opens the access to a step's host for what the step does there, and for nothing else. It is opened before the
// step is begun: a host that cannot be reached stops a migration while everything on it still runs.
func (e *Engine) grant(ctx context.Context, s v1.Step) (func(context.Context), error) {
	n, ok := need(s)
	if !ok {
		return func(context.Context) {}, nil
	}
	h, err := e.env.Host(s.Host)
	if err != nil {
		return nil, err
	}
	if s.Component == component.KAS {
		if err := e.needNextTo(ctx, h, s, &n); err != nil {
			return nil, fmt.Errorf("looking for the managers next to the API server of host %s: %w", s.Host, err)
		}
	}
	if n.Service {
		if err := hostaccess.CanRestart(h); err != nil {
			return nil, fmt.Errorf("step %s restarts a unit: %w", s.ID, err)
		}
	}
	release, err := hostaccess.Grant(ctx, h, n)
	if err != nil {
		return nil, fmt.Errorf("opening the access to host %s: %w", s.Host, err)
	}
	return release, nil
}

// checkRestarts returns an error when a step that is still to be done restarts units on a host whose access restarts
// none. It is asked before the first step: in the middle of a migration it would be too late.
func (e *Engine) checkRestarts(p *v1.Plan) error {
	refused := map[string]error{}
	for _, s := range p.Steps {
		h, reached := e.env.HostsByName[s.Host]
		n, ok := need(s)
		if !ok || !n.Service || !reached || e.env.Journal.Record(s.ID).IsEnded() {
			continue
		}
		if err := hostaccess.CanRestart(h); err != nil && refused[s.Host] == nil {
			refused[s.Host] = fmt.Errorf("nothing was changed: step %s restarts a unit: %w", s.ID, err)
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		errs = append(errs, refused[name])
	}
	return errors.Join(errs...)
}

// checkSelected returns an error when a DaemonSet that is still to be made would come to a Node that is not of the
// control plane. It is asked before the first step, too: in the middle of a migration no manager may be left.
func (e *Engine) checkSelected(ctx context.Context, p *v1.Plan) error {
	for _, s := range p.Steps {
		if s.Host != "" || e.env.Journal.Record(s.ID).IsEnded() {
			continue
		}
		if err := e.env.ProvesControlPlane(ctx, s); err != nil {
			return fmt.Errorf("nothing was changed by this run: %w", err)
		}
	}
	return nil
}

// needNextTo adds what it takes to have the managers hand over before the API server next to them is restarted. Their
// manifests are removed for that, whatever these are called, or their units stopped. The manifest that an interrupted
// run has taken away is only in its record.
func (e *Engine) needNextTo(ctx context.Context, h hostaccess.Host, s v1.Step, n *hostaccess.Need) error {
	targets, err := manager.Targets(ctx, []hostaccess.Host{h}, component.KCM, component.CCM)
	if err != nil {
		return err
	}
	paths := []string{
		e.env.Journal.Record(trust.MovingID(s, component.KCM)).Path,
		e.env.Journal.Record(trust.MovingID(s, component.CCM)).Path,
	}
	for _, t := range targets {
		paths = append(paths, t.Path)
	}
	for _, p := range paths {
		switch {
		case p == "", slices.Contains(n.Write, p):
		case strings.HasPrefix(p, controlplane.ManifestDir+"/"):
			n.Write = append(n.Write, p)
		default:
			n.Service = true
		}
	}
	return nil
}

// need is what a step does on its host; false for a step that changes none.
func need(s v1.Step) (hostaccess.Need, bool) {
	if s.Host == "" {
		return hostaccess.Need{}, false
	}
	n := hostaccess.Need{Purpose: s.ID, Write: []string{s.Path, layout.Dir + "/backup"}}
	switch s.Kind {
	case v1.StepKubelet, v1.StepEditUnit, v1.StepStopUnit, v1.StepStartUnit:
		n.Service = true
	case v1.StepWriteFile,
		v1.StepCopyFile,
		v1.StepRemoveFile,
		v1.StepEditManifest,
		v1.StepAddManifest,
		v1.StepRemoveManifest,
		v1.StepRestoreManifest:
	default:
		return hostaccess.Need{}, false
	}
	n.Write = append(n.Write, s.Files...)
	if s.Path == "" { // a unit that is stopped or started and not edited
		n.Write = n.Write[1:]
	}
	return n, true
}
