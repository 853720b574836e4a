// Package invariant holds every plan to the rules of a safe migration, whatever its author and its place.
package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/program"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// providerName is the provider of a plan: what the managers that it starts are told, else what the in-tree ones run
// with.
func (r *planView) providerName() string {
	for _, s := range r.starts {
		return s.Flags["cloud-provider"]
	}
	if r.snap == nil {
		return ""
	}
	name, err := clusterview.InTreeProvider(r.snap)
	if err != nil {
		return ""
	}
	return name
}

// minorOf is the minor of a step's component; false when it is not known.
func (r *planView) minorOf(s v1.Step) (int, bool) {
	h := r.host(s.Host)
	if c := r.deployed(s); c != nil {
		n, err := (&draft.Draft{Snapshot: r.snap}).MinorOf(c)
		return n, err == nil
	}
	if h == nil {
		return 0, false
	}
	d := draft.Draft{Snapshot: r.snap}
	d.APIMinor, _ = clusterview.ParseMinor("", r.snap.Cluster.Version)
	if s.Kind == v1.StepKubelet {
		n := d.KubeletMinor(*h)
		return n, n > 0
	}
	c := r.component(*h, s)
	if c == nil {
		return 0, false
	}
	n, err := d.MinorOf(c)
	return n, err == nil
}

func knownGates(r *planView) error {
	if err := r.knownStarts(); err != nil {
		return err
	}
	for _, s := range r.Steps {
		if !planstep.EditsFlags(s) && s.Kind != v1.StepKubelet {
			continue
		}
		n, ok := r.minorOf(s)
		if !ok {
			continue
		}
		for _, e := range s.Edits {
			if err := r.knownEdit(s, e, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// knownStarts names a flag that a manager is started with and does not know.
func (r *planView) knownStarts() error {
	for _, start := range r.starts {
		p, err := program.Identify(start.Flags["cloud-provider"], r.Options.Image)
		for _, flag := range slices.Sorted(maps.Keys(start.Flags)) {
			if err == nil && !p.KnowsFlag(flag) {
				return fmt.Errorf(
					"step %s gives --%s, which the manager of 0.%d does not know",
					r.Steps[start.Index].ID,
					flag,
					p.Minor,
				)
			}
		}
	}
	return nil
}

// knownEdit names a flag or a gate that an edit gives a component whose minor does not take it.
func (r *planView) knownEdit(s v1.Step, e v1.Edit, minor int) error {
	switch e.Op {
	case v1.EditSetGate:
		if gate := catalogue.GateFor(
			s.Component,
			e.Name,
			minor,
		); !gate.Known ||
			gate.Locked && fmt.Sprint(gate.Default) != e.Value {
			return fmt.Errorf(
				"step %s sets the gate %s=%s, which %s of 1.%d does not take",
				s.ID,
				e.Name,
				e.Value,
				s.Component,
				minor,
			)
		}
	case v1.EditSetFlag:
		if f, held := catalogue.FlagAt(s.Component, e.Name, minor); held && !f.Known {
			return fmt.Errorf("step %s sets --%s, which %s of 1.%d does not know", s.ID, e.Name, s.Component, minor)
		}
		if gate := refusedGate(
			s.Component,
			minor,
			e,
			flagvalue.ParseGates(r.original(s, flagvalue.FlagFeatureGates)),
		); gate != "" {
			return fmt.Errorf("step %s sets the gate %s, which %s of 1.%d does not take", s.ID, gate, s.Component, minor)
		}
	default: // no other edit is about this
	}
	return nil
}

// refusedGate is a gate that an edit sets, that was not so before, and that the component's minor refuses.
func refusedGate(comp string, minor int, e v1.Edit, before flagvalue.Gates) string {
	if e.Name != flagvalue.FlagFeatureGates {
		return ""
	}
	for gate, on := range flagvalue.ParseGates(e.Value) {
		if was, had := before[gate]; had && was == on {
			continue
		}
		if g := catalogue.GateFor(comp, gate, minor); !g.Known || g.Locked && g.Default != on {
			return fmt.Sprintf("%s=%v", gate, on)
		}
	}
	return ""
}

// isManagedGate reports whether a gate is one that a migration decides about.
func isManagedGate(gate string) bool {
	return slices.Contains([]string{
		catalogue.DisableCloudProviders, catalogue.DisableKubeletCloudCredentialProviders, flagvalue.GateCredentialProviders,
		flagvalue.GateLeaderMigration,
	}, gate) ||
		strings.HasPrefix(gate, flagvalue.GateCSIMigration) ||
		strings.HasPrefix(gate, "InTreePlugin")
}

func gatesMerged(r *planView) error {
	return r.history(flagvalue.FlagFeatureGates, func(s v1.Step, before string, e v1.Edit) error {
		after := flagvalue.ParseGates(e.Value)
		for gate, on := range flagvalue.ParseGates(before) {
			if now, kept := after[gate]; (!kept || now != on) && !isManagedGate(gate) && !r.isGateRefused(s, gate, on) {
				return fmt.Errorf("the gate %s=%v is lost", gate, on)
			}
		}
		return nil
	})
}

func controllersMerged(r *planView) error {
	err := r.history("controllers", func(s v1.Step, before string, e v1.Edit) error {
		if s.Component != component.KCM {
			return nil
		}
		if before == "" {
			before = "*"
		}
		for _, item := range flagvalue.SplitList(before) {
			loop, _, cloud := controllernames.Lookup(strings.TrimPrefix(item, "-"))
			if !containsItem(e.Value, item) && !(cloud && loop == clusterview.NodeIPAM) {
				return fmt.Errorf("%q is lost from --controllers", item)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, start := range r.starts {
		m := r.manager(start)
		if m == nil {
			continue
		}
		for _, loop := range controllernames.CloudLoops {
			if flagvalue.IsLoopDisabled(m.Flags["controllers"], loop) &&
				!flagvalue.IsLoopDisabled(start.Flags["controllers"], loop) {
				return fmt.Errorf("step %s starts loop %s, which %s has switched off", r.Steps[start.Index].ID, loop, component.KCM)
			}
		}
	}
	return nil
}

// migrationConfigs calls f with each leader migration config that a plan writes: who reads it and the names in it.
func (r *planView) migrationConfigs(f func(s v1.Step, comp controllernames.Component, names []string) error) error {
	for _, s := range r.Steps {
		if s.Kind != v1.StepWriteFile || s.Path != layout.KCMMigration && s.Path != layout.CCMMigration {
			continue
		}
		var config struct {
			ControllerLeaders []struct{ Name, Component string }
		}
		if err := safeyaml.Unmarshal([]byte(s.Content), &config); err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
		comp := controllernames.KubeControllerManager
		if s.Path == layout.CCMMigration {
			comp = controllernames.CloudControllerManager
		}
		var all []string
		for _, l := range config.ControllerLeaders {
			all = append(all, l.Name)
		}
		if err := f(s, comp, all); err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
	}
	return nil
}

func oneAllocator(r *planView) error {
	moves := map[bool]int{}
	err := r.migrationConfigs(func(_ v1.Step, _ controllernames.Component, all []string) error {
		moves[slices.ContainsFunc(
			all,
			func(n string) bool { l, _, ok := controllernames.Lookup(n); return ok && l == clusterview.NodeIPAM },
		)]++
		return nil
	})
	if err != nil {
		return err
	}
	if moves[true] > 0 && moves[false] > 0 {
		return fmt.Errorf("%d migration configs name node IPAM and %d do not", moves[true], moves[false])
	}
	moved := moves[true] > 0 || r.startsIPAM()
	for _, i := range r.external() {
		s := r.Steps[i]
		e, ok := planstep.LastEdit(s, "controllers")
		switch {
		case moved && (!ok || !flagvalue.IsLoopDisabled(e.Value, clusterview.NodeIPAM)) && !flagvalue.IsLoopDisabled(
			r.original(s, "controllers"),
			clusterview.NodeIPAM,
		):
			return fmt.Errorf("node IPAM moves, and step %s leaves it in %s as well", s.ID, component.KCM)
		case !moved && ok && flagvalue.IsLoopDisabled(e.Value, clusterview.NodeIPAM) && !flagvalue.IsLoopDisabled(
			r.original(s, "controllers"),
			clusterview.NodeIPAM,
		):
			return fmt.Errorf("step %s removes node IPAM from %s, and no other manager runs it", s.ID, component.KCM)
		}
	}
	return nil
}

// startsIPAM reports whether a started manager allocates pod CIDRs.
func (r *planView) startsIPAM() bool {
	for _, s := range r.starts {
		p, err := program.Identify(s.Flags["cloud-provider"], r.Options.Image)
		if err != nil || p.IPAMName == "" || s.Flags["allocate-node-cidrs"] != "true" {
			continue
		}
		list := s.Flags["controllers"]
		if containsItem(list, p.IPAMName) || p.IPAMOn && !containsItem(list, "-"+p.IPAMName) {
			return true
		}
	}
	return false
}

func sameName(r *planView) error {
	for _, s := range r.starts {
		m := r.manager(s)
		if m == nil {
			continue
		}
		want := r.Options.ClusterName
		if want == "" {
			want = m.Flags["cluster-name"]
		}
		have := s.Flags["cluster-name"]
		if want == "" {
			want = clusterview.DefaultClusterName
		}
		if have == "" {
			have = clusterview.DefaultClusterName
		}
		if want != have {
			return fmt.Errorf("step %s gives the cluster the name %q, it is %q", r.Steps[s.Index].ID, have, want)
		}
	}
	return nil
}

func carriedOver(r *planView) error {
	return r.carriesOver(func(ccm.InheritedFlag) bool { return true })
}

// carriesOver asks about some of the flags.
func (r *planView) carriesOver(asked func(ccm.InheritedFlag) bool) error {
	for _, s := range r.starts {
		m := r.manager(s)
		if m == nil {
			continue
		}
		for _, c := range ccm.InheritedFlags {
			value, ok := m.Flags[c.Name]
			if ok && asked(c) && !c.NodeIPAM && c.Name != "cluster-name" && r.knows(s, c.Name) && s.Flags[c.Name] != value {
				return fmt.Errorf(
					"step %s gives --%s=%q, %s has %q: %s",
					r.Steps[s.Index].ID,
					c.Name,
					s.Flags[c.Name],
					component.KCM,
					value,
					c.Why,
				)
			}
		}
	}
	return nil
}

func migrationOff(r *planView) error {
	for _, i := range r.external() {
		s := r.Steps[i]
		on := r.original(s, "enable-leader-migration") == "true"
		for _, o := range r.Steps[:i+1] {
			if e, ok := planstep.LastEdit(o, "enable-leader-migration"); ok && o.Component == component.KCM && o.Host == s.Host {
				on = e.Op == v1.EditSetFlag && e.Value != "false"
			}
		}
		if on {
			return fmt.Errorf("step %s leaves leader migration on", s.ID)
		}
	}
	return nil
}

// knows reports whether the manager that a step starts takes a flag.
func (r *planView) knows(s planstep.ManagerStart, flag string) bool {
	p, err := program.Identify(s.Flags["cloud-provider"], r.Options.Image)
	return err != nil || p.KnowsFlag(flag)
}

// kubeletFlags are those that a migration may change.
var kubeletFlags = []string{
	"cloud-provider",
	flagvalue.FlagCloudConfig,
	flagvalue.FlagFeatureGates,
	flagvalue.FlagCredentialConfig,
	flagvalue.FlagCredentialDir,
}

func kubeletIdentity(r *planView) error {
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		for _, e := range s.Edits {
			if gate := e.Op == v1.EditSetGate || e.Op == v1.EditUnsetGate; gate && isManagedGate(e.Name) {
				continue
			}
			if !slices.Contains(kubeletFlags, e.Name) && e.Name != flagvalue.FlagHostname {
				return fmt.Errorf("step %s changes --%s", s.ID, e.Name)
			}
		}
		if err := r.keepsName(s); err != nil {
			return err
		}
	}
	return nil
}

// keepsName reports whether the kubelet of a step comes back under the name of its Node.
func (r *planView) keepsName(s v1.Step) error {
	e, told := planstep.LastEdit(s, flagvalue.FlagHostname)
	h := r.host(s.Host)
	switch {
	case told && e.Op != v1.EditSetFlag:
		return fmt.Errorf("step %s takes --%s away", s.ID, flagvalue.FlagHostname)
	case h == nil || h.NodeName == "":
		return nil
	case told && e.Value != h.NodeName:
		return fmt.Errorf(
			"step %s gives --%s=%s to the kubelet of node %s",
			s.ID,
			flagvalue.FlagHostname,
			e.Value,
			h.NodeName,
		)
	case told:
		return nil
	}
	d := draft.Draft{Snapshot: r.snap}
	if name := kubelet.RegisteredName(
		*h,
		d.FindNode(h.NodeName),
		r.original(s, flagvalue.FlagHostname),
	); name != h.NodeName {
		return fmt.Errorf("the kubelet of step %s registers as %q, and its node is %s", s.ID, name, h.NodeName)
	}
	return nil
}

func labelsPlugin(r *planView) error {
	if r.snap == nil || len(r.external()) == 0 {
		return nil
	}
	for _, h := range r.snap.Hosts {
		api := clusterview.FindComponent(h, component.KAS)
		if api == nil || h.APIOnly || clusterview.FindComponent(h, component.KCM) == nil {
			continue
		}
		value := api.Flags["enable-admission-plugins"]
		for _, s := range r.Steps {
			if e, ok := planstep.LastEdit(
				s,
				"enable-admission-plugins",
			); ok && s.Host == h.Name &&
				s.Component == component.KAS {
				value = e.Value
			}
		}
		if containsItem(value, flagvalue.PluginPVLabels) {
			return fmt.Errorf("%s on host %s keeps it", component.KAS, h.Name)
		}
	}
	return nil
}

func ownDialect(r *planView) error {
	return r.migrationConfigs(func(s v1.Step, comp controllernames.Component, all []string) error {
		n, ok := 0, false
		if comp == controllernames.KubeControllerManager {
			n, ok = r.minorOf(v1.Step{Host: s.Host, Component: component.KCM})
		} else if p, err := program.Identify(r.providerName(), r.Options.Image); err == nil {
			n, ok = p.Minor, true
		}
		for _, name := range all {
			if why := controllernames.Explain(comp, n, name); ok && why != "" {
				return fmt.Errorf("%s 1.%d knows no %q: %s", comp, n, name, why)
			}
		}
		return nil
	})
}

func kubeadmAgrees(r *planView) error {
	if r.snap == nil || r.snap.Kubeadm == nil || r.snap.Kubeadm.Error != "" || len(r.external()) == 0 ||
		clusterview.FindHosted(r.snap, component.KCM) != nil {
		return nil
	}
	final := r.lastEdits(func(s v1.Step) bool { return s.Kind == v1.StepEditManifest || s.Kind == v1.StepRestoreManifest })
	told := r.lastEdits(func(s v1.Step) bool { return s.Kind == v1.StepPatchObject && s.Derive == layout.DeriveKubeadm })
	for _, comp := range kubeadm.Components {
		args := r.snap.Kubeadm.ExtraArgs[kubeadm.Sections[comp]]
		for flag, e := range final[comp] {
			value, has := args[flag]
			if !has || e.Op == v1.EditSetFlag && e.Value == value {
				continue
			}
			if t := told[comp][flag]; t.Op != e.Op || t.Value != e.Value {
				return fmt.Errorf("kubeadm would give %s --%s=%s again", comp, flag, value)
			}
		}
	}
	return nil
}

// lastEdits are the last edits of each flag of each component in the steps that match.
func (r *planView) lastEdits(match func(v1.Step) bool) map[string]map[string]v1.Edit {
	out := map[string]map[string]v1.Edit{}
	for _, i := range r.which(match) {
		s := r.Steps[i]
		if out[s.Component] == nil {
			out[s.Component] = map[string]v1.Edit{}
		}
		for _, e := range s.Edits {
			if e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag { // a volume may be called as a flag is
				out[s.Component][e.Name] = e
			}
		}
	}
	return out
}

func supportedOnly(r *planView) error {
	_, err := clusterview.LookupSupported(r.providerName())
	return err
}

func startsAgain(r *planView) error {
	now := map[string]map[string]string{} // host/component -> flag -> value
	for _, s := range r.Steps {
		n, ok := r.minorOf(s)
		if !ok || !planstep.EditsFlags(s) && s.Kind != v1.StepKubelet {
			continue
		}
		key := s.Host + "/" + s.Component
		if now[key] == nil {
			now[key] = map[string]string{
				"cloud-provider":           r.original(s, "cloud-provider"),
				flagvalue.FlagFeatureGates: r.original(s, flagvalue.FlagFeatureGates),
			}
		}
		for _, e := range s.Edits {
			if e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag {
				now[key][e.Name] = e.Value
			}
		}
		value := now[key]["cloud-provider"]
		accepted := catalogue.Accepts(s.Component, value, n)
		if s.Component != component.Scheduler && !accepted.Starts {
			return fmt.Errorf("step %s: %s", s.ID, accepted.Why)
		}
		for _, g := range accepted.Gates {
			if flagvalue.IsGateOn(now[key][flagvalue.FlagFeatureGates], s.Component, g.Gate, n) != g.Value {
				return fmt.Errorf(
					"after step %s %s of 1.%d has --cloud-provider=%q and the gate %s=%v",
					s.ID,
					s.Component,
					n,
					value,
					g.Gate,
					!g.Value,
				)
			}
		}
	}
	return nil
}
