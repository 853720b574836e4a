// Package allowed decides what a step of a plan may do on a host and to an object, whatever the rest of the plan says.
// A plan is root on the control plane, and the executed one may come from a file or from the journal.
package allowed

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Judge says what a step of a plan may do. A plan is root on the control plane, and the executed one may come from a
// file or from the journal. So what a step names is held to what this program would write there itself, whatever the
// rest of the plan says.
//
// Where a cluster has its files is asked of the cluster: live is a snapshot of how it is now. A host that is not in it
// is judged by the usual places.
type Judge struct {
	Options v1.Options
	cluster v1.Cluster
	Live    *v1.Snapshot
	// strict refuses a place on a host that is not known to the snapshot; a plan that is merely read is not refused for
	// it.
	strict bool
}

// CheckStep says why a step must not be executed. It is nil when it does what a step of a migration does, in a place
// where a migration may do it. The engine asks before each step. live is how the cluster is now, and nil where no host
// is touched.
func CheckStep(p *v1.Plan, s v1.Step, live *v1.Snapshot) error {
	j := Judge{
		Options: p.Options,
		cluster: p.Cluster,
		Live:    live,
		strict:  true,
	}
	var errs []error
	for _, a := range allowances {
		errs = append(errs, a(j, s))
	}
	return errors.Join(errs...)
}

// allowances are what is asked of each step.
var allowances = []func(Judge, v1.Step) error{
	Judge.CheckPlace,
	Judge.CheckContent,
	Judge.CheckSource,
	Judge.CheckEdits,
	Judge.CheckObject,
}

// CheckEach asks an allowance of each step of a plan, and names the first one that breaks it. live may be nil.
func CheckEach(p *v1.Plan, live *v1.Snapshot, holds func(Judge, v1.Step) error) error {
	j := Judge{Options: p.Options, cluster: p.Cluster, Live: live}
	for _, s := range p.Steps {
		if err := holds(j, s); err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
	}
	return nil
}

// written are the files that a migration writes on hosts, with the mode that each gets. The directory of the credential
// provider's binary is another one.
var written = map[string]string{
	layout.KCMMigration:     "0644",
	layout.CCMMigration:     "0644",
	layout.CredentialConfig: "0644",
	layout.CCMCloudConf:     "0600",
	layout.CCMKubeconfig:    "0600",
	layout.CCMToken:         "0600",
}

// managed are the components whose manifests, units and workloads a migration changes.
var managed = []string{component.KCM, component.KAS, component.Scheduler, component.CCM}

// cleanPaths says which path of a step may mean another one than it shows. It also says which word of it could be more
// than a word in a command for an operator.
func cleanPaths(s v1.Step) error {
	for what, word := range map[string]string{"id": s.ID, "host": s.Host, "unit": s.Unit, "source": s.Source} {
		if !plainWord.MatchString(word) {
			return fmt.Errorf("%s %q has characters that a shell does not take as they are: commands to copy have it in them", what, word)
		}
	}
	if (s.Path != "" || len(s.Files) > 0) && s.Host == "" {
		return fmt.Errorf("path %s is on no host", s.Path)
	}
	for _, at := range slices.Concat([]string{s.Path}, s.Files) {
		if at != "" && (!path.IsAbs(at) || path.Clean(at) != at || strings.ContainsAny(at, "\x00\n")) {
			return fmt.Errorf("path %q is not an absolute path without detours", at)
		}
		if !plainWord.MatchString(at) {
			return fmt.Errorf("path %q has characters that a shell does not take as they are: commands to copy have it in them", at)
		}
	}
	return nil
}

// plainWord is a word that means itself in a shell, without quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./+@:=,%-]*$`)

// ended are the components that a migration ends: those that run the cloud loops.
var ended = []string{component.KCM, component.CCM}

// isEnding reports whether a step ends a component for more than a restart.
func isEnding(s v1.Step) bool {
	return planstep.StopsComponent(s) || s.Kind == v1.StepScale && s.Replicas != nil && *s.Replicas == 0
}

// isOfManager reports whether a step gives a host the manager, or what is made for it there, such as its token.
func isOfManager(s v1.Step) bool {
	return s.Kind == v1.StepAddManifest || s.Derive != "" && s.Derive != layout.DeriveCredentialConfig
}

// CheckPlace says what is wrong with where a step changes a host.
func (j Judge) CheckPlace(s v1.Step) error {
	if err := cleanPaths(s); err != nil {
		return err
	}
	if h := j.host(s.Host); h != nil && len(h.Claims) > 0 && isOfManager(s) {
		return fmt.Errorf("host %s is control plane by its own word alone: it gets no token and no manager", s.Host)
	}
	if isEnding(s) && !slices.Contains(ended, s.Component) {
		return fmt.Errorf("the step ends %s: a migration ends none but %s", s.Component, strings.Join(ended, " and "))
	}
	switch s.Kind {
	case v1.StepWriteFile, v1.StepCopyFile, v1.StepRemoveFile:
		if !j.isOwnFile(s) {
			return fmt.Errorf(
				"path %s is no file of a migration: those are %s, and the image credential provider in %s "+
					"or where the host's kubelet has others",
				s.Path,
				strings.Join(slices.Sorted(maps.Keys(written)), ", "),
				layout.CredentialDir,
			)
		}
	case v1.StepEditManifest, v1.StepAddManifest, v1.StepRemoveManifest, v1.StepRestoreManifest:
		return j.manifest(s)
	case v1.StepKubelet:
		return j.kubelet(s)
	case v1.StepEditUnit, v1.StepStopUnit, v1.StepStartUnit:
		return j.unit(s)
	default:
		if s.Host != "" && s.Kind != v1.StepReplacePod || s.Path != "" {
			return fmt.Errorf("a step of kind %s changes no host, and names %s%s", s.Kind, s.Host, s.Path)
		}
	}
	return nil
}

func (j Judge) isOwnFile(s v1.Step) bool {
	if s.Kind != v1.StepCopyFile && written[s.Path] != "" && s.Derive != layout.DeriveCredentialConfig {
		return true
	}
	p, ok := cloudprovider.Lookup(j.provider())
	if !ok || p.Credentials == nil {
		return false
	}
	switch s.Kind {
	case v1.StepWriteFile:
		return s.Derive == layout.DeriveCredentialConfig && isCredentialConfig(j, s.Host, s.Path)
	case v1.StepRemoveFile:
		if isCredentialConfig(j, s.Host, s.Path) {
			return true
		}
	default:
	}
	return p.Credentials.Is(path.Base(s.Path)) && isCredentialDir(j, s.Host, path.Dir(s.Path))
}

// isCredentialConfig reports whether a file is the one by which the kubelet of a host finds image credential providers.
// Where the host is not known, it is for the check with it.
func isCredentialConfig(j Judge, host, at string) bool {
	h := j.host(host)
	if h == nil {
		return !j.strict && !layout.IsGuarded(at)
	}
	return h.Kubelet != nil && h.Kubelet.Credentials != nil && h.Kubelet.Credentials.ConfigPath == at &&
		!layout.IsGuarded(at)
}

// isCredentialDir reports whether a directory is that of the image credential providers of a host.
func isCredentialDir(j Judge, host, dir string) bool {
	if dir == layout.CredentialDir {
		return true
	}
	h := j.host(host)
	if h == nil {
		return !j.strict && !layout.IsGuarded(dir)
	}
	return h.Kubelet != nil && h.Kubelet.Credentials != nil && h.Kubelet.Credentials.BinDir == dir &&
		!layout.IsGuarded(dir)
}

// provider is the in-tree one that moves; plans of the first version did not say.
func (j Judge) provider() string {
	if j.cluster.Provider == "" {
		return cloudprovider.AWS
	}
	return j.cluster.Provider
}

// host is what is known of a host now.
func (j Judge) host(name string) *v1.Host {
	if j.Live == nil {
		return nil
	}
	for i := range j.Live.Hosts {
		if h := &j.Live.Hosts[i]; h.Name == name && !h.APIOnly {
			return h
		}
	}
	return nil
}

// manifest holds static pods to the directory from which the host's kubelet starts them, and to the components of a
// control plane.
func (j Judge) manifest(s v1.Step) error {
	if !slices.Contains(managed, s.Component) {
		return fmt.Errorf(
			"component %q is none of a control plane that a migration changes (%s)",
			s.Component,
			strings.Join(managed, ", "),
		)
	}
	base := path.Base(s.Path)
	if s.Kind == v1.StepAddManifest && (s.Component != component.CCM || base != path.Base(layout.CCMManifest)) {
		return fmt.Errorf(
			"the only static pod that a migration adds is %s, not %s in %s",
			path.Base(layout.CCMManifest),
			s.Component,
			s.Path,
		)
	}
	if strings.HasPrefix(base, ".") {
		return fmt.Errorf("path %s is no manifest: a kubelet passes over files that begin with a dot", s.Path)
	}
	dirs := []string{controlplane.ManifestDir}
	h := j.host(s.Host)
	if h != nil {
		if dir := clusterview.ManifestDir(*h); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	if !slices.Contains(dirs, path.Dir(s.Path)) && (h != nil || j.strict) {
		return fmt.Errorf(
			"path %s is not in a directory of static pods of host %s (%s)",
			s.Path,
			s.Host,
			strings.Join(slices.Compact(dirs), ", "),
		)
	}
	return nil
}

// kubelet holds a kubelet's step to the files that its unit reads, and to its configuration.
func (j Judge) kubelet(s v1.Step) error {
	h := j.host(s.Host)
	if h == nil && !j.strict {
		return nil
	}
	for _, at := range append([]string{s.Path}, s.Files...) {
		if !isUsualKubeletFile(at) && !isKubeletFile(h, at) {
			return fmt.Errorf(
				"path %s is no file of the kubelet on host %s: neither its unit nor its configuration is seen to read it",
				at,
				s.Host,
			)
		}
	}
	return nil
}

const kubeletConfigFile = "/var/lib/kubelet/config.yaml"

func isUsualKubeletFile(at string) bool {
	return slices.Contains(kubeletfile.KubeletFlagFiles, at) || at == kubeletConfigFile || isUnitFile(at, "kubelet.service")
}

// isUnitFile reports whether a file is a unit's or one of its drop-ins.
func isUnitFile(at, unit string) bool {
	return clusterview.IsInUnitDir(at) &&
		(path.Base(at) == unit || path.Base(path.Dir(at)) == unit+".d" && strings.HasSuffix(at, ".conf"))
}

// isKubeletFile reports whether a kubelet was seen to read a file.
func isKubeletFile(h *v1.Host, at string) bool {
	if h == nil || h.Kubelet == nil {
		return false
	}
	k := h.Kubelet
	if k.Source == at || slices.ContainsFunc(k.Files, func(f v1.File) bool { return f.Path == at }) ||
		slices.Contains(slices.Collect(maps.Values(k.Sources)), at) {
		return true
	}
	for _, files := range k.Also {
		if slices.Contains(files, at) {
			return true
		}
	}
	return k.Config != nil && (k.Config.Path == at || slices.Contains(slices.Collect(maps.Values(k.Config.GateFiles)), at))
}

// namedForComponent are the units by whose name it is seen which component they start.
var namedForComponent = map[string]*regexp.Regexp{
	component.KCM:       regexp.MustCompile(`^([a-z0-9.-]*[.-])?(kube-)?controller-manager[a-z0-9.-]*\.service$`),
	component.CCM:       regexp.MustCompile(`^[a-z0-9.-]*cloud-controller-manager[a-z0-9.-]*\.service$`),
	component.KAS:       regexp.MustCompile(`^[a-z0-9.-]*(apiserver|api-server)[a-z0-9.-]*\.service$`),
	component.Scheduler: regexp.MustCompile(`^[a-z0-9.-]*scheduler[a-z0-9.-]*\.service$`),
}

// isNamedFor reports whether a unit is seen by its name to start a component.
func isNamedFor(unit, name string) bool {
	pattern := namedForComponent[name]
	return pattern != nil && pattern.MatchString(unit) &&
		(name == component.CCM || !namedForComponent[component.CCM].MatchString(unit))
}

// directoriesOfUnits hold files that units of a control plane usually read.
var directoriesOfUnits = []string{"/etc/default", "/etc/sysconfig", "/etc/kubernetes", layout.Dir}

// startedBy returns the component as a unit of the host starts it; nil where it is not seen to. It reports whether the
// unit is seen to start others.
func startedBy(h *v1.Host, unit, name string) (seen *v1.Component, others bool) {
	if h == nil {
		return nil, false
	}
	for i := range h.Components {
		c := &h.Components[i]
		if c.Runs != v1.RunsSystemd || c.Unit != unit {
			continue
		}
		if c.Name == name {
			return c, false
		}
		others = true
	}
	return nil, others
}

// isReadBy reports whether a component was seen to be started from a file.
func isReadBy(c *v1.Component, at string) bool {
	return c != nil && (c.Manifest == at || slices.Contains(slices.Collect(maps.Values(c.Sources)), at))
}

// unit holds a unit's step to the units of a control plane and the files that these read.
func (j Judge) unit(s v1.Step) error {
	if !slices.Contains(managed, s.Component) {
		return fmt.Errorf(
			"component %q is none of a control plane that a migration changes (%s)",
			s.Component,
			strings.Join(managed, ", "),
		)
	}
	h := j.host(s.Host)
	seen, others := startedBy(h, s.Unit, s.Component)
	if seen == nil && (others || !isNamedFor(s.Unit, s.Component)) {
		if h == nil && !j.strict {
			return nil
		}
		return fmt.Errorf("unit %s on host %s is not seen to start %s", s.Unit, s.Host, s.Component)
	}
	usual := s.Path == "" || isUnitFile(s.Path, s.Unit) ||
		slices.Contains(directoriesOfUnits, path.Dir(s.Path)) && written[s.Path] == ""
	if usual || isReadBy(seen, s.Path) || h == nil && !j.strict {
		return nil
	}
	return fmt.Errorf("path %s is not seen to be read by unit %s on host %s", s.Path, s.Unit, s.Host)
}

// CheckContent says what is wrong with what a step writes on a host.
func (j Judge) CheckContent(s v1.Step) error {
	switch s.Kind {
	case v1.StepWriteFile:
		if s.Derive == layout.DeriveCredentialConfig {
			return addedProvider(j, s)
		}
		if s.Mode != written[s.Path] {
			return fmt.Errorf("%s has mode %s, not %s", s.Path, written[s.Path], s.Mode)
		}
		return j.fileContent(s)
	case v1.StepAddManifest:
		if s.Mode != "0600" {
			return fmt.Errorf("the manifest of %s has mode 0600, not %s", component.CCM, s.Mode)
		}
		return j.managerPod(s)
	case v1.StepCopyFile:
		return nil // by its sum: see source
	default:
		if s.Content != "" {
			return fmt.Errorf("a step of kind %s has no content of its own", s.Kind)
		}
		return nil
	}
}

// derivations of the files whose content is in no plan.
var derivations = map[string][]string{
	layout.CCMCloudConf: {
		layout.DeriveCloudConfig,
	},
	layout.CCMKubeconfig: {layout.DeriveKubeconfig, layout.OlderKubeconfig},
	layout.CCMToken:      {layout.DeriveToken, layout.DeriveRenewingToken},
}

func (j Judge) fileContent(s v1.Step) error {
	derived := derivations[s.Path]
	if (s.Derive != "" || len(derived) > 0) && !slices.Contains(derived, s.Derive) || s.Derive != "" && s.Content != "" {
		return fmt.Errorf(
			"the content of %s is derived on its host (%s), never said in a plan",
			s.Path,
			strings.Join(derived, " or "),
		)
	}
	switch s.Path {
	case layout.KCMMigration:
		if !j.matchesMigrationConfig(controllernames.KubeControllerManager, s.Host, s.Content) {
			return fmt.Errorf(
				"the content is no leader migration config of %s that this program makes for lease %s",
				component.KCM,
				j.Options.LeaseName,
			)
		}
	case layout.CCMMigration:
		if !j.matchesMigrationConfig(controllernames.CloudControllerManager, s.Host, s.Content) {
			return fmt.Errorf(
				"the content is no leader migration config of %s that this program makes for lease %s",
				component.CCM,
				j.Options.LeaseName,
			)
		}
	case layout.CredentialConfig:
		if !j.matchesCredentialConfig(s.Content) {
			return fmt.Errorf(
				"the content is no config of the image credential provider of %s that this program makes",
				j.provider(),
			)
		}
	}
	return nil
}

// addedProvider says what is wrong with what is added to the configuration of image credential providers that a kubelet
// has.
func addedProvider(j Judge, s v1.Step) error {
	switch {
	case s.Mode != layout.CredentialConfigMode:
		return fmt.Errorf("%s keeps the mode that it has: the step has mode %s, not %s", s.Path, layout.CredentialConfigMode, s.Mode)
	case !j.matchesCredentialConfig(s.Content):
		return fmt.Errorf("what is added to %s is no config of the image credential provider of %s that this program makes",
			s.Path, j.provider())
	}
	return nil
}

// matchesCredentialConfig reports whether a text is the config of the image credential provider as it is rendered for
// some version of a kubelet. Some of these configs name a file of the host.
func (j Judge) matchesCredentialConfig(text string) bool {
	p, ok := cloudprovider.Lookup(j.provider())
	if !ok || p.Credentials == nil {
		return false
	}
	for minor := component.Oldest; minor <= component.Newest; minor++ {
		config, err := catalogue.CredentialConfig(p.Name, minor)
		if err != nil {
			continue
		}
		if string(config) == text {
			return true
		}
		for _, arg := range p.Credentials.Args {
			before, after, _ := strings.Cut(string(config), arg)
			own, starts := strings.CutPrefix(text, before)
			own, ends := strings.CutSuffix(own, after)
			if p.Credentials.TakesConfig && starts && ends && plainPath.MatchString(own) && path.Clean(own) == own {
				return true
			}
		}
	}
	return false
}

// plainPath is a path that stands in a file without quotes and means itself.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9_./+@-]+$`)

// CheckSource says what is wrong with where the content of a step comes from.
func (j Judge) CheckSource(s v1.Step) error {
	switch s.Kind {
	case v1.StepCopyFile:
		return j.copied(s)
	case v1.StepWriteFile:
		if (s.Derive == "") != (s.Source == "") {
			return fmt.Errorf("source %q and derivation %q belong together", s.Source, s.Derive)
		}
		if planstep.IsToken(s) {
			if s.Source != layout.AccountRef {
				return fmt.Errorf("source %s of a token is not %s", s.Source, layout.AccountRef)
			}
			return nil
		}
		if s.Derive == layout.DeriveCredentialConfig {
			if s.Source != s.Path {
				return fmt.Errorf("%s is derived from itself, not from %s", s.Path, s.Source)
			}
			return nil
		}
		if s.Source != "" {
			return derivedFrom(j, s)
		}
	case v1.StepEnsureObject:
		if s.Derive == layout.DeriveDeployedCloudConfig {
			return j.deployedSource(s)
		}
		if s.Source != "" && !j.isSeedObject(s.Source, "Deployment") {
			return fmt.Errorf("source %s is no Deployment in the namespace of the control plane (%s)", s.Source, j.cluster.Seed)
		}
	default:
		if s.Source != "" {
			return fmt.Errorf("a step of kind %s copies nothing, and names the source %s", s.Kind, s.Source)
		}
	}
	return nil
}

// copied says what is wrong with the file of this machine that a step copies to a host.
func (j Judge) copied(s v1.Step) error {
	if !planstep.IsProviderFile(j.Options, s.Source, s.Content) {
		return fmt.Errorf(
			"%s of this machine, with SHA-256 %s, is not the image credential provider that the options name: no other file is copied to a host",
			s.Source,
			s.Content,
		)
	}
	if s.Mode != "0755" {
		return fmt.Errorf("the image credential provider has mode 0755, not %s", s.Mode)
	}
	return nil
}

func isKernelPath(at string) bool {
	return slices.ContainsFunc(
		[]string{"/proc/", "/sys/", "/dev/"},
		func(dir string) bool { return strings.HasPrefix(at+"/", dir) },
	)
}

// deployedSource holds the source of a cloud config to the kube-controller-manager's Deployment: a foreign pod template
// could name any Secret.
func (j Judge) deployedSource(s v1.Step) error {
	if j.cluster.Seed != "" || !clusterview.IsOwnDeployment(j.cluster, s.Source) {
		return fmt.Errorf(
			"source %s is no Deployment of the cluster's control plane, which is in %s",
			s.Source,
			component.Namespace,
		)
	}
	if j.Live == nil {
		return nil
	}
	if m := clusterview.FindHosted(j.Live, component.KCM); m == nil || m.Manifest != s.Source {
		return fmt.Errorf("source %s is not the Deployment of %s in this cluster", s.Source, component.KCM)
	}
	return nil
}
