// Package upgrade decides what a new version of the control plane asks for in the restarts of a migration.
package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// StepTitle of a step that makes a component external, gives it its new version, or both.
func StepTitle(u draft.Upgrade, name, host string, edits []v1.Edit) string {
	external := slices.ContainsFunc(edits, func(e v1.Edit) bool { return e.Name == "cloud-provider" })
	switch {
	case !slices.ContainsFunc(edits, func(e v1.Edit) bool { return e.Op == v1.EditSetImage }):
		return "make " + name + " on " + host + " external"
	case external:
		return "upgrade " + name + " on " + host + " to " + u.Version + " and make it external"
	}
	return "upgrade " + name + " on " + host + " to " + u.Version
}

// tagFor is the tag of an image's new version, written as its old one is: with a v, or without.
func tagFor(u draft.Upgrade, image string) (string, error) {
	_, tag, err := controlplane.SplitImage(image)
	switch {
	case err != nil:
		return "", err
	case !options.VersionTag.MatchString(tag):
		return "", fmt.Errorf(
			"tag %s of image %s was made by a distribution, and its name for %s is not known; upgrade with the distribution's tool, or use an image whose tag is a version",
			tag,
			image,
			u.Version,
		)
	case !strings.HasPrefix(tag, "v"):
		return strings.TrimPrefix(u.Version, "v"), nil
	}
	return u.Version, nil
}

// WhyUnreachable says why an image cannot get the version: it is newer than that, or too old; empty when it can.
func WhyUnreachable(u draft.Upgrade, tag string) string {
	was, want := options.VersionTag.FindStringSubmatch(tag), options.VersionTag.FindStringSubmatch(u.Version)
	if was == nil || want == nil {
		return ""
	}
	fromMinor, fromPatch := parseDigits(was[1]), parseDigits(was[2])
	switch patch := parseDigits(want[2]); {
	case fromMinor > u.Minor, fromMinor == u.Minor && fromPatch > patch:
		return fmt.Sprintf(
			"is %s, and a control plane is not taken back to %s: etcd may hold what an older version cannot read",
			tag,
			u.Version,
		)
	case u.Minor-fromMinor > 1:
		return fmt.Sprintf(
			"is %s, and a control plane goes up one minor version at a time: upgrade it to v1.%d first",
			tag,
			fromMinor+1,
		)
	}
	return ""
}

func parseDigits(digits string) int {
	n, _ := strconv.Atoi(digits) // digits, by the pattern
	return n
}

// Check says everything that keeps the control plane from its new version. It comes after what happens to volumes is
// known.
func Check(d *draft.Draft) []error {
	u := d.Upgrade
	if !u.IsWanted() {
		return nil
	}
	if u.Minor > component.Newest {
		return []error{
			fmt.Errorf(
				"--target-version %s: the flags and feature gates of versions after 1.%d are not known to this version of transplant",
				u.Version,
				component.Newest,
			),
		}
	}
	errs := checkComponents(d)
	if d.Volumes.KeepProvider() && !catalogue.InTree(d.Provider.Name, u.Minor) {
		errs = append(
			errs,
			fmt.Errorf(
				"volumes of %s are not left to CSI everywhere yet, and %s %s has no in-tree provider %s that could attach them while kubelets change; migrate within 1.%d first and upgrade after it, or leave the volumes to CSI first",
				d.Volumes.Plugins[0].Name,
				component.KCM,
				u.Version,
				d.Provider.Name,
				d.APIMinor,
			),
		)
	}
	errs = append(errs, checkKubelets(d)...)
	if p := d.Program; !p.Ours && p.Image != "" && !catalogue.WithinSkew(component.CCM, p.Minor, u.Minor) {
		errs = append(
			errs,
			fmt.Errorf(
				"the manager in image %s is of 1.%d, which does not fit API servers of %s: name one of 1.%d with --image",
				p.Image,
				p.Minor,
				u.Version,
				u.Minor,
			),
		)
	}
	return errs
}

// checkComponents says which components cannot get the version. Those with the same reason are one error.
func checkComponents(d *draft.Draft) []error {
	var reasons []string
	refused := map[string][]string{} // by reason
	for _, h := range d.Hosts {
		for _, name := range component.Versioned {
			c := clusterview.FindComponent(h, name)
			if c == nil {
				continue
			}
			if why := whyRefused(d.Upgrade, c); why != "" {
				if refused[why] == nil {
					reasons = append(reasons, why)
				}
				refused[why] = append(refused[why], name+" on host "+h.Name)
			}
		}
	}
	var errs []error
	for _, why := range reasons {
		which := refused[why]
		if len(which) == 1 {
			errs = append(errs, fmt.Errorf("%s %s", which[0], why))
			continue
		}
		errs = append(errs, fmt.Errorf("each of %s (%s) %s", english.Count(len(which), "component"), english.FirstOf(3, which), why))
	}
	return errs
}

// whyRefused says why a component cannot get the version; empty when it can.
func whyRefused(u draft.Upgrade, c *v1.Component) string {
	switch {
	case c.Runs == v1.RunsSystemd:
		return "runs as unit " + c.Unit + ": transplant does not install its program; upgrade these hosts the way they were made, or leave out --target-version"
	case !clusterview.IsStaticPod(*c):
		return "runs as " + c.Manifest + ": the program that deploys it sets its image; upgrade it there, or leave out --target-version"
	case c.Error != "":
		return "cannot be edited: " + c.Error
	}
	if _, err := tagFor(u, c.Image); err != nil {
		return "cannot get another version: " + err.Error()
	}
	_, tag, _ := controlplane.SplitImage(c.Image) // tagFor has asked
	return WhyUnreachable(u, tag)
}

// checkKubelets names the nodes whose kubelets are too old for the new API servers.
func checkKubelets(d *draft.Draft) []error {
	var old []string
	for _, n := range d.Snapshot.Nodes {
		if k, err := clusterview.ParseMinor(
			"",
			n.KubeletVersion,
		); err == nil &&
			k < d.Upgrade.Minor-catalogue.KubeletSkew(d.Upgrade.Minor) {
			old = append(old, n.Name+" ("+n.KubeletVersion+")")
		}
	}
	if len(old) == 0 {
		return nil
	}
	return []error{
		fmt.Errorf(
			"kubelets of %s are older than API servers of %s allow (1.%d at least): upgrade them first",
			english.FirstOf(5, old),
			d.Upgrade.Version,
			d.Upgrade.Minor-catalogue.KubeletSkew(d.Upgrade.Minor),
		),
	}
}

// AddEdits adds to a component's edits what its new version asks for in the same restart. That is the image, and what
// becomes of the flags and gates that this version no longer takes.
func AddEdits(d *draft.Draft, c *v1.Component, edits []v1.Edit) []v1.Edit {
	if !d.Upgrade.IsWanted() || c == nil {
		return edits
	}
	tag, err := tagFor(d.Upgrade, c.Image)
	if err != nil {
		return edits // chooseUpgrade has refused it
	}
	if image, err := controlplane.Retag(c.Image, tag); err != nil || image == c.Image {
		return edits
	}
	return DropUnknown(d, c, append([]v1.Edit{{Op: v1.EditSetImage, Name: c.Name, Value: tag}}, edits...))
}

// DropUnknown adds to edits what becomes of the flags and gates that a component's new version no longer takes.
func DropUnknown(d *draft.Draft, c *v1.Component, edits []v1.Edit) []v1.Edit {
	v := versionChange{
		draft: d,
		c:     c,
		flags: maps.Clone(c.Flags),
		edits: slices.Clone(edits),
		from:  d.MinorNow(c),
	}
	for _, e := range edits {
		switch e.Op {
		case v1.EditSetFlag:
			v.flags[e.Name] = e.Value
		case v1.EditUnsetFlag:
			delete(v.flags, e.Name)
		default: // no other edit is about this
		}
	}
	v.dropFlags()
	v.dropGates()
	v.dropPlugins()
	v.checkLock()
	return v.edits
}

// versionChange is what becomes of a component's flags in the restart that gives it another version.
type versionChange struct {
	draft *draft.Draft
	c     *v1.Component
	// flags are those after the edits, which grow.
	flags map[string]string
	edits []v1.Edit
	from  int
}

func (v *versionChange) set(flag, value string) {
	v.edits = slices.DeleteFunc(
		v.edits,
		func(e v1.Edit) bool { return e.Name == flag && (e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag) },
	)
	v.flags[flag] = value
	if was, had := v.c.Flags[flag]; !had || was != value {
		v.edits = append(v.edits, v1.Edit{Op: v1.EditSetFlag, Name: flag, Value: value})
	}
}

func (v *versionChange) unset(flag string) {
	v.edits = slices.DeleteFunc(
		v.edits,
		func(e v1.Edit) bool { return e.Name == flag && (e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag) },
	)
	delete(v.flags, flag)
	if _, had := v.c.Flags[flag]; had {
		v.edits = append(v.edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flag})
	}
}

func (v *versionChange) addRefusal(format string, args ...any) {
	err := fmt.Errorf("%s 1.%d: "+format, append([]any{v.c.Name, v.draft.Upgrade.Minor}, args...)...)
	if !slices.ContainsFunc(v.draft.Refusals, func(e error) bool { return e.Error() == err.Error() }) {
		v.draft.Refusals = append(v.draft.Refusals, err) // each host would say it again
	}
}

// noteChange notes what is different after the upgrade.
func (v *versionChange) noteChange(format string, args ...any) {
	v.draft.Note("changed by the new version: " + fmt.Sprintf(format, args...))
}

// dropFlags removes the flags that the new version does not know. One that nothing is known of is refused: the
// component would not start.
func (v *versionChange) dropFlags() {
	for _, flag := range slices.Sorted(maps.Keys(v.flags)) {
		f, held := catalogue.FlagAt(v.c.Name, flag, v.draft.Upgrade.Minor)
		if f.Known {
			continue
		}
		value := v.flags[flag]
		end, known := catalogue.FlagEnds(v.c.Name, flag, value)
		switch {
		case !held:
			v.addRefusal(
				"--%s is in no version of %s that is known here, and a component does not start with a flag that it does not know; remove it from the manifests, or upgrade with what put it there",
				flag,
				v.c.Name,
			)
		case !known:
			v.addRefusal(
				"it does not know --%s, and what takes its place is not known here: remove it from the manifests first",
				flag,
			)
		case end.Refused != "":
			v.addRefusal("it does not know --%s: %s", flag, end.Refused)
		default:
			v.unset(flag)
			if _, there := v.flags[end.Replacement]; end.Replacement != "" && !there {
				v.set(end.Replacement, value)
			}
			if end.Effect != "" {
				v.noteChange("%s loses --%s=%s: %s", v.c.Name, flag, value, end.Effect)
			}
		}
	}
}

// dropGates removes the gates that the new version does not accept.
func (v *versionChange) dropGates() {
	value := v.flags[flagvalue.FlagFeatureGates]
	var keep []string
	for _, pair := range strings.Split(value, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		on, said := flagvalue.ParseGates(pair)[name]
		if !said || v.keepsGate(name, on) {
			keep = append(keep, pair)
		}
	}
	if now := strings.Join(keep, ","); now != value {
		if now == "" {
			v.unset(flagvalue.FlagFeatureGates)
			return
		}
		v.set(flagvalue.FlagFeatureGates, now)
	}
}

// keepsGate reports whether the new version takes a gate with its value, and notes what is different without it.
func (v *versionChange) keepsGate(name string, on bool) bool {
	is, was := catalogue.GateFor(v.c.Name, name, v.draft.Upgrade.Minor), catalogue.GateFor(v.c.Name, name, v.from)
	switch {
	case is.Known && (!is.Locked || is.Default == on):
		return true
	case is.Known:
		v.noteChange("%s loses the gate %s=%v: it is %v for good", v.c.Name, name, on, is.Default)
	case !was.Known:
		v.addRefusal(
			"the feature gate %s is not known here, neither in 1.%d nor in 1.%d: remove it from --feature-gates first",
			name,
			v.from,
			v.draft.Upgrade.Minor,
		)
		return true
	case was.Default != on:
		v.noteChange(
			"%s loses the gate %s=%v, which is gone; what it decided is %v for good, or gone with it",
			v.c.Name,
			name,
			on,
			was.Default,
		)
	}
	return false
}

// dropPlugins removes the admission plugins that the new version no longer has.
func (v *versionChange) dropPlugins() {
	for _, flag := range []string{"enable-admission-plugins", "disable-admission-plugins"} {
		value := v.flags[flag]
		rest := slices.DeleteFunc(flagvalue.SplitList(value), func(p string) bool {
			refused, ended := catalogue.AdmissionPluginEnds(p, v.draft.Upgrade.Minor)
			if ended && refused != "" && flag == "enable-admission-plugins" {
				v.addRefusal("it has no admission plugin %s: %s", p, refused)
			}
			return ended
		})
		switch now := strings.Join(rest, ","); {
		case v.c.Name != component.KAS || len(rest) == len(flagvalue.SplitList(value)):
		case now == "":
			v.unset(flag)
		default:
			v.set(flag, now)
		}
	}
}

// checkLock refuses a kind of election that the new version no longer has: two managers that take different locks would
// both lead.
func (v *versionChange) checkLock() {
	const flag = "leader-elect-resource-lock"
	if kind, ok := v.flags[flag]; ok && v.c.Name != component.KAS && !catalogue.LockKnown(kind, v.draft.Upgrade.Minor) {
		v.addRefusal(
			"it has no --%s=%s: move all managers to leases first, by way of endpointsleases or configmapsleases",
			flag,
			kind,
		)
	}
}

// UpgradeSchedulers gives the schedulers their new version, and at once what volumes ask of them.
func UpgradeSchedulers(d *draft.Draft) {
	if !d.Upgrade.IsWanted() {
		return
	}
	for _, h := range d.Hosts {
		s := d.ComponentAfter(h, component.Scheduler)
		if s == nil {
			continue
		}
		edits := AddEdits(
			d,
			s,
			flagvalue.EditGates(s.Flags[flagvalue.FlagFeatureGates], component.Scheduler, d.Upgrade.Minor, volume.CSIGates(d)),
		)
		if len(edits) == 0 {
			continue
		}
		d.Add(d.EditComponent(h, s, v1.Step{
			ID:    "upgrade/" + component.Scheduler + "@" + h.Name,
			Phase: planstep.PhaseUpgrade,
			Title: StepTitle(d.Upgrade, component.Scheduler, h.Name, edits),
			Why:   "every API server has this version; pods wait for a node while another scheduler takes the lease over",
			Group: planstep.PhaseUpgrade + "@" + h.Name,
			Edits: edits,
		}))
	}
}
