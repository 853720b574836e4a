package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	namespace = "kube-system"
	kcm       = "kube-controller-manager"
	ccm       = "cloud-controller-manager"
	kas       = "kube-apiserver"
)

// Target is a manager that a manifest or a unit says should run.
type Target struct{ Component, Host, Address, Path string }

// AddTargets adds the managers whose component has none on the same host yet.
func AddTargets(to []Target, more ...Target) []Target {
	for _, t := range more {
		if !slices.ContainsFunc(to, func(o Target) bool { return o.Component == t.Component && o.Host == t.Host }) {
			to = append(to, t)
		}
	}
	return to
}

// Targets reads the manifests and units of the hosts for the managers of the components that should run now, sorted. What cannot be read as either
// is left out: check names it.
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

// managers asks every manager of the components for its gauges; one that does not answer has Error set.
func (e *Engine) managers(ctx context.Context, components ...string) ([]v1.Manager, error) {
	targets, unknown, err := e.targets(ctx, components...)
	if err != nil {
		return nil, err
	}
	out := make([]v1.Manager, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			m, err := e.Scrape(ctx, t.Component, t.Host, t.Address)
			if err != nil {
				m.Error = err.Error()
			}
			m.Component, m.Host, m.Address = t.Component, t.Host, t.Address
			out[i] = m
		})
	}
	wg.Wait()
	return append(out, unknown...), nil
}

// owned says in a sentence why the loops do not have the expected owners; empty when they do. A manager that does not answer is unknown, and so
// is the ownership.
func (e *Engine) owned(ctx context.Context, expect map[string]string) (string, error) {
	managers, err := e.managers(ctx, kcm, ccm)
	if err != nil {
		return "", err
	}
	return Owned(managers, expect), nil
}

// Owned compares the managers' gauges with the expected owners, loop -> component; "" expects one owner of either kind, and NotIn none of a kind.
func Owned(managers []v1.Manager, expect map[string]string) string {
	for _, m := range managers {
		if m.Error != "" {
			return fmt.Sprintf("%s on %s did not answer: %s", m.Component, m.Host, m.Error)
		}
	}
	loops := make([]string, 0, len(expect))
	for l := range expect {
		loops = append(loops, l)
	}
	sort.Strings(loops)
	for _, loop := range loops {
		var owners []string
		right := false
		for _, m := range managers {
			if slices.Contains(m.Loops, loop) {
				owners = append(owners, m.Component+"@"+m.Host)
				right = expect[loop] == "" || m.Component == expect[loop]
			}
		}
		if component, no := strings.CutPrefix(expect[loop], "!"); no {
			if at := slices.IndexFunc(owners, func(o string) bool { return strings.HasPrefix(o, component+"@") }); at >= 0 {
				return fmt.Sprintf("loop %s still runs in %s", loop, owners[at])
			}
			continue
		}
		switch {
		case len(owners) == 0:
			return fmt.Sprintf("nobody runs loop %s", loop)
		case len(owners) > 1:
			return fmt.Sprintf("loop %s runs in %s at once", loop, strings.Join(owners, " and "))
		case !right:
			return fmt.Sprintf("loop %s runs in %s, not in a %s", loop, owners[0], expect[loop])
		}
	}
	return ""
}
