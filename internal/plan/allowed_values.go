package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// Flags of the API server that name admission plugins.
const (
	flagEnablePlugins  = "enable-admission-plugins"
	flagDisablePlugins = "disable-admission-plugins"
	flagControllers    = "controllers"
)

// A flag whose value is a list belongs to the cluster's owner, except for the items that a migration changes. The plan
// of a journal is written by whoever may write the journal. So a new value is compared with the one that the component
// has, and only those items may differ.

// AllowedOn returns why a step must not edit a component that is started with a command; nil when it changes only what
// a migration changes. The engine asks right before it writes.
func AllowedOn(p *v1.Plan, s v1.Step, command []string) error {
	flags := controlplane.FlagsOf(command)
	flags[gatesFlag] = allGates(command, flags[gatesFlag])
	return AllowedOnFlags(p, s, flags)
}

// AllowedOnFlags is AllowedOn for flags. It takes several sets where a component has more than one place for them: one
// of these has to be the value that the edits begin with.
func AllowedOnFlags(p *v1.Plan, s v1.Step, bases ...map[string]string) error {
	return judge{options: p.Options, cluster: p.Cluster}.changes(s, true, bases)
}

// changes returns why the edits of a step change more of its component than a migration does. isNow says that the
// flags are those right before the step; else later steps of the plan may have changed them already.
func (j judge) changes(s v1.Step, isNow bool, bases []map[string]string) error {
	for _, e := range s.Edits {
		if e.Op != "setFlag" && e.Op != "unsetFlag" {
			continue
		}
		value := e.Value
		if e.Op == "unsetFlag" {
			value = ""
		}
		var errs []error
		for _, base := range bases {
			err := j.change(s, e.Name, base, value, isNow)
			if err == nil {
				errs = nil
				break
			}
			errs = append(errs, err)
		}
		if len(errs) > 0 {
			return fmt.Errorf("%s of --%s of %s: %w", e.Op, e.Name, s.Component, errs[0])
		}
	}
	return nil
}

// change returns why a flag must not get a value in place of what the flags have now.
func (j judge) change(s v1.Step, flag string, base map[string]string, value string, isNow bool) error {
	switch flag {
	case gatesFlag:
		return j.gatesChange(s, readGates(base[flag]), readGates(value), isNow)
	case flagEnablePlugins, flagDisablePlugins:
		return j.pluginsChange(s, flag, items(base[flag]), items(value), isNow)
	case flagControllers:
		return j.controllersChange(base, value, isNow)
	}
	if value != "" && value != base[flag] && editable[s.Component][flag] == nil {
		for _, was := range j.replaced(s.Component, flag) {
			if base[was] == value {
				return nil
			}
		}
		return fmt.Errorf("%s is not what the flag says that it takes the place of", value)
	}
	return nil
}

// changesVersion reports whether a step gives its component the target version, or tells kubeadm how that one starts.
func (j judge) changesVersion(s v1.Step) bool {
	return ofOptions(j.options).wanted() && j.targetHolds() == nil && (changesImage(s) || s.Ref == kubeadmRef)
}

func (j judge) gatesChange(s v1.Step, had, has gateSet, isNow bool) error {
	for _, name := range slices.Sorted(maps.Keys(withGates(had, has))) {
		was, before := had[name]
		is, after := has[name]
		if before == after && was == is || j.mayChangeGate(s, name, is, after, isNow) {
			continue
		}
		// The version that comes may not take the gate. Later in a plan it is gone, and the snapshot has it no longer.
		if ends := j.gateEnds(s.Component, name, was); before && !after && ends && j.changesVersion(s) ||
			!isNow && before != after && j.gateEnds(s.Component, name, was || is) && j.targetHolds() == nil {
			continue
		}
		return fmt.Errorf("the feature gate %s would change from %s to %s, and no migration of %s changes it so", name,
			gateText(was, before), gateText(is, after), j.provider())
	}
	return nil
}

func gateText(on, said bool) string {
	if !said {
		return "its default"
	}
	return fmt.Sprint(on)
}

func withGates(a, b gateSet) gateSet {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// mayChangeGate reports whether a migration gives a gate that state: in-tree code is never switched on, CSI never off.
func (j judge) mayChangeGate(s v1.Step, name string, on, said, isNow bool) bool {
	switch {
	case !j.gate(name):
		return false
	case !isNow:
		return true
	case name == gateNoProviders, name == gateNoCredentials:
		return !said
	case name == gateLeaderMigration:
		return !said || on
	}
	return said && on || !said && j.changesVersion(s) && j.gateEnds(s.Component, name, true)
}

// gateEnds reports whether the target version no longer takes a gate with a value, and the version before it did.
func (j judge) gateEnds(component, name string, on bool) bool {
	up := ofOptions(j.options)
	if !up.wanted() {
		return false
	}
	is, was := catalogue.GateFor(component, name, up.minor), catalogue.GateFor(component, name, up.minor-1)
	return is.Known && is.Locked && is.Default != on || !is.Known && was.Known
}

func (j judge) pluginsChange(s v1.Step, flag string, had, has []string, isNow bool) error {
	for _, name := range had {
		if slices.Contains(has, name) || flag == flagEnablePlugins && name == pvLabels || j.pluginEnds(flag, name) && j.changesVersion(s) {
			continue
		}
		return fmt.Errorf("the admission plugin %s would be taken out, and no migration does that", name)
	}
	for _, name := range has {
		// Where the snapshot is of later, what ended with the new version is gone from it.
		gone := !isNow && (flag == flagEnablePlugins && name == pvLabels || j.pluginEnds(flag, name) && j.targetHolds() == nil)
		if !slices.Contains(had, name) && !gone {
			return fmt.Errorf("the admission plugin %s would be put in, and no migration does that", name)
		}
	}
	return nil
}

// pluginEnds reports whether an admission plugin may leave a list because the target version has it no longer.
func (j judge) pluginEnds(flag, name string) bool {
	up := ofOptions(j.options)
	refused, ended := catalogue.AdmissionPluginEnds(name, up.minor)
	return up.wanted() && ended && (refused == "" || flag == flagDisablePlugins)
}

// controllersChange lets the cloud loops leave a --controllers list, and node IPAM where that moves. Nothing else
// begins or ends.
func (j judge) controllersChange(base map[string]string, value string, isNow bool) error {
	before := base[flagControllers]
	if rest := othersOf(before); !slices.Equal(rest, othersOf(value)) {
		return fmt.Errorf("beside cloud loops it would say %s, and it says %s", strings.Join(othersOf(value), ","), strings.Join(rest, ","))
	}
	for _, loop := range changing {
		was, is := disabled(before, loop), disabled(value, loop)
		if was == is || !isNow {
			continue
		}
		if !is {
			return fmt.Errorf("the loop %s would begin again", loop)
		}
		if loop == loopIPAM && j.options.NodeIPAM != v1.IPAMMove && base["cidr-allocator-type"] != cloudAllocator {
			return fmt.Errorf("the loop %s would end, and it does not move", loop)
		}
	}
	return nil
}

// changing are the loops that a migration takes out of a --controllers list.
var changing = append(slices.Clone(movedLoops), loopIPAM)

// othersOf are the items of a --controllers list that are not about such a loop.
func othersOf(list string) []string {
	all := items(list)
	if len(all) == 0 {
		all = []string{"*"}
	}
	return slices.DeleteFunc(all, isChanging)
}

func isChanging(item string) bool {
	loop, _, ok := controllernames.Lookup(strings.TrimPrefix(item, "-"))
	return ok && slices.Contains(changing, loop)
}

// PutBack returns the value that a flag gets when a step is taken back: the one from before the step, or, where its
// owner has changed the list since, the live list with the items of the migration as they were.
func PutBack(p *v1.Plan, s v1.Step, flag, now, was string) string {
	j := judge{options: p.Options, cluster: p.Cluster}
	if j.change(s, flag, map[string]string{flag: now}, was, false) == nil {
		return was
	}
	switch flag {
	case gatesFlag:
		return mergeItems(now, was, func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return j.gate(strings.TrimSpace(name))
		})
	case flagEnablePlugins, flagDisablePlugins:
		return mergeItems(now, was, func(item string) bool { return flag == flagEnablePlugins && item == pvLabels })
	case flagControllers:
		if was == "" {
			was = "*"
		}
		if now == "" {
			now = "*"
		}
		return mergeItems(now, was, isChanging)
	}
	return was
}

// mergeItems returns a list without the items that are ours, and with those of another one.
func mergeItems(now, was string, isOurs func(item string) bool) string {
	out := slices.DeleteFunc(items(now), isOurs)
	for _, item := range items(was) {
		if isOurs(item) {
			out = append(out, item)
		}
	}
	return strings.Join(out, ",")
}

// AllowedBack returns why a step must not be taken back by a command line in place of the one that runs: beside what
// the step itself has changed the two are the same.
func AllowedBack(p *v1.Plan, s v1.Step, now, back []string) error {
	j := judge{options: p.Options, cluster: p.Cluster}
	live, was := controlplane.FlagsOf(now), controlplane.FlagsOf(back)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(withFlags(live, was))) {
		before, there := live[name]
		after, kept := was[name]
		if there == kept && before == after {
			continue
		}
		if _, edited := edit(s, name); !edited {
			errs = append(errs, fmt.Errorf("--%s of %s would change, which step %s has not changed", name, s.Component, s.ID))
			continue
		}
		if err := j.change(s, name, live, after, false); err != nil {
			errs = append(errs, fmt.Errorf("--%s of %s: %w", name, s.Component, err))
		}
	}
	return errors.Join(errs...)
}

// targetHolds returns what is wrong with the target version of the options: it is one that is known here, and where the
// cluster is in view it is that of its API servers or the next minor. It says which flags, gates and plugins go.
func (j judge) targetHolds() error {
	up := ofOptions(j.options)
	if !up.wanted() {
		return nil
	}
	if up.minor <= catalogue.Oldest || up.minor > catalogue.Newest {
		return fmt.Errorf("target version %s is none to which this program upgrades (1.%d to 1.%d)", up.version, catalogue.Oldest+1, catalogue.Newest)
	}
	if j.live == nil {
		return nil
	}
	if n, err := minor("", j.live.Cluster.Version); err == nil && n != up.minor && n != up.minor-1 {
		return fmt.Errorf("target version %s is neither that of the API servers (%s) nor one minor above it", up.version, j.live.Cluster.Version)
	}
	return nil
}

// onLive compares a step's edits with what the cluster in view has; without one there is nothing to compare with.
func (j judge) onLive(s v1.Step) error {
	if err := j.targetHolds(); err != nil {
		return err
	}
	if j.live == nil || len(s.Edits) == 0 {
		return nil
	}
	if err := j.onHost(s); err != nil {
		return err
	}
	if bases := Bases(s, j.live); len(bases) > 0 {
		return j.changes(s, false, bases)
	}
	return nil
}

// onHost compares what a step changes on a host with what the host has: the name of its node, and the version of an image.
func (j judge) onHost(s v1.Step) error {
	h := j.host(s.Host)
	if h == nil {
		return nil
	}
	for _, e := range s.Edits {
		c := component(*h, s.Component)
		switch {
		case e.Op == "setFlag" && e.Name == flagHostname && h.NodeName != "" && e.Value != h.NodeName:
			return fmt.Errorf("--%s=%s is not the name of node %s", flagHostname, e.Value, h.NodeName)
		case e.Op == opImage && c != nil && c.Error == "":
			_, tag, err := controlplane.SplitImage(c.Image)
			if err != nil {
				return fmt.Errorf("image %s of %s on host %s: %w", c.Image, s.Component, s.Host, err)
			}
			if why := ofOptions(j.options).unreachable(tag); why != "" {
				return fmt.Errorf("%s on host %s %s", s.Component, s.Host, why)
			}
		}
	}
	return nil
}

// Bases are the flags with which the component of a step is started now, wherever the cluster in view says that. None
// means that it does not say it, as of a host that was not looked at.
func Bases(s v1.Step, live *v1.Snapshot) []map[string]string {
	if live == nil {
		return nil
	}
	var out []map[string]string
	ofKubeadm := s.Ref == kubeadmRef
	if k := live.Kubeadm; ofKubeadm && k != nil && k.Error == "" {
		out = append(out, withFlags(nil, k.ExtraArgs[kubeadmSections[s.Component]]))
	}
	for i := range live.Hosts {
		h := &live.Hosts[i]
		switch {
		case !ofKubeadm && (h.Name != s.Host || s.Host == ""):
		case s.Component == kubeletName:
			out = append(out, kubeletBases(h.Kubelet)...)
		default:
			out = append(out, componentBases(component(*h, s.Component))...)
		}
	}
	for i := range live.Hosted {
		if c := &live.Hosted[i]; s.Ref != "" && c.Manifest == s.Ref && c.Name == s.Component {
			out = append(out, componentBases(c)...)
		}
	}
	return out
}

// componentBases are the flags of a component.
func componentBases(c *v1.Component) []map[string]string {
	if c == nil || c.Error != "" {
		return nil
	}
	flags := withFlags(nil, c.Flags)
	flags[gatesFlag] = allGates(c.Command, flags[gatesFlag])
	return []map[string]string{flags}
}

// kubeletBases are the flags of a kubelet as its files have them and as its process has them.
func kubeletBases(k *v1.Kubelet) []map[string]string {
	if k == nil || k.Error != "" {
		return nil
	}
	out := []map[string]string{withFlags(nil, k.Flags)}
	if k.Process != nil {
		flags := controlplane.FlagsOf(k.Process.Args)
		flags[gatesFlag] = allGates(k.Process.Args, flags[gatesFlag])
		out = append(out, flags)
	}
	return out
}
