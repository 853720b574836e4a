package plan

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// reading is a plan as the rules look at it.
type reading struct {
	*v1.Plan
	// snap is nil when only the plan is known.
	snap *v1.Snapshot
	// starts are the steps that start a cloud-controller-manager.
	starts []startStep
}

// startStep starts a cloud-controller-manager: on one host, or on all of the control plane when host is empty.
type startStep struct {
	index int
	host  string
	flags map[string]string
	// spec of the pod.
	spec map[string]any
	// managed tells that a controller makes the pods, so that they are scheduled.
	managed bool
}

func read(p *v1.Plan, snap *v1.Snapshot) (*reading, error) {
	r := &reading{Plan: p, snap: snap}
	for i, s := range p.Steps {
		if s.Component != CCM || s.Kind != v1.StepAddManifest && s.Kind != v1.StepEnsureObject {
			continue
		}
		start, err := readStart(s)
		if err != nil {
			return nil, fmt.Errorf("step %s: reading the manager that it starts: %w", s.ID, err)
		}
		start.index = i
		r.starts = append(r.starts, start)
	}
	return r, nil
}

func readStart(s v1.Step) (startStep, error) {
	out := startStep{host: s.Host, managed: s.Kind == v1.StepEnsureObject}
	text := s.Content
	if out.managed {
		text = s.Object
	}
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		return out, err
	}
	out.spec = child(o, "spec")
	if out.managed {
		out.spec = child(child(out.spec, "template"), "spec")
	}
	containers, _ := out.spec["containers"].([]any)
	for _, c := range containers {
		c, _ := c.(map[string]any)
		out.flags = controlplane.FlagsOf(append(words(c["command"]), words(c["args"])...))
		break
	}
	return out, nil
}

func child(o map[string]any, key string) map[string]any {
	out, _ := o[key].(map[string]any)
	return out
}

func words(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, w := range list {
		if s, ok := w.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// first is the index of the first start; false when the plan starts no manager by itself.
func (r *reading) first() (int, bool) {
	if len(r.starts) == 0 {
		return 0, false
	}
	return r.starts[0].index, true
}

// edit returns the last edit of a flag in a step.
func edit(s v1.Step, flag string) (v1.Edit, bool) {
	for _, e := range slices.Backward(s.Edits) {
		if e.Name == flag && (e.Op == "setFlag" || e.Op == "unsetFlag") {
			return e, true
		}
	}
	return v1.Edit{}, false
}

// sets tells that a step sets a flag to a value.
func sets(s v1.Step, flag, value string) bool {
	e, ok := edit(s, flag)
	return ok && e.Op == "setFlag" && e.Value == value
}

// changesFlags tells that a step edits the flags of a component, or starts it with other ones.
func changesFlags(s v1.Step) bool {
	switch s.Kind {
	case v1.StepEditManifest, v1.StepEditUnit, v1.StepEditWorkload:
		return true
	case v1.StepRestoreManifest, v1.StepStartUnit:
		return len(s.Edits) > 0
	default:
		return false
	}
}

// external are the indexes of the steps that make a kube-controller-manager external.
func (r *reading) external() []int {
	return r.which(func(s v1.Step) bool {
		return s.Component == KCM && changesFlags(s) && sets(s, "cloud-provider", "external")
	})
}

func (r *reading) kubelets() []int {
	return r.which(func(s v1.Step) bool { return s.Kind == v1.StepKubelet })
}

func (r *reading) which(match func(v1.Step) bool) []int {
	var out []int
	for i, s := range r.Steps {
		if match(s) {
			out = append(out, i)
		}
	}
	return out
}

// host of the snapshot by its name; nil when there is no snapshot.
func (r *reading) host(name string) *v1.Host {
	if r.snap == nil {
		return nil
	}
	for i := range r.snap.Hosts {
		if r.snap.Hosts[i].Name == name {
			return &r.snap.Hosts[i]
		}
	}
	return nil
}

// manager is the kube-controller-manager whose place a started manager takes.
func (r *reading) manager(s startStep) *v1.Component {
	if r.snap == nil {
		return nil
	}
	if m := hosted(r.snap, KCM); m != nil {
		return m
	}
	for _, h := range r.snap.Hosts {
		if s.host == "" || h.Name == s.host {
			if m := component(h, KCM); m != nil {
				return m
			}
		}
	}
	return nil
}

// history calls f before each edit of flags with the value that the flag has then.
func (r *reading) history(flag string, f func(s v1.Step, before string, e v1.Edit) error) error {
	now := map[string]string{}
	for _, s := range r.Steps {
		if !changesFlags(s) && s.Kind != v1.StepKubelet {
			continue
		}
		key := s.Host + "/" + s.Component + s.Ref
		for _, e := range s.Edits {
			if e.Name != flag || e.Op != "setFlag" && e.Op != "unsetFlag" {
				continue
			}
			before, known := now[key]
			if !known {
				before = r.original(s, flag)
			}
			if err := f(s, before, e); err != nil {
				return fmt.Errorf("step %s: %w", s.ID, err)
			}
			now[key] = e.Value
		}
	}
	return nil
}

// original is the value of a flag before the plan.
func (r *reading) original(s v1.Step, flag string) string {
	h := r.host(s.Host)
	if c := r.deployed(s); c != nil {
		return c.Flags[flag]
	}
	switch {
	case h == nil:
		return ""
	case s.Component == kubeletName && h.Kubelet != nil:
		return h.Kubelet.Flags[flag]
	}
	c := component(*h, s.Component)
	if c == nil {
		return ""
	}
	if flag == gatesFlag {
		return allGates(c.Command, c.Flags[flag])
	}
	return c.Flags[flag]
}

// deployed is the component of a step that edits a Deployment, as the snapshot has it; nil for another step.
func (r *reading) deployed(s v1.Step) *v1.Component {
	if r.snap == nil || s.Kind != v1.StepEditWorkload || !r.seeded() {
		return nil
	}
	return hosted(r.snap, s.Component)
}

// mentions tells that a value is in a list separated by commas.
func mentions(list, item string) bool { return slices.Contains(strings.Split(list, ","), item) }
