package planstep

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// AnyHost stands for the name of a host in what several hosts have, each by its own name.
const AnyHost = "{host}"

// WithoutHostName returns a path without the host's own name. Otherwise each worker would be a kind of its own where
// files are named after hosts, and no two would ever change at a time. A part of a word is no name.
func WithoutHostName(at, host string) string {
	if host == "" {
		return at
	}
	var out strings.Builder
	for rest := at; ; {
		i := strings.Index(rest, host)
		if i < 0 {
			return out.String() + rest
		}
		begin := len(at) - len(rest) + i
		end := begin + len(host)
		out.WriteString(rest[:i])
		if begin > 0 && isOfWord(at[begin-1]) || end < len(at) && isOfWord(at[end]) {
			out.WriteString(host)
		} else {
			out.WriteString(AnyHost)
		}
		rest = at[end:]
	}
}

// isOfWord reports whether a name goes on with a character. An underscore, a dash or a dot ends it.
func isOfWord(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// Selection is the part of a plan that is about some nodes alone.
type Selection struct {
	// Until is the last step of the part.
	Until string
	// Steps are the IDs of the steps of these nodes that are to be done.
	Steps []string
	// Later are the IDs of the steps before Until that are left for a later run: those of other workers.
	Later map[string]bool
}

// NamedNode is a worker by the name of its host and by that of its Node.
type NamedNode struct{ Host, Node string }

// UnknownNodeError says that a plan has no step for a node.
type UnknownNodeError struct {
	Name    string
	Workers []string
}

func (e *UnknownNodeError) Error() string {
	return fmt.Sprintf("--node %s: the plan changes no worker of this name", e.Name)
}

// Workers are the hosts of a plan whose kubelets change, and nothing of a control plane.
func Workers(p *v1.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Kind == v1.StepKubelet && !HasControlPlane(p, s.Host) && !slices.Contains(out, s.Host) {
			out = append(out, s.Host)
		}
	}
	return out
}

// HasControlPlane reports whether a plan changes a component of the control plane on a host.
func HasControlPlane(p *v1.Plan, host string) bool {
	planes := []string{component.KAS, component.KCM, component.Scheduler, component.CCM}
	return slices.ContainsFunc(p.Steps, func(s v1.Step) bool {
		return s.Host == host && slices.Contains(planes, s.Component)
	})
}

// ForNodes returns the part of a plan that is about some workers, in the first phase in which something is left to do
// for them. The order of the plan holds: everything before it has to be done, but for the steps of other workers in the
// same phase. It is refused where one of those was begun and is not finished, and before the canaries are done.
func ForNodes(p *v1.Plan, records []v1.StepRecord, named []NamedNode) (Selection, error) {
	results := map[string]v1.StepRecord{}
	for _, r := range records {
		results[r.ID] = r
	}
	own := func(s v1.Step) bool {
		return slices.ContainsFunc(named, func(n NamedNode) bool { return isAbout(s, n) })
	}
	last := lastOf(p, func(s v1.Step) bool { return own(s) && !results[s.ID].IsEnded() })
	if last < 0 {
		return Selection{}, fmt.Errorf(
			"nothing is left to do on %s: transplant apply without --node goes on with the rest of the plan",
			hostNames(named),
		)
	}
	phase := p.Steps[last].Phase
	out := Selection{Until: p.Steps[last].ID, Later: map[string]bool{}}
	for i, s := range p.Steps {
		record := results[s.ID]
		switch {
		case record.IsEnded():
		case own(s) && s.Phase == phase:
			out.Steps = append(out.Steps, s.ID)
		case isOfOtherWorker(p, s) && s.Phase == phase && record.Result == "" && !s.Canary:
			out.Later[s.ID] = true
		case i < last || s.Phase == phase && record.Result != "":
			return Selection{}, whyNotBefore(p, s, record, hostNames(named))
		}
	}
	return out, nil
}

// lastOf is the last step of some, in the first phase that has one of them; -1 where there is none.
func lastOf(p *v1.Plan, is func(v1.Step) bool) int {
	last := -1
	for i, s := range p.Steps {
		if is(s) && (last < 0 || s.Phase == p.Steps[last].Phase) {
			last = i
		}
	}
	return last
}

// isAbout reports whether a step changes a node, and nothing that other nodes need before.
func isAbout(s v1.Step, n NamedNode) bool {
	return s.Kind == v1.StepKubelet && s.Host == n.Host || s.Kind == v1.StepInitializeNode && s.Ref == "Node/"+n.Node
}

func isOfOtherWorker(p *v1.Plan, s v1.Step) bool {
	return s.Kind == v1.StepInitializeNode || s.Kind == v1.StepKubelet && !HasControlPlane(p, s.Host)
}

// whyNotBefore says why the steps of some nodes cannot be done before another step.
func whyNotBefore(p *v1.Plan, s v1.Step, record v1.StepRecord, names string) error {
	switch {
	case record.Result != "":
		return fmt.Errorf(
			"step %s was begun and is not finished: no step of %s is done before it; go on with transplant apply, or with --node %s first",
			s.ID,
			names,
			strings.TrimPrefix(s.Host+s.Ref, "Node/"),
		)
	case s.Canary && hasSeveralCanaries(p):
		return fmt.Errorf(
			"%s is the first worker of its kind, and the workers after it in the plan wait for it: name it, too (--node %s), or first",
			s.Host,
			s.Host,
		)
	case s.Canary:
		return fmt.Errorf(
			"%s is the first worker, and no other one changes before it: name it, too (--node %s), or first",
			s.Host,
			s.Host,
		)
	}
	return fmt.Errorf(
		"step %s comes before those of %s and is not done: --node is for workers after the control plane; run transplant apply --until %s first",
		s.ID,
		names,
		s.ID,
	)
}

// hasSeveralCanaries reports whether the workers of a plan are of several kinds. Plans of earlier versions have one
// canary, whatever their workers are.
func hasSeveralCanaries(p *v1.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s v1.Step) bool { return s.Canary && s.ID != LastCanary(p) })
}

func hostNames(named []NamedNode) string {
	var out []string
	for _, n := range named {
		out = append(out, n.Host)
	}
	return strings.Join(out, ", ")
}
