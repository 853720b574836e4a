package migrate

import (
	"context"
	"fmt"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// requires re-checks the facts that a step needs, and names what changed.
func (e *Engine) requires(ctx context.Context, s v1.Step) error {
	var changed []string
	for _, id := range s.Requires {
		why, err := e.holds(ctx, id)
		if err != nil {
			return fmt.Errorf("checking fact %s: %w", id, err)
		}
		if why != "" {
			changed = append(changed, why)
		}
	}
	if len(changed) > 0 {
		sort.Strings(changed)
		return &StaleError{Changed: changed}
	}
	return nil
}

// Preflight looks at every fact of a plan that nothing was done of yet, and names all that have changed, so that a stale plan is refused before its
// first step and not in the middle. The options need a client and the hosts.
func Preflight(ctx context.Context, o Options, p *v1.Plan) error {
	e := New(o, &Journal{})
	e.plan = p
	all := v1.Step{}
	for _, f := range p.Facts {
		all.Requires = append(all.Requires, f.ID)
	}
	return e.requires(ctx, all)
}

// holds says in a sentence how a fact has changed; empty when it has not. What this run wrote itself counts as the fact from then on.
func (e *Engine) holds(ctx context.Context, id string) (string, error) {
	if id == "cluster:uid" {
		ns, err := e.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		if string(ns.UID) != e.plan.Cluster.UID {
			return fmt.Sprintf("this is another cluster: its uid is %s, the plan was made for %s", ns.UID, e.plan.Cluster.UID), nil
		}
		return "", nil
	}
	host, path, ok := fileOf(id)
	if !ok {
		return "", fmt.Errorf("fact %q is not known to this version of transplant", id)
	}
	want, detail := e.wanted(id, host, path)
	f, sum, err := e.read(ctx, host, path)
	if err != nil || sum == want {
		return "", err
	}
	return fmt.Sprintf("%s on host %s was changed by somebody else%s", path, host, difference(detail, f.Data, sum)), nil
}

func fileOf(id string) (host, path string, ok bool) {
	rest, ok := strings.CutPrefix(id, "file:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// wanted is what the file should hold: what this run wrote last, else what the plan saw.
func (e *Engine) wanted(id, host, path string) (value, detail string) {
	for _, f := range e.plan.Facts {
		if f.ID == id {
			value, detail = f.Value, f.Detail
		}
	}
	doc := e.journal.Doc()
	for _, rec := range doc.Records {
		if rec.AfterSHA256 == "" || rec.Ended == nil {
			continue
		}
		for _, s := range append(append([]v1.Step(nil), doc.Plan.Steps...), rollbackSteps(doc)...) {
			if s.ID == rec.ID && s.Host == host && s.Path == path {
				value, detail = rec.AfterSHA256, ""
			}
		}
	}
	return value, detail
}

func rollbackSteps(doc v1.Journal) []v1.Step {
	if doc.Rollback == nil {
		return nil
	}
	return doc.Rollback.Steps
}

// difference names the arguments that came and went.
func difference(before string, data []byte, sum string) string {
	if sum == absent {
		return ": it is gone"
	}
	m, err := controlplane.Parse(data)
	if err != nil || before == "" {
		return ": its SHA-256 is " + sum
	}
	was, is := map[string]bool{}, map[string]bool{}
	for _, a := range strings.Split(before, "\n") {
		was[a] = true
	}
	var out []string
	for _, a := range m.Command() {
		if is[a] = true; !was[a] {
			out = append(out, "+ "+a)
		}
	}
	for _, a := range strings.Split(before, "\n") {
		if !is[a] {
			out = append(out, "- "+a)
		}
	}
	if len(out) == 0 {
		return ": something other than its arguments"
	}
	return " (" + strings.Join(out, ", ") + ")"
}
