package manager

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// ExpectedTargets are the managers that should run, and an unknown one for each unreachable control-plane host. What
// that host runs is not known, and a caller that asks for all has to know that.
func ExpectedTargets(ctx context.Context, e *step.Env, components ...string) ([]Target, []v1.Manager, error) {
	if e.Seed != nil {
		return seedTargets(ctx, e, components...)
	}
	var out []Target
	var unknown []v1.Manager
	for _, h := range e.Hosts {
		if e.IsWorker(h.Name()) {
			continue
		}
		err := e.RecentlyUnreachable(h.Name())
		var found []Target
		if err == nil {
			found, err = Targets(ctx, []hostaccess.Host{h}, components...)
			e.NoteUnreachable(err)
		}
		if hostaccess.IsUnreachable(err) {
			if gone, err := isTakenDown(ctx, e, h.Name()); err != nil {
				return nil, nil, err
			} else if gone {
				continue
			}
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
	deployed, err := DeployedManagers(ctx, e, components)
	if err != nil {
		return nil, nil, err
	}
	late, err := unopenedManagers(ctx, e, components)
	if err != nil {
		return nil, nil, err
	}
	out, unknown = AddTargets(out, deployed...), append(unknown, late...)
	slices.SortFunc(out, func(a, b Target) int { return strings.Compare(a.Component+"@"+a.Host, b.Component+"@"+b.Host) })
	return out, unknown, nil
}

// Target is a manager that a manifest or a unit says should run.
type Target struct{ Component, Host, Address, Path string }

// Targets reads the manifests and units of the hosts for the managers of the components that should run now, sorted.
// What cannot be read as either is left out: check names it.
func Targets(ctx context.Context, hosts []hostaccess.Host, components ...string) ([]Target, error) {
	var out []Target
	for _, h := range hosts {
		found, err := podTargets(ctx, h, components)
		if err != nil {
			return nil, err
		}
		for _, c := range components {
			if slices.ContainsFunc(found, func(t Target) bool { return t.Component == c }) {
				continue
			}
			t, ok, err := unitTarget(ctx, h, c)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, t)
			}
		}
		out = append(out, found...)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Component+"@"+out[i].Host < out[j].Component+"@"+out[j].Host
	})
	return out, nil
}

// podTargets reads the static pods of a host.
func podTargets(ctx context.Context, h hostaccess.Host, components []string) ([]Target, error) {
	names, err := h.List(ctx, controlplane.ManifestDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a worker, or a control plane of units
	} else if err != nil {
		return nil, err
	}
	var out []Target
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		path := controlplane.ManifestDir + "/" + name
		file, err := h.ReadFile(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		m, err := controlplane.Parse(file.Data)
		if err != nil {
			continue
		}
		if slices.Contains(components, m.Component()) {
			out = append(out, Target{m.Component(), h.Name(), m.Address(), path})
		}
	}
	return out, nil
}

// Candidates returns the managers that may hold a lease, each with what binds a lease to its process.
func Candidates(ctx context.Context, e *step.Env) ([]handover.Candidate, error) {
	targets, unknown, err := ExpectedTargets(ctx, e, component.KCM, component.CCM)
	if err != nil {
		return nil, err
	}
	var out []handover.Candidate
	for _, m := range unknown {
		out = append(
			out,
			handover.Candidate{
				Component: m.Component,
				Host:      m.Host,
				Processes: func(context.Context) ([]v1.Process, error) { return nil, errors.New(m.Error) },
			},
		)
	}
	for _, t := range targets {
		processes, err := ProcessesOf(e, t.Component, t.Host)
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

// LeadsOn reports whether a component leads anything on a host, and where its manifest is.
func LeadsOn(ctx context.Context, e *step.Env, host, component string) (path string, owns bool, err error) {
	h, err := e.Host(host)
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

// unitTarget finds a manager that a systemd unit runs. A unit whose process is not there is stopped, and no manager
// that should answer.
func unitTarget(ctx context.Context, h hostaccess.Host, program string) (Target, bool, error) {
	u, err := systemdunit.ReadUnit(hostaccess.Reading(ctx, h), program+".service")
	if errors.Is(err, fs.ErrNotExist) && program == component.CCM {
		return processTarget(ctx, h)
	} else if err != nil {
		return Target{}, false, nil //nolint:nilerr // check names a unit that cannot be read
	}
	procs, err := h.Processes(ctx, program)
	if err != nil || len(procs) == 0 {
		return Target{}, false, err
	}
	return Target{program, h.Name(), u.Address(), u.Home()}, true, nil
}

// processTarget finds a cloud-controller-manager that a DaemonSet put on a host: its process is all that the host knows
// of it.
func processTarget(ctx context.Context, h hostaccess.Host) (Target, bool, error) {
	procs, err := h.Processes(ctx, component.CCM)
	if err != nil || len(procs) == 0 {
		return Target{}, false, err
	}
	flags := commandline.FlagsOf(procs[len(procs)-1].Args)
	host, port := flags["bind-address"], flags["secure-port"]
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if port == "" {
		port = component.PortCCM
	}
	return Target{component.CCM, h.Name(), net.JoinHostPort(host, port), ""}, true, nil
}
