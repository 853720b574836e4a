package manager

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/together"
)

// AddTargets adds the managers whose component has none on the same host yet.
func AddTargets(to []Target, more ...Target) []Target {
	for _, t := range more {
		if !slices.ContainsFunc(to, func(o Target) bool { return o.Component == t.Component && o.Host == t.Host }) {
			to = append(to, t)
		}
	}
	return to
}

// Ask asks every manager of the components for its gauges; one that does not answer has Error set.
func Ask(ctx context.Context, e *step.Env, components ...string) ([]v1.Manager, error) {
	targets, unknown, err := ExpectedTargets(ctx, e, components...)
	if err != nil {
		return nil, err
	}
	out := make([]v1.Manager, len(targets))
	var wg together.Group
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

// CheckOwners says in a sentence why the loops do not have the expected owners; empty when they do. A manager that does
// not answer is unknown, and so is the ownership. Where hosts are replaced and none is reached, no manager can be
// asked. It is an error, for which nothing is waited, if one runs on a host that this command has not opened.
func CheckOwners(ctx context.Context, e *step.Env, expect map[string]string) (string, error) {
	if ReachesNone(e) {
		return "", nil
	}
	late, err := unopenedManagers(ctx, e, []string{component.KCM, component.CCM})
	if err != nil {
		return "", err
	}
	if len(late) > 0 {
		return "", fmt.Errorf("asking %s on %s which loops it runs: %s", late[0].Component, late[0].Host, late[0].Error)
	}
	managers, err := Ask(ctx, e, component.KCM, component.CCM)
	if err != nil {
		return "", err
	}
	return CompareOwners(managers, expect), nil
}

// CompareOwners compares the managers' gauges with the expected owners, loop -> component; "" expects one owner of
// either kind, and NotIn none of a kind.
func CompareOwners(managers []v1.Manager, expect map[string]string) string {
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
			return fmt.Sprintf("no manager runs loop %s", loop)
		case len(owners) > 1:
			return fmt.Sprintf("loop %s runs in %s at once", loop, strings.Join(owners, " and "))
		case !right:
			return fmt.Sprintf("loop %s runs in %s, not in a %s", loop, owners[0], expect[loop])
		}
	}
	return ""
}
