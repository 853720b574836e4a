package plan

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// An upgrade on the way takes the control plane from version N to N+1 in the restarts that the migration needs anyway, node by node, in the order of the
// version skew policy:
//
//	leader-migration   KCM learns the lease (N), then the host's API server: N+1, external     every host before the first manager of N+1
//	handover           KCM: N+1, external; CCM starts
//	upgrade            the schedulers: N+1
//	kubeadm            kubernetesVersion: N+1
//
// With the strategy downtime the API servers have a phase of their own, before the first manager is stopped. Back it goes in the reverse order: managers
// and schedulers before the first API server.
const (
	// PhaseServers are the API servers of an upgrade without leader migration.
	PhaseServers = "upgrade-api-servers"
	// PhaseUpgrade are the schedulers of an upgrade.
	PhaseUpgrade = "upgrade"
	// PhaseDowngrade are the schedulers of a rollback of one.
	PhaseDowngrade = "rollback-upgrade"
)

// versioned are the components that get another version on the way, in the order in which their versions change.
var versioned = []string{KAS, KCM, Scheduler}

// upgrade is the version that the control plane gets on the way; its zero value is none.
type upgrade struct {
	// version is v1.27.4, minor 27.
	version string
	minor   int
}

// ofOptions is the upgrade that options ask for; hosts that are replaced have a way of their own.
func ofOptions(o v1.Options) upgrade {
	if o.TargetVersion == "" || o.ReplaceHosts {
		return upgrade{}
	}
	n, err := minor("", o.TargetVersion)
	if err != nil {
		return upgrade{} // Validate says so
	}
	return upgrade{"v" + strings.TrimPrefix(o.TargetVersion, "v"), n}
}

// wanted tells that versions change at all.
func (u upgrade) wanted() bool { return u.minor > 0 }

// title of a step that makes a component external, gives it its new version, or both.
func (u upgrade) title(name, host string, edits []v1.Edit) string {
	external := slices.ContainsFunc(edits, func(e v1.Edit) bool { return e.Name == "cloud-provider" })
	switch {
	case !slices.ContainsFunc(edits, func(e v1.Edit) bool { return e.Op == opImage }):
		return "make " + name + " on " + host + " external"
	case external:
		return "upgrade " + name + " on " + host + " to " + u.version + " and make it external"
	}
	return "upgrade " + name + " on " + host + " to " + u.version
}

// plainTag is a tag that says a version and nothing else.
var plainTag = regexp.MustCompile(`^v?1\.([0-9]+)\.([0-9]+)$`)

// tagFor is the tag of an image's new version, written as its old one is: with a v, or without.
func (u upgrade) tagFor(image string) (string, error) {
	_, tag, err := controlplane.SplitImage(image)
	switch {
	case err != nil:
		return "", err
	case !plainTag.MatchString(tag):
		return "", fmt.Errorf("tag %s of image %s is one that its distribution has made, and what it calls %s is not known: upgrade with what made it, or give the manifest an image whose tag is a version", tag, image, u.version)
	case !strings.HasPrefix(tag, "v"):
		return strings.TrimPrefix(u.version, "v"), nil
	}
	return u.version, nil
}

// unreachable says why an image cannot get the version: it is newer than that, or too old; empty when it can.
func (u upgrade) unreachable(tag string) string {
	was, want := plainTag.FindStringSubmatch(tag), plainTag.FindStringSubmatch(u.version)
	if was == nil || want == nil {
		return ""
	}
	fromMinor, fromPatch := number(was[1]), number(was[2])
	switch patch := number(want[2]); {
	case fromMinor > u.minor, fromMinor == u.minor && fromPatch > patch:
		return fmt.Sprintf("is %s, and a control plane is not taken back to %s: etcd may hold what an older version cannot read", tag, u.version)
	case u.minor-fromMinor > 1:
		return fmt.Sprintf("is %s, and a control plane goes up one minor version at a time: upgrade it to v1.%d first", tag, fromMinor+1)
	}
	return ""
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // digits, by the pattern
	return n
}

// chooseUpgrade says everything that keeps the control plane from its new version. It comes after what happens to volumes is known.
func (b *builder) chooseUpgrade() []error {
	u := b.up
	if !u.wanted() {
		return nil
	}
	if u.minor > catalogue.Newest {
		return []error{fmt.Errorf("--target-version %s: the flags and feature gates of versions after 1.%d are not known to this version of transplant", u.version, catalogue.Newest)}
	}
	var errs []error
	for _, h := range b.hosts {
		for _, name := range versioned {
			if c := component(h, name); c != nil {
				if why := u.refuses(c); why != "" {
					errs = append(errs, fmt.Errorf("%s on host %s %s", name, h.Name, why))
				}
			}
		}
	}
	if b.volumes.keep() && !catalogue.InTree(b.provider.Name, u.minor) {
		errs = append(errs, fmt.Errorf("volumes of %s are not left to CSI everywhere yet, and %s %s has no in-tree provider %s that could attach them while kubelets change: migrate within 1.%d first and upgrade after it, or leave the volumes to CSI first",
			b.volumes.plugins[0].Name, KCM, u.version, b.provider.Name, b.api))
	}
	errs = append(errs, b.kubeletsFollow()...)
	if p := b.program; !p.ours && p.image != "" && !catalogue.WithinSkew(CCM, p.minor, u.minor) {
		errs = append(errs, fmt.Errorf("the manager in image %s is of 1.%d, which does not fit API servers of %s: name one of 1.%d with --image", p.image, p.minor, u.version, u.minor))
	}
	return errs
}

// refuses says why a component cannot get the version; empty when it can.
func (u upgrade) refuses(c *v1.Component) string {
	switch {
	case c.Runs == v1.RunsSystemd:
		return "runs as unit " + c.Unit + ": its program was installed by somebody, who has to install the new one; upgrade these hosts the way they were made, or leave out --target-version"
	case !staticPod(*c):
		return "runs as " + c.Manifest + ": its image is that of whoever deploys it; upgrade it there, or leave out --target-version"
	case c.Error != "":
		return "cannot be edited: " + c.Error
	}
	if _, err := u.tagFor(c.Image); err != nil {
		return "cannot get another version: " + err.Error()
	}
	_, tag, _ := controlplane.SplitImage(c.Image) // tagFor has asked
	return u.unreachable(tag)
}

// kubeletsFollow names the nodes whose kubelets are too old for the new API servers.
func (b *builder) kubeletsFollow() []error {
	var old []string
	for _, n := range b.snap.Nodes {
		if k, err := minor("", n.KubeletVersion); err == nil && k < b.up.minor-catalogue.KubeletSkew(b.up.minor) {
			old = append(old, n.Name+" ("+n.KubeletVersion+")")
		}
	}
	if len(old) == 0 {
		return nil
	}
	return []error{fmt.Errorf("kubelets of %s are older than API servers of %s allow (1.%d at least): upgrade them first", few(old), b.up.version, b.up.minor-catalogue.KubeletSkew(b.up.minor))}
}

// minorAfter is the minor that a component has after a step that gives it its new version.
func (b *builder) minorAfter(c *v1.Component) (int, error) {
	if b.up.wanted() {
		return b.up.minor, nil
	}
	return b.minorOf(c)
}

// upgraded adds to a component's edits what its new version asks for in the same restart: the image, and what becomes of the flags and gates that this
// version no longer takes.
func (b *builder) upgraded(c *v1.Component, edits []v1.Edit) []v1.Edit {
	if !b.up.wanted() || c == nil {
		return edits
	}
	tag, err := b.up.tagFor(c.Image)
	if err != nil {
		return edits // chooseUpgrade has refused it
	}
	if image, err := controlplane.Retag(c.Image, tag); err != nil || image == c.Image {
		return edits
	}
	v := versionChange{builder: b, c: c, flags: maps.Clone(c.Flags), from: b.minorNow(c)}
	v.edits = append([]v1.Edit{{Op: opImage, Name: c.Name, Value: tag}}, edits...)
	for _, e := range edits {
		switch e.Op {
		case "setFlag":
			v.flags[e.Name] = e.Value
		case "unsetFlag":
			delete(v.flags, e.Name)
		}
	}
	v.dropFlags()
	v.dropGates()
	v.dropPlugins()
	v.lock()
	return v.edits
}

// opImage is the edit that gives an image another tag, opVersion the one of kubeadm's configuration.
const (
	opImage   = "setImage"
	opVersion = "setVersion"
)

func (b *builder) minorNow(c *v1.Component) int {
	n, err := b.minorOf(c)
	if err != nil {
		return b.api
	}
	return n
}

// versionChange is what becomes of a component's flags in the restart that gives it another version.
type versionChange struct {
	*builder
	c *v1.Component
	// flags are those after the edits, which grow.
	flags map[string]string
	edits []v1.Edit
	from  int
}

func (v *versionChange) set(flag, value string) {
	v.edits = slices.DeleteFunc(v.edits, func(e v1.Edit) bool { return e.Name == flag && (e.Op == "setFlag" || e.Op == "unsetFlag") })
	v.flags[flag] = value
	if was, had := v.c.Flags[flag]; !had || was != value {
		v.edits = append(v.edits, v1.Edit{Op: "setFlag", Name: flag, Value: value})
	}
}

func (v *versionChange) unset(flag string) {
	v.edits = slices.DeleteFunc(v.edits, func(e v1.Edit) bool { return e.Name == flag && (e.Op == "setFlag" || e.Op == "unsetFlag") })
	delete(v.flags, flag)
	if _, had := v.c.Flags[flag]; had {
		v.edits = append(v.edits, v1.Edit{Op: "unsetFlag", Name: flag})
	}
}

func (v *versionChange) refuse(format string, args ...any) {
	err := fmt.Errorf("%s 1.%d: "+format, append([]any{v.c.Name, v.up.minor}, args...)...)
	if !slices.ContainsFunc(v.refused, func(e error) bool { return e.Error() == err.Error() }) {
		v.refused = append(v.refused, err) // each host would say it again
	}
}

// changed notes what is different after the upgrade.
func (v *versionChange) changed(format string, args ...any) {
	v.noteOnce("changed by the new version: " + fmt.Sprintf(format, args...))
}

// dropFlags takes out the flags that the new version does not know. One that nothing is known of is refused: the component would not start.
func (v *versionChange) dropFlags() {
	for _, flag := range slices.Sorted(maps.Keys(v.flags)) {
		f, held := catalogue.FlagAt(v.c.Name, flag, v.up.minor)
		if f.Known {
			continue
		}
		value := v.flags[flag]
		end, known := catalogue.FlagEnds(v.c.Name, flag, value)
		switch {
		case !held:
			v.refuse("--%s is in no version of %s that is known here, and a component does not start with a flag that it does not know: take it out of the manifests, or upgrade with what put it there", flag, v.c.Name)
		case !known:
			v.refuse("it does not know --%s, and what takes its place is not known here: take it out of the manifests first", flag)
		case end.Refused != "":
			v.refuse("it does not know --%s: %s", flag, end.Refused)
		default:
			v.unset(flag)
			if _, there := v.flags[end.Replacement]; end.Replacement != "" && !there {
				v.set(end.Replacement, value)
			}
			if end.Effect != "" {
				v.changed("%s loses --%s=%s: %s", v.c.Name, flag, value, end.Effect)
			}
		}
	}
}

// dropGates takes out the gates that the new version does not take.
func (v *versionChange) dropGates() {
	value := v.flags[gatesFlag]
	var keep []string
	for _, pair := range strings.Split(value, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		on, said := readGates(pair)[name]
		if !said || v.keepsGate(name, on) {
			keep = append(keep, pair)
		}
	}
	if now := strings.Join(keep, ","); now != value {
		if now == "" {
			v.unset(gatesFlag)
			return
		}
		v.set(gatesFlag, now)
	}
}

// keepsGate tells that the new version takes a gate with its value, and notes what is different without it.
func (v *versionChange) keepsGate(name string, on bool) bool {
	is, was := catalogue.GateFor(v.c.Name, name, v.up.minor), catalogue.GateFor(v.c.Name, name, v.from)
	switch {
	case is.Known && (!is.Locked || is.Default == on):
		return true
	case is.Known:
		v.changed("%s loses the gate %s=%v: it is %v for good", v.c.Name, name, on, is.Default)
	case !was.Known:
		v.refuse("the feature gate %s is not known here, neither in 1.%d nor in 1.%d: take it out of --feature-gates first", name, v.from, v.up.minor)
		return true
	case was.Default != on:
		v.changed("%s loses the gate %s=%v, which is gone; what it decided is %v for good, or gone with it", v.c.Name, name, on, was.Default)
	}
	return false
}

// dropPlugins takes out the admission plugins that the new version no longer has.
func (v *versionChange) dropPlugins() {
	for _, flag := range []string{"enable-admission-plugins", "disable-admission-plugins"} {
		value := v.flags[flag]
		rest := slices.DeleteFunc(items(value), func(p string) bool {
			refused, ended := catalogue.AdmissionPluginEnds(p, v.up.minor)
			if ended && refused != "" && flag == "enable-admission-plugins" {
				v.refuse("it has no admission plugin %s: %s", p, refused)
			}
			return ended
		})
		switch now := strings.Join(rest, ","); {
		case v.c.Name != KAS || len(rest) == len(items(value)):
		case now == "":
			v.unset(flag)
		default:
			v.set(flag, now)
		}
	}
}

// lock refuses a kind of election that the new version no longer has: two managers that take different locks would both lead.
func (v *versionChange) lock() {
	const flag = "leader-elect-resource-lock"
	if kind, ok := v.flags[flag]; ok && v.c.Name != KAS && !catalogue.LockKnown(kind, v.up.minor) {
		v.refuse("it has no --%s=%s: move all managers to leases first, by way of endpointsleases or configmapsleases", flag, kind)
	}
}

// imageChange is what a reader sees of an image that changes.
func imageChange(c *v1.Component, edits []v1.Edit) []v1.Change {
	for _, e := range edits {
		if e.Op == opImage {
			if image, err := controlplane.Retag(c.Image, e.Value); err == nil {
				return []v1.Change{{Field: fieldImage, Before: c.Image, After: image}}
			}
		}
	}
	return nil
}

const fieldImage = "image"

// upgradeServers gives the API servers their new version before the first manager is stopped, the owner's last. The engine moves the owner away from an
// API server before it restarts it.
func (b *builder) upgradeServers() {
	if !b.up.wanted() {
		return
	}
	for _, h := range b.hosts {
		b.externalAPI(h, PhaseServers)
	}
}

// upgradeSchedulers gives the schedulers their new version, and at once what volumes ask of them.
func (b *builder) upgradeSchedulers() {
	if !b.up.wanted() {
		return
	}
	for _, h := range b.hosts {
		s := b.now(h, Scheduler)
		if s == nil {
			continue
		}
		edits := b.upgraded(s, gateEdits(s.Flags[gatesFlag], Scheduler, b.up.minor, b.csiGates()))
		if len(edits) == 0 {
			continue
		}
		b.add(b.edit(h, s, v1.Step{
			ID: "upgrade/" + Scheduler + "@" + h.Name, Phase: PhaseUpgrade, Title: b.up.title(Scheduler, h.Name, edits),
			Why: "every API server has this version; pods wait for a node while another scheduler takes the lease over", Group: PhaseUpgrade + "@" + h.Name, Edits: edits,
		}))
	}
}

// upgradeKubeadm tells kubeadm the version, so that a host that joins gets it, and that the next upgrade begins with it.
func (b *builder) upgradeKubeadm(k *v1.KubeadmConfig) {
	if !b.up.wanted() || k.KubernetesVersion == b.up.version {
		return
	}
	edits := []v1.Edit{{Op: opVersion, Name: kubernetesVersion, Value: b.up.version}}
	b.add(v1.Step{
		ID: "patch/" + kubeadmRef + "/" + kubernetesVersion, Phase: PhaseKubeadm, Kind: v1.StepPatchObject, Title: "tell kubeadm that the control plane is " + b.up.version,
		Why: "a control-plane host that joins gets images of this version, and kubeadm upgrade goes on from it: join with a kubeadm of the same minor", Ref: kubeadmRef, Derive: DeriveKubeadm,
		Edits: edits, Requires: []string{"cluster:uid", b.fact(KubeadmFact, k.SHA256, "")}, Undo: "put back what the record has", EstimateSeconds: 0.1,
		Changes: []v1.Change{{Field: kubernetesVersion, Before: k.KubernetesVersion, After: b.up.version}},
		Manual:  []string{"kubectl -n " + Namespace + " edit configmap kubeadm-config"},
	})
}

const kubernetesVersion = "kubernetesVersion"

// noHosted refuses another version for a control plane that somebody else deploys.
func noHosted(o v1.Options) error {
	if !ofOptions(o).wanted() {
		return nil
	}
	return errors.New("--target-version: the control plane runs as Deployments, whose images are those of whoever deploys them; upgrade it there, and leave out --target-version")
}
