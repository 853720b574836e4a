package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// providerName is the provider of a plan: what the managers that it starts are told, else what the in-tree ones run with.
func (r *reading) providerName() string {
	for _, s := range r.starts {
		return s.flags["cloud-provider"]
	}
	if r.snap == nil {
		return ""
	}
	name, err := inTreeProvider(r.snap)
	if err != nil {
		return ""
	}
	return name
}

// minorOf is the minor of a step's component; false when it is not known.
func (r *reading) minorOf(s v1.Step) (int, bool) {
	h := r.host(s.Host)
	if c := r.deployed(s); c != nil {
		n, err := (&builder{snap: r.snap}).minorOf(c)
		return n, err == nil
	}
	if h == nil {
		return 0, false
	}
	b := builder{snap: r.snap}
	b.api, _ = minor("", r.snap.Cluster.Version)
	if s.Kind == v1.StepKubelet {
		n := b.kubeletMinor(*h)
		return n, n > 0
	}
	c := r.component(*h, s)
	if c == nil {
		return 0, false
	}
	n, err := b.minorOf(c)
	return n, err == nil
}

func knownGates(r *reading) error {
	if err := r.knownStarts(); err != nil {
		return err
	}
	for _, s := range r.Steps {
		if !changesFlags(s) && s.Kind != v1.StepKubelet {
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
func (r *reading) knownStarts() error {
	for _, start := range r.starts {
		p, err := programOf(start.flags["cloud-provider"], r.Options.Image)
		for _, flag := range slices.Sorted(maps.Keys(start.flags)) {
			if err == nil && !p.knows(flag) {
				return fmt.Errorf("step %s gives --%s, which the manager of 0.%d does not know", r.Steps[start.index].ID, flag, p.minor)
			}
		}
	}
	return nil
}

// knownEdit names a flag or a gate that an edit gives a component whose minor does not take it.
func (r *reading) knownEdit(s v1.Step, e v1.Edit, minor int) error {
	switch e.Op {
	case opSetGate:
		if gate := catalogue.GateFor(s.Component, e.Name, minor); !gate.Known || gate.Locked && fmt.Sprint(gate.Default) != e.Value {
			return fmt.Errorf("step %s sets the gate %s=%s, which %s of 1.%d does not take", s.ID, e.Name, e.Value, s.Component, minor)
		}
	case "setFlag":
		if f, held := catalogue.FlagAt(s.Component, e.Name, minor); held && !f.Known {
			return fmt.Errorf("step %s sets --%s, which %s of 1.%d does not know", s.ID, e.Name, s.Component, minor)
		}
		if gate := refusedGate(s.Component, minor, e, readGates(r.original(s, gatesFlag))); gate != "" {
			return fmt.Errorf("step %s sets the gate %s, which %s of 1.%d does not take", s.ID, gate, s.Component, minor)
		}
	}
	return nil
}

// refusedGate is a gate that an edit sets, that was not so before, and that the component's minor refuses.
func refusedGate(comp string, minor int, e v1.Edit, before gateSet) string {
	if e.Name != gatesFlag {
		return ""
	}
	for gate, on := range readGates(e.Value) {
		if was, had := before[gate]; had && was == on {
			continue
		}
		if g := catalogue.GateFor(comp, gate, minor); !g.Known || g.Locked && g.Default != on {
			return fmt.Sprintf("%s=%v", gate, on)
		}
	}
	return ""
}

// managedGate tells that a gate is one that a migration decides about.
func managedGate(gate string) bool {
	return slices.Contains([]string{gateNoProviders, gateNoCredentials, gateCredentials, gateLeaderMigration}, gate) ||
		strings.HasPrefix(gate, gateCSI) || strings.HasPrefix(gate, "InTreePlugin")
}

func gatesMerged(r *reading) error {
	return r.history(gatesFlag, func(s v1.Step, before string, e v1.Edit) error {
		after := readGates(e.Value)
		for gate, on := range readGates(before) {
			if now, kept := after[gate]; (!kept || now != on) && !managedGate(gate) && !r.refusedLater(s, gate, on) {
				return fmt.Errorf("the gate %s=%v is lost", gate, on)
			}
		}
		return nil
	})
}

func controllersMerged(r *reading) error {
	err := r.history("controllers", func(s v1.Step, before string, e v1.Edit) error {
		if s.Component != KCM {
			return nil
		}
		if before == "" {
			before = "*"
		}
		for _, item := range items(before) {
			loop, _, cloud := controllernames.Lookup(strings.TrimPrefix(item, "-"))
			if !mentions(e.Value, item) && !(cloud && loop == loopIPAM) {
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
			if disabled(m.Flags["controllers"], loop) && !disabled(start.flags["controllers"], loop) {
				return fmt.Errorf("step %s starts loop %s, which %s has switched off", r.Steps[start.index].ID, loop, KCM)
			}
		}
	}
	return nil
}

// migrationConfigs calls f with each leader migration config that a plan writes: who reads it and the names in it.
func (r *reading) migrationConfigs(f func(s v1.Step, comp controllernames.Component, names []string) error) error {
	for _, s := range r.Steps {
		if s.Kind != v1.StepWriteFile || s.Path != KCMMigration && s.Path != CCMMigration {
			continue
		}
		var config struct {
			ControllerLeaders []struct{ Name, Component string }
		}
		if err := yaml.Unmarshal([]byte(s.Content), &config); err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
		comp := controllernames.KubeControllerManager
		if s.Path == CCMMigration {
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

func oneAllocator(r *reading) error {
	moves := map[bool]int{}
	err := r.migrationConfigs(func(_ v1.Step, _ controllernames.Component, all []string) error {
		moves[slices.ContainsFunc(all, func(n string) bool { l, _, ok := controllernames.Lookup(n); return ok && l == loopIPAM })]++
		return nil
	})
	if err != nil {
		return err
	}
	if moves[true] > 0 && moves[false] > 0 {
		return fmt.Errorf("%d migration configs name node IPAM and %d do not", moves[true], moves[false])
	}
	moved := moves[true] > 0 || r.ipamStarts()
	for _, i := range r.external() {
		s := r.Steps[i]
		e, ok := edit(s, "controllers")
		switch {
		case moved && (!ok || !disabled(e.Value, loopIPAM)) && !disabled(r.original(s, "controllers"), loopIPAM):
			return fmt.Errorf("node IPAM moves, and step %s leaves it in %s as well", s.ID, KCM)
		case !moved && ok && disabled(e.Value, loopIPAM) && !disabled(r.original(s, "controllers"), loopIPAM):
			return fmt.Errorf("step %s takes node IPAM out of %s, and nobody else runs it", s.ID, KCM)
		}
	}
	return nil
}

// ipamStarts tells that a started manager allocates pod CIDRs.
func (r *reading) ipamStarts() bool {
	for _, s := range r.starts {
		p, err := programOf(s.flags["cloud-provider"], r.Options.Image)
		if err != nil || p.ipamName == "" || s.flags["allocate-node-cidrs"] != "true" {
			continue
		}
		list := s.flags["controllers"]
		if mentions(list, p.ipamName) || p.ipamOn && !mentions(list, "-"+p.ipamName) {
			return true
		}
	}
	return false
}

func sameName(r *reading) error {
	for _, s := range r.starts {
		m := r.manager(s)
		if m == nil {
			continue
		}
		want := r.Options.ClusterName
		if want == "" {
			want = m.Flags["cluster-name"]
		}
		have := s.flags["cluster-name"]
		if want == "" {
			want = defaultClusterName
		}
		if have == "" {
			have = defaultClusterName
		}
		if want != have {
			return fmt.Errorf("step %s gives the cluster the name %q, it is %q", r.Steps[s.index].ID, have, want)
		}
	}
	return nil
}

func carriedOver(r *reading) error {
	for _, s := range r.starts {
		m := r.manager(s)
		if m == nil {
			continue
		}
		for _, c := range carried {
			value, ok := m.Flags[c.name]
			if ok && !c.ipam && c.name != "cluster-name" && r.knows(s, c.name) && s.flags[c.name] != value {
				return fmt.Errorf("step %s gives --%s=%q, %s has %q: %s", r.Steps[s.index].ID, c.name, s.flags[c.name], KCM, value, c.why)
			}
		}
	}
	return nil
}

func migrationOff(r *reading) error {
	for _, i := range r.external() {
		s := r.Steps[i]
		on := r.original(s, "enable-leader-migration") == "true"
		for _, o := range r.Steps[:i+1] {
			if e, ok := edit(o, "enable-leader-migration"); ok && o.Component == KCM && o.Host == s.Host {
				on = e.Op == "setFlag" && e.Value != "false"
			}
		}
		if on {
			return fmt.Errorf("step %s leaves leader migration on", s.ID)
		}
	}
	return nil
}

// knows tells that the manager that a step starts takes a flag.
func (r *reading) knows(s startStep, flag string) bool {
	p, err := programOf(s.flags["cloud-provider"], r.Options.Image)
	return err != nil || p.knows(flag)
}

// kubeletFlags are those that a migration may change.
var kubeletFlags = []string{"cloud-provider", flagCloudConfig, gatesFlag, flagCredentialConfig, flagCredentialDir}

func kubeletIdentity(r *reading) error {
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		for _, e := range s.Edits {
			if gate := e.Op == opSetGate || e.Op == opUnsetGate; gate && managedGate(e.Name) {
				continue
			}
			if !slices.Contains(kubeletFlags, e.Name) && e.Name != flagHostname {
				return fmt.Errorf("step %s changes --%s", s.ID, e.Name)
			}
		}
		if err := r.keepsName(s); err != nil {
			return err
		}
	}
	return nil
}

// keepsName tells that the kubelet of a step comes back under the name of its Node.
func (r *reading) keepsName(s v1.Step) error {
	e, told := edit(s, flagHostname)
	h := r.host(s.Host)
	switch {
	case told && e.Op != "setFlag":
		return fmt.Errorf("step %s takes --%s away", s.ID, flagHostname)
	case h == nil || h.NodeName == "":
		return nil
	case told && e.Value != h.NodeName:
		return fmt.Errorf("step %s gives --%s=%s to the kubelet of node %s", s.ID, flagHostname, e.Value, h.NodeName)
	case told:
		return nil
	}
	b := builder{snap: r.snap}
	if name := keptName(*h, b.node(h.NodeName), r.original(s, flagHostname)); name != h.NodeName {
		return fmt.Errorf("the kubelet of step %s registers as %q, and its node is %s", s.ID, name, h.NodeName)
	}
	return nil
}

func labelsPlugin(r *reading) error {
	if r.snap == nil || len(r.external()) == 0 {
		return nil
	}
	for _, h := range r.snap.Hosts {
		api := component(h, KAS)
		if api == nil || h.APIOnly || component(h, KCM) == nil {
			continue
		}
		value := api.Flags["enable-admission-plugins"]
		for _, s := range r.Steps {
			if e, ok := edit(s, "enable-admission-plugins"); ok && s.Host == h.Name && s.Component == KAS {
				value = e.Value
			}
		}
		if mentions(value, pvLabels) {
			return fmt.Errorf("%s on host %s keeps it", KAS, h.Name)
		}
	}
	return nil
}

func ownDialect(r *reading) error {
	return r.migrationConfigs(func(s v1.Step, comp controllernames.Component, all []string) error {
		n, ok := 0, false
		if comp == controllernames.KubeControllerManager {
			n, ok = r.minorOf(v1.Step{Host: s.Host, Component: KCM})
		} else if p, err := programOf(r.providerName(), r.Options.Image); err == nil {
			n, ok = p.minor, true
		}
		for _, name := range all {
			if why := controllernames.Explain(comp, n, name); ok && why != "" {
				return fmt.Errorf("%s 1.%d knows no %q: %s", comp, n, name, why)
			}
		}
		return nil
	})
}

func kubeadmAgrees(r *reading) error {
	if r.snap == nil || r.snap.Kubeadm == nil || r.snap.Kubeadm.Error != "" || len(r.external()) == 0 || hosted(r.snap, KCM) != nil {
		return nil
	}
	final := r.lastEdits(func(s v1.Step) bool { return s.Kind == v1.StepEditManifest || s.Kind == v1.StepRestoreManifest })
	told := r.lastEdits(func(s v1.Step) bool { return s.Kind == v1.StepPatchObject && s.Derive == DeriveKubeadm })
	for _, comp := range kubeadmComponents {
		args := r.snap.Kubeadm.ExtraArgs[kubeadmSections[comp]]
		for flag, e := range final[comp] {
			value, has := args[flag]
			if !has || e.Op == "setFlag" && e.Value == value {
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
func (r *reading) lastEdits(match func(v1.Step) bool) map[string]map[string]v1.Edit {
	out := map[string]map[string]v1.Edit{}
	for _, i := range r.which(match) {
		s := r.Steps[i]
		if out[s.Component] == nil {
			out[s.Component] = map[string]v1.Edit{}
		}
		for _, e := range s.Edits {
			if e.Op == "setFlag" || e.Op == "unsetFlag" { // a volume may be called as a flag is
				out[s.Component][e.Name] = e
			}
		}
	}
	return out
}

func supportedOnly(r *reading) error {
	_, err := supported(r.providerName())
	return err
}

func startsAgain(r *reading) error {
	now := map[string]map[string]string{} // host/component -> flag -> value
	for _, s := range r.Steps {
		n, ok := r.minorOf(s)
		if !ok || !changesFlags(s) && s.Kind != v1.StepKubelet {
			continue
		}
		key := s.Host + "/" + s.Component
		if now[key] == nil {
			now[key] = map[string]string{"cloud-provider": r.original(s, "cloud-provider"), gatesFlag: r.original(s, gatesFlag)}
		}
		for _, e := range s.Edits {
			if e.Op == "setFlag" || e.Op == "unsetFlag" {
				now[key][e.Name] = e.Value
			}
		}
		value := now[key]["cloud-provider"]
		accepted := catalogue.Accepts(s.Component, value, n)
		if s.Component != Scheduler && !accepted.Starts {
			return fmt.Errorf("step %s: %s", s.ID, accepted.Why)
		}
		for _, g := range accepted.Gates {
			if gateValue(now[key][gatesFlag], s.Component, g.Gate, n) != g.Value {
				return fmt.Errorf("after step %s %s of 1.%d has --cloud-provider=%q and the gate %s=%v", s.ID, s.Component, n, value, g.Gate, !g.Value)
			}
		}
	}
	return nil
}
