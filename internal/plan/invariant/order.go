package invariant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

func oneOwner(r *planView) error {
	first, ok := r.first()
	if !ok || r.isHosted() { // see P-39
		return nil
	}
	for _, i := range r.external() {
		s := r.Steps[i]
		if r.Strategy != planstep.LeaderMigration {
			if i > first {
				return fmt.Errorf("%s comes before %s", r.Steps[first].ID, s.ID)
			}
			continue
		}
		learns := r.which(func(o v1.Step) bool {
			return o.Component == component.KCM && o.Host == s.Host && planstep.SetsFlag(o, "enable-leader-migration", "true")
		})
		if len(learns) == 0 || learns[0] > first {
			return fmt.Errorf(
				"%s comes before %s on host %s has learned the migration lease",
				r.Steps[first].ID,
				component.KCM,
				s.Host,
			)
		}
	}
	return nil
}

// restartsServer reports whether a step restarts the API server of a host.
func restartsServer(s v1.Step) bool {
	return s.Component == component.KAS && s.Host != "" && planstep.EditsFlags(s)
}

func apiServers(r *planView) error {
	for i, s := range r.Steps {
		if !restartsServer(s) || r.movesOwner(s) {
			continue
		}
		managers := r.which(func(o v1.Step) bool {
			return o.Component == component.KCM && o.Host == s.Host && (planstep.EditsFlags(o) || planstep.StopsComponent(o))
		})
		if len(managers) > 0 && managers[0] > i {
			return fmt.Errorf("%s comes before %s", s.ID, r.Steps[managers[0]].ID)
		}
		for _, start := range r.starts {
			if (start.Host == s.Host || start.Host == "" && len(managers) > 0) && start.Index < i {
				return fmt.Errorf("%s comes after %s", s.ID, r.Steps[start.Index].ID)
			}
		}
	}
	return nil
}

func rightsFirst(r *planView) error {
	var rights int
	for i, s := range r.Steps {
		kind, _, _ := strings.Cut(s.Ref, "/")
		role := kind == "Role" || kind == "ClusterRole"
		switch {
		case s.Kind == v1.StepPatchObject && role:
			return fmt.Errorf("step %s changes a role that exists", s.ID)
		case s.Kind != v1.StepEnsureObject || !strings.HasPrefix(s.Object, "{"):
			continue
		case role:
			if err := createApart(s); err != nil {
				return err
			}
		}
		if s.Phase == planstep.PhasePrepare && (role || strings.HasSuffix(kind, "Binding") || kind == "ServiceAccount") {
			rights = i
		}
	}
	for _, i := range append(r.external(), r.which(func(s v1.Step) bool { return planstep.SetsFlag(s, "enable-leader-migration", "true") })...) {
		if i < rights {
			return fmt.Errorf("%s comes before %s", r.Steps[i].ID, r.Steps[rights].ID)
		}
	}
	return nil
}

func createApart(s v1.Step) error {
	var role struct {
		Rules []struct{ Verbs, Resources, ResourceNames []string }
	}
	if err := json.Unmarshal([]byte(s.Object), &role); err != nil {
		return fmt.Errorf("object of step %s: %w", s.ID, err)
	}
	for _, rule := range role.Rules {
		// A token is made under the name of its account, so that the name does match.
		if len(rule.ResourceNames) > 0 && slices.Contains(rule.Verbs, "create") &&
			!slices.Equal(rule.Resources, []string{layout.TokenResource}) {
			return fmt.Errorf("step %s grants create for the names %v", s.ID, rule.ResourceNames)
		}
	}
	return nil
}

func filesFirst(r *planView) error {
	written := map[string]int{}
	for i, s := range r.Steps {
		if s.Kind == v1.StepWriteFile || s.Kind == v1.StepCopyFile {
			written[s.Host+":"+s.Path] = i
		}
	}
	named := map[string]map[string]string{} // host/component -> flag -> value
	for i, s := range r.Steps {
		if s.Kind == v1.StepRemoveFile {
			if who := namedBy(named, s.Host, s.Path); who != "" {
				return fmt.Errorf("%s comes while %s names the file", s.ID, who)
			}
			continue
		}
		key := s.Host + "/" + s.Component
		for flag, value := range r.names(i) {
			if named[key] == nil {
				named[key] = map[string]string{}
			}
			named[key][flag] = value
			if at, ok := written[s.Host+":"+value]; ok && at > i {
				return fmt.Errorf("%s comes before %s", s.ID, r.Steps[at].ID)
			}
		}
		for _, e := range s.Edits {
			if e.Op == v1.EditUnsetFlag {
				delete(named[key], e.Name)
			}
		}
	}
	return nil
}

// names are the flags that a step gives to a component.
func (r *planView) names(i int) map[string]string {
	out := map[string]string{}
	for _, start := range r.starts {
		if start.Index == i {
			for k, v := range start.Flags {
				out[k] = v
			}
		}
	}
	for _, e := range r.Steps[i].Edits {
		if e.Op == v1.EditSetFlag {
			out[e.Name] = e.Value
		}
	}
	return out
}

func namedBy(named map[string]map[string]string, host, path string) string {
	for key, flags := range named {
		h, comp, _ := strings.Cut(key, "/")
		if h != host && h != "" {
			continue
		}
		for flag, value := range flags {
			if value == path {
				return comp + " with --" + flag
			}
		}
	}
	return ""
}

// successorThere says which host's manager has no successor.
func successorThere(r *planView) error {
	if r.isHosted() && r.Options.Part == v1.PartFinish {
		return nil // it is there; the first step looks
	}
	hosts := map[string]bool{}
	for _, s := range r.starts {
		hosts[s.Host] = true
	}
	for _, i := range r.external() {
		if s := r.Steps[i]; !hosts[""] && !hosts[s.Host] {
			return fmt.Errorf("%s has no step that starts a %s in its place", s.ID, component.CCM)
		}
	}
	return nil
}

func managerFirst(r *planView) error {
	first, ok := r.first()
	if !ok {
		return nil
	}
	for i, s := range r.Steps {
		if i < first && (s.Kind == v1.StepKubelet || s.Kind == v1.StepInitializeNode) {
			return fmt.Errorf("%s comes before %s", s.ID, r.Steps[first].ID)
		}
	}
	return nil
}

func kubeletOrder(r *planView) error {
	workers := ""
	done := map[string]bool{}
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		if done[s.Host] {
			return fmt.Errorf("step %s changes the kubelet of host %s once more", s.ID, s.Host)
		}
		done[s.Host] = true
		if s.Group != "" {
			return fmt.Errorf("step %s is done together with others (%s)", s.ID, s.Group)
		}
		h := r.host(s.Host)
		switch {
		case h == nil:
		case !h.ControlPlane:
			workers = s.ID
		case workers != "":
			return fmt.Errorf("%s comes before %s", workers, s.ID)
		case s.Batch != "":
			return fmt.Errorf("step %s is of the control plane and done side by side with others (%s)", s.ID, s.Batch)
		}
	}
	if err := r.batches(); err != nil {
		return err
	}
	if err := r.canaries(); err != nil {
		return err
	}
	return r.everyKubelet(done)
}

// everyKubelet names a kubelet that would keep the in-tree provider; done are the hosts whose kubelet has a step.
func (r *planView) everyKubelet(done map[string]bool) error {
	if r.snap == nil || len(r.external()) == 0 {
		return nil
	}
	for _, h := range r.snap.Hosts {
		if k := h.Kubelet; k != nil && k.Error == "" && !h.APIOnly && k.Flags["cloud-provider"] != "" &&
			k.Flags["cloud-provider"] != "external" &&
			!done[h.Name] {
			return fmt.Errorf("the kubelet on host %s keeps --cloud-provider=%s", h.Name, k.Flags["cloud-provider"])
		}
	}
	return nil
}

func csiOrder(r *planView) error {
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		had := r.gatesBefore(s)
		for gate, on := range gatesSet(s) {
			if !on || had[gate] || !strings.HasPrefix(gate, flagvalue.GateCSIMigration) {
				continue
			}
			if late := r.learnsLater(gate, i); late != "" {
				return fmt.Errorf("%s switches %s on before %s", s.ID, gate, late)
			}
			if who := r.withoutGate(gate, i); who != "" {
				return fmt.Errorf("%s switches %s on, and %s has it off", s.ID, gate, who)
			}
		}
	}
	return nil
}

// learnsLater is a step after i that switches a gate on in the control plane. The one that removes the plugin repeats
// what came before it.
func (r *planView) learnsLater(gate string, i int) string {
	for _, s := range r.Steps[i:] {
		e, ok := planstep.LastEdit(s, flagvalue.FlagFeatureGates)
		if !ok || s.Component != component.KCM && s.Component != component.Scheduler || !planstep.EditsFlags(s) ||
			!flagvalue.ParseGates(e.Value)[gate] ||
			flagvalue.ParseGates(r.original(s, flagvalue.FlagFeatureGates))[gate] {
			continue
		}
		if plugin, ok := planstep.LastEdit(s, flagvalue.FlagVolumePlugin); !ok || plugin.Op == v1.EditSetFlag {
			return s.ID
		}
	}
	return ""
}

// withoutGate names a component of the control plane that has a gate off when step i comes.
func (r *planView) withoutGate(gate string, i int) string {
	if r.snap == nil {
		return ""
	}
	d := draft.Draft{Snapshot: r.snap}
	for _, h := range r.snap.Hosts {
		for _, name := range []string{component.KCM, component.Scheduler} {
			c := clusterview.FindComponent(h, name)
			if c == nil || h.APIOnly {
				continue
			}
			value := flagvalue.MergeGates(c.Command, c.Flags[flagvalue.FlagFeatureGates])
			for _, s := range r.Steps[:i] {
				if s.Host != h.Name || s.Component != name || !planstep.EditsFlags(s) {
					continue
				}
				c = r.component(h, s)
				if e, ok := planstep.LastEdit(s, flagvalue.FlagFeatureGates); ok {
					value = e.Value
				}
			}
			n, err := d.MinorOf(c)
			if err == nil && !flagvalue.IsGateOn(value, name, gate, n) {
				return name + " on host " + h.Name
			}
		}
	}
	return ""
}

func pluginStays(r *planView) error {
	last := -1
	if k := r.kubelets(); len(k) > 0 {
		last = k[len(k)-1]
	}
	kept := map[string]bool{}
	for i, s := range r.Steps {
		if s.Component != component.KCM || !planstep.EditsFlags(s) {
			continue
		}
		plugin, ok := planstep.LastEdit(s, flagvalue.FlagVolumePlugin)
		if ok {
			kept[s.Host] = plugin.Op == v1.EditSetFlag
		}
		if config, drops := planstep.LastEdit(
			s,
			flagvalue.FlagCloudConfig,
		); kept[s.Host] && drops &&
			config.Op == v1.EditUnsetFlag {
			return fmt.Errorf("%s takes --%s away that --%s needs", s.ID, flagvalue.FlagCloudConfig, flagvalue.FlagVolumePlugin)
		}
		if i < last && (ok && plugin.Op == v1.EditUnsetFlag || r.unregistersNow(s)) {
			return fmt.Errorf("%s removes the in-tree plugin before %s", s.ID, r.Steps[last].ID)
		}
	}
	return nil
}

// unregistersNow reports whether a step removes an in-tree plugin that was there.
func (r *planView) unregistersNow(s v1.Step) bool {
	e, ok := planstep.LastEdit(s, flagvalue.FlagFeatureGates)
	return ok && unregistersPlugin(e.Value) && !unregistersPlugin(r.original(s, flagvalue.FlagFeatureGates))
}

func unregistersPlugin(gates string) bool {
	for g, on := range flagvalue.ParseGates(gates) {
		if on &&
			(strings.HasPrefix(g, "InTreePlugin") || strings.HasPrefix(g, flagvalue.GateCSIMigration) && strings.HasSuffix(g, "Complete")) {
			return true
		}
	}
	return false
}

func drainedFirst(r *planView) error {
	if r.snap == nil {
		return nil
	}
	d := draft.Draft{Snapshot: r.snap}
	d.Provider, _ = clusterview.LookupSupported(r.providerName())
	d.APIMinor, _ = clusterview.ParseMinor("", r.snap.Cluster.Version)
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		h := r.host(s.Host)
		gates := gatesSet(s)
		if h == nil || s.Drain {
			continue
		}
		n := d.FindNode(h.NodeName)
		for _, p := range d.Provider.Plugins {
			if n != nil && clusterview.HasMountedVolumes(*n, p) && gates[p.MigrationGate] &&
				!volume.IsKubeletMigrated(&d, *h, p) {
				return fmt.Errorf("step %s leaves mounted volumes of %s to CSI and does not drain node %s", s.ID, p.Name, n.Name)
			}
		}
	}
	return nil
}

func credentialsFirst(r *planView) error {
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		for _, flag := range []string{flagvalue.FlagCredentialConfig, flagvalue.FlagCredentialDir} {
			e, ok := planstep.LastEdit(s, flag)
			if !ok || e.Op != v1.EditSetFlag {
				continue
			}
			there := slices.ContainsFunc(r.Steps[:i], func(o v1.Step) bool {
				return o.Host == s.Host &&
					(o.Kind == v1.StepWriteFile && o.Path == e.Value ||
						o.Kind == v1.StepCopyFile && strings.HasPrefix(o.Path, e.Value+"/"))
			})
			if !there {
				return fmt.Errorf("%s names %s, which no step before has put on host %s", s.ID, e.Value, s.Host)
			}
		}
	}
	return nil
}

func fillLast(r *planView) error {
	kubelets := r.kubelets()
	seen := map[string]bool{}
	for i, s := range r.Steps {
		if s.Kind != v1.StepInitializeNode {
			continue
		}
		if len(kubelets) > 0 && i < kubelets[len(kubelets)-1] {
			return fmt.Errorf("%s comes before %s", s.ID, r.Steps[kubelets[len(kubelets)-1]].ID)
		}
		if s.Group != "" || seen[s.Ref] {
			return fmt.Errorf("step %s is done together with others, or twice", s.ID)
		}
		seen[s.Ref] = true
		if r.snap == nil {
			continue
		}
		d := draft.Draft{Snapshot: r.snap}
		if n := d.FindNode(strings.TrimPrefix(s.Ref, "Node/")); n == nil || n.ProviderID != "" {
			return fmt.Errorf("step %s is about a node that is not there or has a providerID", s.ID)
		}
	}
	return nil
}

func restartsTold(r *planView) error {
	hosts := map[string]bool{}
	for _, i := range r.external() {
		hosts[r.Steps[i].Host] = true
	}
	for i, s := range r.Steps {
		if s.Component != component.KCM && s.Component != component.CCM ||
			s.Kind != v1.StepEditManifest && s.Kind != v1.StepEditUnit && s.Kind != v1.StepReplacePod &&
				!planstep.StopsComponent(s) {
			continue
		}
		if s.Group == "" || len(hosts) > 1 && (len(s.Leases) == 0 || len(s.Successors) == 0) {
			return fmt.Errorf("step %s restarts a manager and does not name its leases, its group or its successors", s.ID)
		}
		if !slices.ContainsFunc(r.Steps[i:], func(o v1.Step) bool { return o.Kind == v1.StepVerify }) {
			return fmt.Errorf("after step %s no step checks the owners", s.ID)
		}
	}
	return nil
}

// podsReplaced looks at DaemonSets whose pods keep their template until a step deletes them. Another step may remove a
// file or a lease that an old pod needs. Or it may start a manager that has another lease.
func podsReplaced(r *planView) error {
	planes := map[string]bool{}
	for _, s := range r.Steps {
		if slices.Contains([]string{component.KAS, component.KCM, component.CCM}, s.Component) && s.Host != "" {
			planes[s.Host] = true
		}
	}
	var left map[string]bool
	for _, s := range r.Steps {
		switch {
		case planstep.LeavesPods(s):
			left = maps.Clone(planes)
		case s.Kind == v1.StepReplacePod && !left[s.Host]:
			return fmt.Errorf("step %s replaces a pod whose template no step before it changes", s.ID)
		case s.Kind == v1.StepReplacePod:
			delete(left, s.Host)
		case len(left) > 0:
			return fmt.Errorf("step %s comes before the pods of %s are replaced on %s", s.ID, layout.CCMDaemonSet, namesOf(left))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("no step replaces the pods of %s on %s", layout.CCMDaemonSet, namesOf(left))
	}
	return nil
}

func namesOf(hosts map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(hosts)), ", ")
}
