// Package draft holds a plan while it is made. That is its target, its steps and facts so far, and the flags that each
// component has after them.
package draft

import (
	"maps"
	"slices"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/manual"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Note adds an effect that was found on the way.
func (d *Draft) Note(text string) {
	for _, n := range d.Notes {
		if n == text {
			return
		}
	}
	d.Notes = append(d.Notes, text)
}

// Draft collects the steps and facts of one plan.
type Draft struct {
	Target
	Snapshot *v1.Snapshot
	Options  v1.Options
	facts    map[string]v1.Fact
	Steps    []v1.Step
	// flags of each component as they are after the steps so far, by host/component.
	flags map[string]map[string]string
	// images are those that steps so far have changed, by host/component.
	images map[string]string
	// Notes are effects that were found on the way.
	Notes []string
	// Refusals are the reasons why no plan can be made of what was found on the way; Make returns them.
	Refusals []error
}

// New returns a draft without steps for a snapshot.
func New(snap *v1.Snapshot, opts v1.Options) *Draft {
	return &Draft{Snapshot: snap, Options: opts, facts: map[string]v1.Fact{}}
}

// Add puts a step at the end and remembers what it makes of the flags of its component.
func (d *Draft) Add(s v1.Step) {
	flags := d.flagsAt(s.Host, s.Component)
	if len(s.Manual) == 0 && d.Provider.Name != "" {
		s.Manual = manual.Commands(s, flags)
	}
	d.Steps = append(d.Steps, s)
	if start, err := planstep.ReadManagerStart(s); err == nil && s.Kind == v1.StepAddManifest {
		d.flags[s.Host+"/"+s.Component] = start.Flags // by hand, its later changes begin with these
	}
	if flags == nil {
		return
	}
	for _, e := range s.Edits {
		switch e.Op {
		case v1.EditSetFlag:
			flags[e.Name] = e.Value
		case v1.EditUnsetFlag:
			delete(flags, e.Name)
		default: // no other edit is about this
		}
	}
	d.noteImage(s)
}

// noteImage remembers the image that a step gives to its component.
func (d *Draft) noteImage(s v1.Step) {
	if !slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Op == v1.EditSetImage }) {
		return
	}
	for _, c := range s.Changes {
		if c.Field == planstep.FieldImage {
			if d.images == nil {
				d.images = map[string]string{}
			}
			d.images[s.Host+"/"+s.Component] = c.After
		}
	}
}

// flagsAt are the flags of a component on a host after the steps so far; nil when the snapshot knows no such component.
func (d *Draft) flagsAt(host, name string) map[string]string {
	if d.flags == nil {
		d.flags = map[string]map[string]string{}
		for _, h := range d.Snapshot.Hosts {
			for _, c := range h.Components {
				flags := maps.Clone(c.Flags)
				if flags == nil {
					flags = map[string]string{}
				}
				if merged := flagvalue.MergeGates(c.Command, flags[flagvalue.FlagFeatureGates]); merged != "" {
					flags[flagvalue.FlagFeatureGates] = merged
				}
				d.flags[h.Name+"/"+c.Name] = flags
			}
		}
	}
	return d.flags[host+"/"+name]
}

// FlagsAfter returns the flags of a component on a host after the steps so far.
func (d *Draft) FlagsAfter(h v1.Host, name string) map[string]string { return d.flagsAt(h.Name, name) }

// ComponentAfter is a component with the flags that it has after the steps so far; nil when the host has none of that
// name.
func (d *Draft) ComponentAfter(h v1.Host, name string) *v1.Component {
	c := clusterview.FindComponent(h, name)
	if c == nil {
		return nil
	}
	after := *c
	after.Flags = maps.Clone(d.FlagsAfter(h, name))
	if image, changed := d.images[h.Name+"/"+name]; changed {
		after.Image = image
	}
	return &after
}

// AddFact records a fact and returns its ID, to be required by a step.
func (d *Draft) AddFact(id, value, detail string) string {
	d.facts[id] = v1.Fact{ID: id, Value: value, Detail: detail}
	return id
}

// AddFileFact records what a file holds now; "absent" when it is not there.
func (d *Draft) AddFileFact(h v1.Host, path string) string {
	value, detail := "absent", ""
	for _, f := range h.Files {
		if f.Path == path && f.Present {
			value = f.SHA256
		}
	}
	for _, c := range h.Components {
		if c.Manifest == path {
			value, detail = c.SHA256, strings.Join(c.Command, "\n")
		}
	}
	if h.Kubelet != nil {
		for _, f := range h.Kubelet.Files {
			if f.Path == path && f.Present {
				value = f.SHA256
			}
		}
		if h.Kubelet.Source == path && h.Kubelet.SHA256 != "" {
			value = h.Kubelet.SHA256
		}
	}
	return d.AddFact(planstep.FileFact(h.Name, path), value, detail)
}

// SortedFacts returns the facts of the draft, sorted by their IDs.
func (d *Draft) SortedFacts() []v1.Fact {
	out := make([]v1.Fact, 0, len(d.facts))
	for _, f := range d.facts {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}
