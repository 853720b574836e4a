package allowed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
)

// A flag whose value is a list belongs to the cluster's owner, except for the items that a migration changes. Every
// account that may write the journal can write its plan. So a new value is compared with the one that the component
// has, and only those items may differ.

// CheckCommand returns why a step must not edit a component that is started with a command; nil when it changes only
// what a migration changes. The engine asks right before it writes.
func CheckCommand(p *v1.Plan, s v1.Step, command []string) error {
	flags := commandline.FlagsOf(command)
	flags[flagvalue.FlagFeatureGates] = flagvalue.MergeGates(command, flags[flagvalue.FlagFeatureGates])
	return CheckFlags(p, s, flags)
}

// CheckFlags is AllowedOn for flags. It takes several sets where a component has more than one place for them. One of
// these has to be the value that the edits begin with.
func CheckFlags(p *v1.Plan, s v1.Step, bases ...map[string]string) error {
	return changes(Judge{Options: p.Options, cluster: p.Cluster}, s, true, bases)
}

// changes returns why the edits of a step change more of its component than a migration does. isNow says that the
// flags are those right before the step; else later steps of the plan may have changed them already.
func changes(j Judge, s v1.Step, isNow bool, bases []map[string]string) error {
	for _, e := range s.Edits {
		if e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
			continue
		}
		value := e.Value
		if e.Op == v1.EditUnsetFlag {
			value = ""
		}
		var errs []error
		for _, base := range bases {
			err := change(j, s, e.Name, base, value, isNow)
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
func change(j Judge, s v1.Step, flag string, base map[string]string, value string, isNow bool) error {
	switch flag {
	case flagvalue.FlagFeatureGates:
		return gatesChange(j, s, flagvalue.ParseGates(base[flag]), flagvalue.ParseGates(value), isNow)
	case flagvalue.FlagEnablePlugins, flagvalue.FlagDisablePlugins:
		return pluginsChange(j, s, flag, flagvalue.SplitList(base[flag]), flagvalue.SplitList(value), isNow)
	case flagvalue.FlagControllers:
		return controllersChange(j, base, value, isNow)
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
func (j Judge) changesVersion(s v1.Step) bool {
	return draft.UpgradeOf(j.Options).IsWanted() && targetHolds(j) == nil &&
		(planstep.ChangesImage(s) || s.Ref == layout.KubeadmConfigRef)
}

func gatesChange(j Judge, s v1.Step, had, has flagvalue.Gates, isNow bool) error {
	for _, name := range slices.Sorted(maps.Keys(withGates(had, has))) {
		was, before := had[name]
		is, after := has[name]
		if before == after && was == is || mayChangeGate(j, s, name, is, after, isNow) {
			continue
		}
		// The version that comes may not take the gate. Later in a plan it is gone, and the snapshot has it no longer.
		if ends := isDroppedGate(j, s.Component, name, was); before && !after && ends && j.changesVersion(s) ||
			!isNow && before != after && isDroppedGate(j, s.Component, name, was || is) && targetHolds(j) == nil {
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

func withGates(a, b flagvalue.Gates) flagvalue.Gates {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// mayChangeGate reports whether a migration gives a gate that state: in-tree code is never switched on, CSI never off.
func mayChangeGate(j Judge, s v1.Step, name string, on, said, isNow bool) bool {
	switch {
	case !j.isInTreeGate(name):
		return false
	case !isNow:
		return true
	case name == catalogue.DisableCloudProviders, name == catalogue.DisableKubeletCloudCredentialProviders:
		return !said || on && j.Options.DisableInTree
	case name == flagvalue.GateLeaderMigration:
		return !said || on
	}
	return said && on || !said && j.changesVersion(s) && isDroppedGate(j, s.Component, name, true)
}

// isDroppedGate reports whether the target version no longer takes a gate with a value, and the version before it did.
func isDroppedGate(j Judge, component, name string, on bool) bool {
	up := draft.UpgradeOf(j.Options)
	if !up.IsWanted() {
		return false
	}
	is, was := catalogue.GateFor(component, name, up.Minor), catalogue.GateFor(component, name, up.Minor-1)
	return is.Known && is.Locked && is.Default != on || !is.Known && was.Known
}

func pluginsChange(j Judge, s v1.Step, flag string, had, has []string, isNow bool) error {
	for _, name := range had {
		if slices.Contains(has, name) || flag == flagvalue.FlagEnablePlugins && name == flagvalue.PluginPVLabels ||
			isDroppedPlugin(j, flag, name) && j.changesVersion(s) {
			continue
		}
		return fmt.Errorf("the admission plugin %s would be removed, and no migration does that", name)
	}
	for _, name := range has {
		// Where the snapshot is of later, what ended with the new version is gone from it.
		gone := !isNow &&
			(flag == flagvalue.FlagEnablePlugins && name == flagvalue.PluginPVLabels ||
				isDroppedPlugin(j, flag, name) && targetHolds(j) == nil)
		if !slices.Contains(had, name) && !gone {
			return fmt.Errorf("the admission plugin %s would be put in, and no migration does that", name)
		}
	}
	return nil
}

// isDroppedPlugin reports whether an admission plugin may leave a list because the target version has it no longer.
func isDroppedPlugin(j Judge, flag, name string) bool {
	up := draft.UpgradeOf(j.Options)
	refused, ended := catalogue.AdmissionPluginEnds(name, up.Minor)
	return up.IsWanted() && ended && (refused == "" || flag == flagvalue.FlagDisablePlugins)
}

// controllersChange lets the cloud loops leave a --controllers list, and node IPAM where that moves. Nothing else
// begins or ends.
func controllersChange(j Judge, base map[string]string, value string, isNow bool) error {
	before := base[flagvalue.FlagControllers]
	if rest := othersOf(before); !slices.Equal(rest, othersOf(value)) {
		return fmt.Errorf(
			"next to cloud loops it would say %s, and it says %s",
			strings.Join(othersOf(value), ","),
			strings.Join(rest, ","),
		)
	}
	for _, loop := range changing {
		was, is := flagvalue.IsLoopDisabled(before, loop), flagvalue.IsLoopDisabled(value, loop)
		if was == is || !isNow {
			continue
		}
		if !is {
			return fmt.Errorf("the loop %s would begin again", loop)
		}
		if loop == clusterview.NodeIPAM && j.Options.NodeIPAM != v1.IPAMMove &&
			base["cidr-allocator-type"] != component.CloudAllocator {
			return fmt.Errorf("the loop %s would end, and it does not move", loop)
		}
	}
	return nil
}

// changing are the loops that a migration removes from a --controllers list.
var changing = append(slices.Clone(clusterview.CloudLoops), clusterview.NodeIPAM)

// othersOf are the items of a --controllers list that are not about such a loop.
func othersOf(list string) []string {
	all := flagvalue.SplitList(list)
	if len(all) == 0 {
		all = []string{"*"}
	}
	return slices.DeleteFunc(all, isChanging)
}

func isChanging(item string) bool {
	loop, _, ok := controllernames.Lookup(strings.TrimPrefix(item, "-"))
	return ok && slices.Contains(changing, loop)
}

// RestoreValue returns the value that a flag gets when a step is taken back. It is the one from before the step. Where
// its owner has changed the list since, it is the live list with the items of the migration as they were.
func RestoreValue(p *v1.Plan, s v1.Step, flag, now, was string) string {
	j := Judge{Options: p.Options, cluster: p.Cluster}
	if change(j, s, flag, map[string]string{flag: now}, was, false) == nil {
		return was
	}
	switch flag {
	case flagvalue.FlagFeatureGates:
		return mergeItems(now, was, func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return j.isInTreeGate(strings.TrimSpace(name))
		})
	case flagvalue.FlagEnablePlugins, flagvalue.FlagDisablePlugins:
		return mergeItems(
			now,
			was,
			func(item string) bool { return flag == flagvalue.FlagEnablePlugins && item == flagvalue.PluginPVLabels },
		)
	case flagvalue.FlagControllers:
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
	out := slices.DeleteFunc(flagvalue.SplitList(now), isOurs)
	for _, item := range flagvalue.SplitList(was) {
		if isOurs(item) {
			out = append(out, item)
		}
	}
	return strings.Join(out, ",")
}

// CheckRestored returns why a step must not be taken back by a command line in place of the one that runs. Apart from
// what the step itself has changed, the two have to be the same.
func CheckRestored(p *v1.Plan, s v1.Step, now, back []string) error {
	j := Judge{Options: p.Options, cluster: p.Cluster}
	live, was := commandline.FlagsOf(now), commandline.FlagsOf(back)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(flagvalue.MergeFlags(live, was))) {
		before, there := live[name]
		after, kept := was[name]
		if there == kept && before == after {
			continue
		}
		if _, edited := planstep.LastEdit(s, name); !edited {
			errs = append(errs, fmt.Errorf("--%s of %s would change, which step %s has not changed", name, s.Component, s.ID))
			continue
		}
		if err := change(j, s, name, live, after, false); err != nil {
			errs = append(errs, fmt.Errorf("--%s of %s: %w", name, s.Component, err))
		}
	}
	return errors.Join(errs...)
}

// targetHolds returns what is wrong with the target version of the options. It has to be one that is known here. Where
// the cluster is in view, it has to be that of its API servers or the next minor. The version says which flags, gates
// and plugins go.
func targetHolds(j Judge) error {
	up := draft.UpgradeOf(j.Options)
	if !up.IsWanted() {
		return nil
	}
	if up.Minor <= component.Oldest || up.Minor > component.Newest {
		return fmt.Errorf(
			"target version %s is none to which this program upgrades (1.%d to 1.%d)",
			up.Version,
			component.Oldest+1,
			component.Newest,
		)
	}
	if j.Live == nil {
		return nil
	}
	if n, err := clusterview.ParseMinor("", j.Live.Cluster.Version); err == nil && n != up.Minor && n != up.Minor-1 {
		return fmt.Errorf(
			"target version %s is neither that of the API servers (%s) nor one minor above it",
			up.Version,
			j.Live.Cluster.Version,
		)
	}
	return nil
}

// onLive compares a step's edits with what the cluster in view has; without one there is nothing to compare with.
func onLive(j Judge, s v1.Step) error {
	if err := targetHolds(j); err != nil {
		return err
	}
	if j.Live == nil || len(s.Edits) == 0 {
		return nil
	}
	if err := onHost(j, s); err != nil {
		return err
	}
	if bases := FlagBases(s, j.Live); len(bases) > 0 {
		return changes(j, s, false, bases)
	}
	return nil
}

// onHost compares what a step changes on a host with what the host has: the name of its node, and the version of an
// image.
func onHost(j Judge, s v1.Step) error {
	h := j.host(s.Host)
	if h == nil {
		return nil
	}
	for _, e := range s.Edits {
		c := clusterview.FindComponent(*h, s.Component)
		switch {
		case e.Op == v1.EditSetFlag && e.Name == flagvalue.FlagHostname && h.NodeName != "" && e.Value != h.NodeName:
			return fmt.Errorf("--%s=%s is not the name of node %s", flagvalue.FlagHostname, e.Value, h.NodeName)
		case e.Op == v1.EditSetImage && c != nil && c.Error == "":
			_, tag, err := controlplane.SplitImage(c.Image)
			if err != nil {
				return fmt.Errorf("image %s of %s on host %s: %w", c.Image, s.Component, s.Host, err)
			}
			if why := upgrade.WhyUnreachable(draft.UpgradeOf(j.Options), tag); why != "" {
				return fmt.Errorf("%s on host %s %s", s.Component, s.Host, why)
			}
		}
	}
	return nil
}

// FlagBases are the flags with which the component of a step is started now, wherever the cluster in view says that.
// None means that it does not say it, as of a host that was not looked at.
func FlagBases(s v1.Step, live *v1.Snapshot) []map[string]string {
	if live == nil {
		return nil
	}
	var out []map[string]string
	ofKubeadm := s.Ref == layout.KubeadmConfigRef
	if k := live.Kubeadm; ofKubeadm && k != nil && k.Error == "" {
		out = append(out, flagvalue.MergeFlags(nil, k.ExtraArgs[kubeadm.Sections[s.Component]]))
	}
	for i := range live.Hosts {
		h := &live.Hosts[i]
		switch {
		case !ofKubeadm && (h.Name != s.Host || s.Host == ""):
		case s.Component == component.Kubelet:
			out = append(out, kubeletBases(h.Kubelet)...)
		default:
			out = append(out, componentBases(clusterview.FindComponent(*h, s.Component))...)
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
	flags := flagvalue.MergeFlags(nil, c.Flags)
	flags[flagvalue.FlagFeatureGates] = flagvalue.MergeGates(c.Command, flags[flagvalue.FlagFeatureGates])
	return []map[string]string{flags}
}

// kubeletBases are the flags of a kubelet as its files have them and as its process has them.
func kubeletBases(k *v1.Kubelet) []map[string]string {
	if k == nil || k.Error != "" {
		return nil
	}
	out := []map[string]string{flagvalue.MergeFlags(nil, k.Flags)}
	if k.Process != nil {
		flags := commandline.FlagsOf(k.Process.Args)
		flags[flagvalue.FlagFeatureGates] = flagvalue.MergeGates(k.Process.Args, flags[flagvalue.FlagFeatureGates])
		out = append(out, flags)
	}
	return out
}
