package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// component is the component of a step as it is after the step, with the image that it then has. It is nil when the
// host has none. Of a step that is not in the plan it is the component before the plan.
func (r *planView) component(h v1.Host, s v1.Step) *v1.Component {
	c := clusterview.FindComponent(h, s.Component)
	if c == nil || !slices.ContainsFunc(r.Steps, func(o v1.Step) bool { return o.ID == s.ID && s.ID != "" }) {
		return c
	}
	after := *c
	for _, o := range r.Steps {
		if o.Host == h.Name && o.Component == s.Component {
			after.Image = planstep.ImageAfter(o, after.Image)
		}
		if o.ID == s.ID {
			break
		}
	}
	return &after
}

// isGateRefused reports whether the version that a step gives to its component does not take a gate with its value.
func (r *planView) isGateRefused(s v1.Step, gate string, on bool) bool {
	n, ok := r.minorOf(s)
	g := catalogue.GateFor(s.Component, gate, n)
	return ok && planstep.ChangesImage(s) && (!g.Known || g.Locked && g.Default != on)
}

// movesOwner reports whether an API server gets another version before the managers change. No lease of a migration
// keeps it from being an owner's; the engine moves the owner away before it restarts one.
func (r *planView) movesOwner(s v1.Step) bool {
	return r.Strategy == planstep.Downtime && s.Phase == planstep.PhaseServers && planstep.ChangesImage(s)
}

// versions are the minors of what runs at a moment, by component and host.
type versions map[string]map[string]int

// atStart are the versions before the first step.
func atStart(snap *v1.Snapshot) versions {
	v := versions{}
	d := draft.Draft{Snapshot: snap}
	for _, h := range snap.Hosts {
		for i := range h.Components {
			c := &h.Components[i]
			if n, err := d.MinorOf(c); err == nil && slices.Contains(component.Versioned, c.Name) {
				v.setMinor(c.Name, h.Name, n)
			}
		}
	}
	for _, n := range snap.Nodes {
		if k, err := clusterview.ParseMinor("", n.KubeletVersion); err == nil {
			v.setMinor(component.Kubelet, n.Name, k)
		}
	}
	return v
}

func (v versions) setMinor(component, host string, n int) {
	if v[component] == nil {
		v[component] = map[string]int{}
	}
	v[component][host] = n
}

// span is the oldest and the newest of a component; false when none is known.
func (v versions) span(component string) (oldest, newest int, ok bool) {
	all := slices.Collect(maps.Values(v[component]))
	if len(all) == 0 {
		return 0, 0, false
	}
	return slices.Min(all), slices.Max(all), true
}

// skewed says what does not fit; empty when everything does. A kubelet that is newer was installed outside the
// migration, and no step changes it.
func (v versions) skewed() string {
	oldest, newest, ok := v.span(component.KAS)
	if !ok {
		return ""
	}
	if newest-oldest > 1 {
		return fmt.Sprintf("API servers are of 1.%d to 1.%d", oldest, newest)
	}
	for _, name := range []string{component.KCM, component.Scheduler, component.Kubelet} {
		for _, host := range slices.Sorted(maps.Keys(v[name])) {
			n := v[name][host]
			older, _ := catalogue.SkewOf(name, newest)
			switch {
			case n > oldest && name != component.Kubelet:
				return fmt.Sprintf("%s on %s is of 1.%d, and an API server of 1.%d", name, host, n, oldest)
			case n < newest-older:
				return fmt.Sprintf(
					"%s on %s is of 1.%d, and an API server of 1.%d, which allows 1.%d at least",
					name,
					host,
					n,
					newest,
					newest-older,
				)
			}
		}
	}
	return ""
}

func skewKept(r *planView) error {
	if r.snap == nil {
		return nil
	}
	v := atStart(r.snap)
	before := v.skewed()
	images := map[string]string{}
	for _, s := range r.Steps {
		if s.Host == "" || !slices.Contains(component.Versioned, s.Component) {
			continue
		}
		if planstep.StopsComponent(s) {
			delete(v[s.Component], s.Host)
			continue
		}
		key := s.Host + "/" + s.Component
		if h := r.host(s.Host); h != nil && images[key] == "" {
			if c := clusterview.FindComponent(*h, s.Component); c != nil {
				images[key] = c.Image
			}
		}
		images[key] = planstep.ImageAfter(s, images[key])
		if n, err := clusterview.ParseMinor(images[key], ""); err == nil {
			v.setMinor(s.Component, s.Host, n)
		}
		if why := v.skewed(); why != "" && why != before { // what was so before is not this plan's, and check names it
			return fmt.Errorf("after step %s %s", s.ID, why)
		}
	}
	return nil
}

func startsUpgraded(r *planView) error {
	now := map[string]map[string]string{} // host/component -> flag -> value
	for _, s := range r.Steps {
		h := r.host(s.Host)
		if h == nil || !planstep.EditsFlags(s) || !slices.Contains(component.Versioned, s.Component) {
			continue
		}
		key := s.Host + "/" + s.Component
		if c := clusterview.FindComponent(*h, s.Component); now[key] == nil && c != nil {
			now[key] = maps.Clone(c.Flags)
			if gates := flagvalue.MergeGates(c.Command, c.Flags[flagvalue.FlagFeatureGates]); gates != "" {
				now[key][flagvalue.FlagFeatureGates] = gates
			}
		}
		applyFlags(now[key], s.Edits)
		if !planstep.ChangesImage(s) {
			continue
		}
		n, _ := r.minorOf(s)
		if why := takes(s.Component, n, now[key]); why != "" {
			return fmt.Errorf("step %s gives %s 1.%d %s", s.ID, s.Component, n, why)
		}
	}
	return nil
}

// applyFlags applies edits to flags; nil flags stay.
func applyFlags(flags map[string]string, edits []v1.Edit) {
	for _, e := range edits {
		switch {
		case flags == nil:
		case e.Op == v1.EditSetFlag:
			flags[e.Name] = e.Value
		case e.Op == v1.EditUnsetFlag:
			delete(flags, e.Name)
		}
	}
}

// takes names what a component of a minor does not start with; empty when it starts.
func takes(name string, n int, flags map[string]string) string {
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if f, _ := catalogue.FlagAt(name, flag, n); !f.Known {
			return "--" + flag
		}
	}
	for gate, on := range flagvalue.ParseGates(flags[flagvalue.FlagFeatureGates]) {
		if g := catalogue.GateFor(name, gate, n); !g.Known || g.Locked && g.Default != on {
			return fmt.Sprintf("the gate %s=%v", gate, on)
		}
	}
	for _, plugin := range flagvalue.SplitList(cmp.Or(flags["enable-admission-plugins"], "") + "," + flags["disable-admission-plugins"]) {
		if _, ended := catalogue.AdmissionPluginEnds(plugin, n); ended && name == component.KAS {
			return "the admission plugin " + plugin
		}
	}
	return ""
}

func targetReached(r *planView) error {
	u := draft.UpgradeOf(r.Options)
	reached := map[string]bool{}
	for _, s := range r.Steps {
		for _, e := range s.Edits {
			if e.Op != v1.EditSetImage && e.Op != v1.EditSetVersion {
				continue
			}
			if !is(u, e.Value) {
				return fmt.Errorf("step %s sets %s to %s, and the target is %q", s.ID, e.Name, e.Value, u.Version)
			}
			reached[s.Host+"/"+e.Name] = true
		}
	}
	if r.snap == nil || !u.IsWanted() || len(r.external()) == 0 {
		return nil
	}
	return r.leftBehind(u, reached)
}

// leftBehind names what a plan leaves in another version; reached are the host/component and /kubernetesVersion that it
// takes to the target.
func (r *planView) leftBehind(u draft.Upgrade, reached map[string]bool) error {
	if k := r.snap.Kubeadm; k != nil && k.Error == "" && k.KubernetesVersion != u.Version &&
		!reached["/"+layout.FieldKubernetesVersion] {
		return fmt.Errorf("kubeadm goes on with %s", k.KubernetesVersion)
	}
	for _, h := range r.snap.Hosts {
		for _, c := range h.Components {
			if !h.ControlPlane || !slices.Contains(component.Versioned, c.Name) || reached[h.Name+"/"+c.Name] {
				continue
			}
			if _, tag, err := controlplane.SplitImage(c.Image); err != nil || !is(u, tag) {
				return fmt.Errorf("%s on host %s keeps %s", c.Name, h.Name, c.Image)
			}
		}
	}
	return nil
}

// is reports whether a tag says the version, with a v or without.
func is(u draft.Upgrade, tag string) bool {
	return u.IsWanted() && strings.TrimPrefix(tag, "v") == strings.TrimPrefix(u.Version, "v")
}

// VerifyRollback looks at the rules about an order that hold of the way back, too. A rollback must not leave versions
// that do not fit each other, nor pods of a template that is taken back.
func VerifyRollback(p *v1.Plan, snap *v1.Snapshot) error {
	r := &planView{Plan: p, snap: snap}
	if err := skewKept(r); err != nil {
		return fmt.Errorf("rule %s: %w", skewRule, err)
	}
	if err := podsReplaced(r); err != nil {
		return fmt.Errorf("rule %s: %w", podsRule, err)
	}
	return nil
}

// The IDs of the rules that VerifyRollback looks at.
const (
	skewRule = "P-36"
	podsRule = "P-47"
)
