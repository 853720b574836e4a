package plan

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// volumes is what happens to the in-tree volume plugins of the provider. KEP-625 wants an order: the attach-detach controller and the scheduler
// learn to leave a plugin's volumes to its CSI driver first, then each kubelet, drained, and when the last one has, the plugin may go. Until then
// the external kube-controller-manager attaches volumes of the plugin for the kubelets that have not changed, and needs the provider for that.
type volumes struct {
	// plugins in use whose volumes are not left to CSI yet; none means that nothing has to be done.
	plugins []catalogue.VolumePlugin
	// csi tells that they will be; else the in-tree plugins stay, behind --external-cloud-volume-plugin.
	csi bool
	// unknown tells that nobody looked which volumes there are.
	unknown bool
}

// keep tells that an external kube-controller-manager keeps the provider for its volume controllers.
func (v volumes) keep() bool { return len(v.plugins) > 0 }

const (
	flagVolumePlugin = "external-cloud-volume-plugin"
	flagCloudConfig  = "cloud-config"
)

// chooseVolumes decides by what is in use and which drivers are installed on every node.
func (b *builder) chooseVolumes() []error {
	v := volumes{unknown: b.snap.Volumes == nil}
	var missing []string
	for _, p := range b.provider.Plugins {
		if b.migrated(p) || !(v.unknown || b.inUse(p)) {
			continue
		}
		v.plugins = append(v.plugins, p)
		if why := b.driverMissing(p); why != "" {
			missing = append(missing, why)
		}
	}
	b.volumes = v
	if len(v.plugins) == 0 {
		return nil
	}
	switch b.opts.Volumes {
	case v1.VolumesCSI:
		if len(missing) > 0 {
			return []error{fmt.Errorf("volumes cannot be left to CSI: %s; install it first, or plan with --volumes=%s", strings.Join(missing, "; "), v1.VolumesInTree)}
		}
		b.volumes.csi = true
	case "":
		b.volumes.csi = len(missing) == 0
	}
	return b.volumeFlag()
}

// volumeFlag refuses what could not attach a volume in between.
func (b *builder) volumeFlag() []error {
	if f, held := catalogue.FlagAt(KCM, flagVolumePlugin, b.kcm); held && !f.Known {
		return []error{fmt.Errorf("%s of 1.%d has no --%s, and nothing else would attach volumes of %s while kubelets change: leave them to CSI first",
			KCM, b.kcm, flagVolumePlugin, b.provider.Plugins[0].Name)}
	}
	return nil
}

// migrated tells that every component leaves the volumes of a plugin to CSI already.
func (b *builder) migrated(p catalogue.VolumePlugin) bool {
	for _, h := range b.hosts {
		for _, name := range []string{KCM, Scheduler} {
			c := component(h, name)
			if c == nil {
				continue
			}
			if n, err := b.minorOf(c); err == nil && !gateValue(b.flagsOf(h, name)[gatesFlag], name, p.MigrationGate, n) {
				return false
			}
		}
	}
	for _, h := range b.snap.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" && !b.kubeletMigrated(h, p) {
			return false
		}
	}
	return true
}

// kubeletMigrated tells that a kubelet leaves the volumes of a plugin to CSI.
func (b *builder) kubeletMigrated(h v1.Host, p catalogue.VolumePlugin) bool {
	flags := h.Kubelet.Flags[gatesFlag]
	if _, said := readGates(flags)[p.MigrationGate]; !said && h.Kubelet.Config != nil {
		if on, said := h.Kubelet.Config.FeatureGates[p.MigrationGate]; said {
			return on
		}
	}
	return gateValue(flags, kubeletName, p.MigrationGate, b.kubeletMinor(h))
}

// inUse tells that some volume, class or node speaks of the plugin.
func (b *builder) inUse(p catalogue.VolumePlugin) bool {
	for _, pv := range b.snap.Volumes.PersistentVolumes {
		if pv.Plugin == p.Name {
			return true
		}
	}
	for _, c := range b.snap.Volumes.StorageClasses {
		if c.Provisioner == p.Name {
			return true
		}
	}
	for _, n := range b.snap.Nodes {
		if mounted(n, p) {
			return true
		}
	}
	return false
}

// mounted tells that volumes of the in-tree plugin are in use on a node.
func mounted(n v1.Node, p catalogue.VolumePlugin) bool {
	for _, name := range n.VolumesInUse {
		if strings.HasPrefix(name, p.Name+"/") {
			return true
		}
	}
	return false
}

// driverMissing says in a clause what keeps the CSI driver of a plugin from taking over on every node.
func (b *builder) driverMissing(p catalogue.VolumePlugin) string {
	if b.snap.Volumes == nil {
		return "whether CSI driver " + p.Driver + " is installed is not known"
	}
	installed := false
	for _, d := range b.snap.Volumes.CSIDrivers {
		installed = installed || d == p.Driver
	}
	if !installed {
		return "CSI driver " + p.Driver + " of " + p.Name + " is not installed"
	}
	has := map[string]bool{}
	for _, n := range b.snap.Volumes.CSINodes {
		for _, d := range n.Drivers {
			has[n.Name] = has[n.Name] || d.Name == p.Driver
		}
	}
	var lacking []string
	for _, n := range b.snap.Nodes {
		if !has[n.Name] && n.OS != "windows" {
			lacking = append(lacking, n.Name)
		}
	}
	sort.Strings(lacking)
	if len(lacking) > 0 {
		return fmt.Sprintf("CSI driver %s runs on no kubelet of %s", p.Driver, few(lacking))
	}
	return ""
}

// few names some of many.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// csiGates switches a component over to CSI.
func (b *builder) csiGates() []gateChange {
	if !b.volumes.csi {
		return nil
	}
	out := []gateChange{{name: gateCSI, to: gateOn}}
	for _, p := range b.volumes.plugins {
		out = append(out, gateChange{name: p.MigrationGate, to: gateOn})
	}
	return out
}

// unregister takes the in-tree plugins out, once nobody mounts a volume with them. In 1.20 the gates were called otherwise.
func (b *builder) unregister() []gateChange {
	var out []gateChange
	for _, p := range b.volumes.plugins {
		gate := p.UnregisterGate
		if !catalogue.GateFor(KCM, gate, b.kcm).Known && p.CompleteGate != "" {
			gate = p.CompleteGate
		}
		out = append(out, gateChange{name: gate, to: gateOn})
	}
	return out
}

// schedulers learn to count volumes of the plugin against the limits of the CSI driver before a kubelet leaves the first one to it.
func (b *builder) schedulers() {
	if !b.volumes.csi {
		return
	}
	for _, h := range b.hosts {
		s := b.now(h, Scheduler)
		if s == nil || s.Error != "" {
			continue
		}
		n, err := b.minorOf(s)
		if err != nil {
			continue
		}
		edits := gateEdits(s.Flags[gatesFlag], Scheduler, n, b.csiGates())
		if len(edits) == 0 {
			continue
		}
		b.add(b.edit(h, s, v1.Step{
			ID: "gates/" + Scheduler + "@" + h.Name, Phase: PhaseVolumes, Title: "let " + Scheduler + " on " + h.Name + " count volumes as CSI's",
			Why:   "the limits of a node are those of the driver that will attach to it (KEP-625: the control plane comes before the kubelets)",
			Group: PhaseVolumes + "@" + h.Name, Edits: edits,
		}))
	}
}

// dropPlugins takes the provider out of the kube-controller-managers when no kubelet needs its volumes attached in-tree any longer.
func (b *builder) dropPlugins() {
	if !b.volumes.csi || len(b.unmigratedNodes()) > 0 {
		return
	}
	for _, h := range b.hosts {
		m := b.now(h, KCM)
		if _, kept := m.Flags[flagVolumePlugin]; !kept {
			continue
		}
		n, err := b.minorOf(m)
		if err != nil {
			continue
		}
		edits := []v1.Edit{{Op: "unsetFlag", Name: flagVolumePlugin}}
		if _, set := m.Flags[flagCloudConfig]; set {
			edits = append(edits, v1.Edit{Op: "unsetFlag", Name: flagCloudConfig})
		}
		edits = append(edits, gateEdits(m.Flags[gatesFlag], KCM, n, append(b.unregister(), inTreeAgain(m.Flags[gatesFlag], gateNoProviders)...))...)
		leases, successors := b.others(KCM)
		b.add(b.edit(h, m, v1.Step{
			ID: "volumes/" + KCM + "@" + h.Name, Phase: PhaseVolumesDone, Title: "take the in-tree volume plugins out of " + KCM + " on " + h.Name,
			Why:    "the last kubelet has left its volumes to CSI; nothing needs the provider here any longer",
			Leases: leases, Successors: successors, Group: PhaseVolumesDone + "@" + h.Name, Edits: edits, Expect: b.expectFor(owners(CCM)),
		}))
	}
}

// unmigratedNodes are the nodes whose kubelets no step makes leave volumes to CSI: their hosts are not in --host-access.
func (b *builder) unmigratedNodes() []string {
	reached := map[string]bool{}
	for _, h := range b.snap.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" {
			reached[h.NodeName] = true
		}
	}
	var out []string
	for _, n := range b.snap.Nodes {
		if !reached[n.Name] && !b.nodeMigrated(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// nodeMigrated tells by its CSINode that a kubelet leaves every plugin of the plan to CSI.
func (b *builder) nodeMigrated(n v1.Node) bool {
	if b.snap.Volumes == nil {
		return false
	}
	for _, c := range b.snap.Volumes.CSINodes {
		if c.Name != n.Name {
			continue
		}
		has := map[string]bool{}
		for _, p := range c.MigratedPlugins {
			has[p] = true
		}
		for _, p := range b.volumes.plugins {
			if !has[p.Name] {
				return false
			}
		}
		return true
	}
	return false
}
