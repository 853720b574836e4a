// Package volume decides what becomes of the in-tree volume plugins, and in which order components leave their
// volumes to CSI.
package volume

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Describe says what becomes of the volumes.
func Describe(d *draft.Draft) string {
	if len(d.Volumes.Plugins) == 0 {
		return ""
	}
	names := make([]string, len(d.Volumes.Plugins))
	for i, p := range d.Volumes.Plugins {
		names[i] = p.Name
	}
	left := unmigratedNodes(d)
	switch {
	case !d.Volumes.CSI && d.Volumes.Unknown:
		return fmt.Sprintf(
			"volumes: which there are of %s is not known, so %s keeps the plugin with --%s and its --cloud-config",
			strings.Join(names, ", "),
			component.KCM,
			flagvalue.FlagVolumePlugin,
		)
	case !d.Volumes.CSI:
		return fmt.Sprintf(
			"volumes: those of %s stay in-tree; %s keeps the provider for them with --%s and its --cloud-config, which ends with Kubernetes 1.%d; install the CSI driver and plan with --volumes=%s before that",
			strings.Join(names, ", "),
			component.KCM,
			flagvalue.FlagVolumePlugin,
			d.Provider.LastInTree+1,
			v1.VolumesCSI,
		)
	case len(left) > 0:
		return fmt.Sprintf(
			"volumes: those of %s go to CSI node by node; %s keeps the plugin, because the kubelets of %s are not changed by this plan",
			strings.Join(names, ", "),
			component.KCM,
			english.FirstOf(5, left),
		)
	}
	return fmt.Sprintf(
		"volumes: those of %s go to CSI node by node, none is copied or recreated; the in-tree plugin stays until the last kubelet is done",
		strings.Join(names, ", "),
	)
}

// Choose decides by what is in use and which drivers are installed on every node.
func Choose(d *draft.Draft) []error {
	v := draft.Volumes{Unknown: d.Snapshot.Volumes == nil}
	var missing []string
	for _, p := range d.Provider.Plugins {
		if isMigrated(d, p) || !(v.Unknown || isInUse(d, p)) {
			continue
		}
		v.Plugins = append(v.Plugins, p)
		if why := whyDriverMissing(d, p); why != "" {
			missing = append(missing, why)
		}
	}
	d.Volumes = v
	if len(v.Plugins) == 0 {
		return nil
	}
	switch d.Options.Volumes {
	case v1.VolumesCSI:
		if len(missing) > 0 {
			return []error{
				fmt.Errorf(
					"volumes cannot be left to CSI: %s; install it first, or plan with --volumes=%s",
					strings.Join(missing, "; "),
					v1.VolumesInTree,
				),
			}
		}
		d.Volumes.CSI = true
	case "":
		d.Volumes.CSI = len(missing) == 0
	}
	return checkVolumeFlag(d)
}

// checkVolumeFlag refuses what could not attach a volume in between.
func checkVolumeFlag(d *draft.Draft) []error {
	if f, held := catalogue.FlagAt(component.KCM, flagvalue.FlagVolumePlugin, d.KCMMinor); held && !f.Known {
		return []error{
			fmt.Errorf(
				"%s of 1.%d has no --%s, and nothing else would attach volumes of %s while kubelets change: leave them to CSI first",
				component.KCM,
				d.KCMMinor,
				flagvalue.FlagVolumePlugin,
				d.Provider.Plugins[0].Name,
			),
		}
	}
	return nil
}

// isMigrated reports whether every component leaves the volumes of a plugin to CSI already.
func isMigrated(d *draft.Draft, p cloudprovider.VolumePlugin) bool {
	for _, h := range d.Hosts {
		for _, name := range []string{component.KCM, component.Scheduler} {
			c := clusterview.FindComponent(h, name)
			if c == nil {
				continue
			}
			if n, err := d.MinorOf(
				c,
			); err == nil &&
				!flagvalue.IsGateOn(d.FlagsAfter(h, name)[flagvalue.FlagFeatureGates], name, p.MigrationGate, n) {
				return false
			}
		}
	}
	for _, h := range d.Snapshot.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" && !IsKubeletMigrated(d, h, p) {
			return false
		}
	}
	return true
}

// IsKubeletMigrated reports whether a kubelet leaves the volumes of a plugin to CSI.
func IsKubeletMigrated(d *draft.Draft, h v1.Host, p cloudprovider.VolumePlugin) bool {
	flags := h.Kubelet.Flags[flagvalue.FlagFeatureGates]
	if _, said := flagvalue.ParseGates(flags)[p.MigrationGate]; !said && h.Kubelet.Config != nil {
		if on, said := h.Kubelet.Config.FeatureGates[p.MigrationGate]; said {
			return on
		}
	}
	return flagvalue.IsGateOn(flags, component.Kubelet, p.MigrationGate, d.KubeletMinor(h))
}

// isInUse reports whether some volume, class or node speaks of the plugin.
func isInUse(d *draft.Draft, p cloudprovider.VolumePlugin) bool {
	for _, pv := range d.Snapshot.Volumes.PersistentVolumes {
		if pv.Plugin == p.Name {
			return true
		}
	}
	for _, c := range d.Snapshot.Volumes.StorageClasses {
		if c.Provisioner == p.Name {
			return true
		}
	}
	for _, n := range d.Snapshot.Nodes {
		if clusterview.HasMountedVolumes(n, p) {
			return true
		}
	}
	return false
}

// whyDriverMissing says in a clause what keeps the CSI driver of a plugin from taking over on every node.
func whyDriverMissing(b *draft.Draft, p cloudprovider.VolumePlugin) string {
	if b.Snapshot.Volumes == nil {
		return "whether CSI driver " + p.Driver + " is installed is not known"
	}
	installed := false
	for _, d := range b.Snapshot.Volumes.CSIDrivers {
		installed = installed || d == p.Driver
	}
	if !installed {
		return "CSI driver " + p.Driver + " of " + p.Name + " is not installed"
	}
	has := map[string]bool{}
	for _, n := range b.Snapshot.Volumes.CSINodes {
		for _, d := range n.Drivers {
			has[n.Name] = has[n.Name] || d.Name == p.Driver
		}
	}
	var lacking []string
	for _, n := range b.Snapshot.Nodes {
		if !has[n.Name] && n.OS != "windows" {
			lacking = append(lacking, n.Name)
		}
	}
	sort.Strings(lacking)
	if len(lacking) > 0 {
		return fmt.Sprintf("CSI driver %s runs on no kubelet of %s", p.Driver, english.FirstOf(5, lacking))
	}
	return ""
}

// CSIGates switches a component over to CSI.
func CSIGates(d *draft.Draft) []flagvalue.GateChange {
	if !d.Volumes.CSI {
		return nil
	}
	out := []flagvalue.GateChange{{Name: flagvalue.GateCSIMigration, To: flagvalue.GateOn}}
	for _, p := range d.Volumes.Plugins {
		out = append(out, flagvalue.GateChange{Name: p.MigrationGate, To: flagvalue.GateOn})
	}
	return out
}

// unregisterGates removes the in-tree plugins, once no kubelet mounts a volume with them. In 1.20 the gates were
// called otherwise.
func unregisterGates(d *draft.Draft) []flagvalue.GateChange {
	var out []flagvalue.GateChange
	for _, p := range d.Volumes.Plugins {
		gate := p.UnregisterGate
		if !catalogue.GateFor(component.KCM, gate, d.KCMMinor).Known && p.CompleteGate != "" {
			gate = p.CompleteGate
		}
		out = append(out, flagvalue.GateChange{Name: gate, To: flagvalue.GateOn})
	}
	return out
}

// SwitchSchedulers learn to count volumes of the plugin against the limits of the CSI driver before a kubelet leaves
// the first one to it.
func SwitchSchedulers(d *draft.Draft) {
	if !d.Volumes.CSI {
		return
	}
	for _, h := range d.Hosts {
		s := d.ComponentAfter(h, component.Scheduler)
		if s == nil || s.Error != "" {
			continue
		}
		n, err := d.MinorOf(s)
		if err != nil {
			continue
		}
		edits := flagvalue.EditGates(s.Flags[flagvalue.FlagFeatureGates], component.Scheduler, n, CSIGates(d))
		if len(edits) == 0 {
			continue
		}
		d.Add(d.EditComponent(h, s, v1.Step{
			ID:    "gates/" + component.Scheduler + "@" + h.Name,
			Phase: planstep.PhaseVolumes,
			Title: "let " + component.Scheduler + " on " + h.Name + " count volumes as CSI's",
			Why:   "the limits of a node are those of the driver that will attach to it (KEP-625: the control plane comes before the kubelets)",
			Group: planstep.PhaseVolumes + "@" + h.Name,
			Edits: edits,
		}))
	}
}

// DropPlugins removes the provider from the kube-controller-managers when no kubelet needs its volumes attached in-tree
// any longer.
func DropPlugins(d *draft.Draft) {
	if !d.Volumes.CSI || len(unmigratedNodes(d)) > 0 {
		return
	}
	for _, h := range d.Hosts {
		m := d.ComponentAfter(h, component.KCM)
		if _, kept := m.Flags[flagvalue.FlagVolumePlugin]; !kept {
			continue
		}
		n, err := d.MinorOf(m)
		if err != nil {
			continue
		}
		edits := []v1.Edit{{Op: v1.EditUnsetFlag, Name: flagvalue.FlagVolumePlugin}}
		if _, set := m.Flags[flagvalue.FlagCloudConfig]; set {
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagCloudConfig})
		}
		edits = append(
			edits,
			flagvalue.EditGates(
				m.Flags[flagvalue.FlagFeatureGates],
				component.KCM,
				n,
				append(
					unregisterGates(d),
					flagvalue.DropInTreeGates(
						m.Flags[flagvalue.FlagFeatureGates], d.Options.DisableInTree, catalogue.DisableCloudProviders,
					)...),
			)...)
		leases, successors := d.OtherManagers(component.KCM)
		d.Add(d.EditComponent(h, m, v1.Step{
			ID:         "volumes/" + component.KCM + "@" + h.Name,
			Phase:      planstep.PhaseVolumesDone,
			Title:      "remove the in-tree volume plugins from " + component.KCM + " on " + h.Name,
			Why:        "the last kubelet has left its volumes to CSI; nothing needs the provider here any longer",
			Leases:     leases,
			Successors: successors,
			Group:      planstep.PhaseVolumesDone + "@" + h.Name,
			Edits:      edits,
			Expect:     d.ExpectRunning(draft.OwnedBy(component.CCM)),
		}))
	}
}

// unmigratedNodes are the nodes whose kubelets no step makes leave volumes to CSI: their hosts are not in
// --host-access.
func unmigratedNodes(d *draft.Draft) []string {
	reached := map[string]bool{}
	for _, h := range d.Snapshot.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" {
			reached[h.NodeName] = true
		}
	}
	var out []string
	for _, n := range d.Snapshot.Nodes {
		if !reached[n.Name] && !isNodeMigrated(d, n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// isNodeMigrated reports whether a kubelet leaves every plugin of the plan to CSI, by its CSINode.
func isNodeMigrated(d *draft.Draft, n v1.Node) bool {
	if d.Snapshot.Volumes == nil {
		return false
	}
	for _, c := range d.Snapshot.Volumes.CSINodes {
		if c.Name != n.Name {
			continue
		}
		has := map[string]bool{}
		for _, p := range c.MigratedPlugins {
			has[p] = true
		}
		for _, p := range d.Volumes.Plugins {
			if !has[p.Name] {
				return false
			}
		}
		return true
	}
	return false
}
