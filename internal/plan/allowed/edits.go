package allowed

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// flagRule says which value of a flag a migration sets; the empty value asks whether it removes the flag.
type flagRule func(j Judge, value string) bool

func exactly(values ...string) flagRule {
	return func(_ Judge, value string) bool { return slices.Contains(values, value) }
}

func matching(pattern string) flagRule {
	re := regexp.MustCompile(pattern)
	return func(_ Judge, value string) bool { return value == "" || re.MatchString(value) }
}

var (
	gone     = exactly("")
	duration = func(_ Judge, value string) bool {
		d, err := time.ParseDuration(value)
		return value == "" || err == nil && d >= shortestElection && d <= longestElection
	}
	gateList = matching(
		`^[A-Za-z0-9]+=(true|false|1|0|t|f|T|F|True|False|TRUE|FALSE)(, *[A-Za-z0-9]+=(true|false|1|0|t|f|T|F|True|False|TRUE|FALSE))*$`,
	)
	loopList  = matching(`^[A-Za-z0-9*-]+(,[A-Za-z0-9*-]+)*$`)
	pluginSet = matching(`^[A-Za-z0-9]+(,[A-Za-z0-9]+)*$`)
	nodeName  = matching(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)
	tag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

// An election whose periods are outside of these is none that works: a manager would not start, or its place stay
// empty.
const (
	shortestElection = 50 * time.Millisecond
	longestElection  = 10 * time.Minute
)

// editable are the flags that a migration sets or removes, by component, next to those that the target version does
// not know. None of the flags by which a component knows who may do what is among them.
var editable = map[string]map[string]flagRule{
	component.KCM: {
		"cloud-provider": exactly(
			"external",
		),
		flagvalue.FlagCloudConfig:  gone,
		flagvalue.FlagFeatureGates: gateList,
		flagvalue.FlagControllers:  loopList,
		"cidr-allocator-type":      gone,
		flagvalue.FlagVolumePlugin: func(j Judge, value string) bool { return value == "" || value == j.provider() },
		"enable-leader-migration": exactly(
			"",
			"true",
		),
		"leader-migration-config": exactly(
			"",
			layout.KCMMigration,
			layout.SeedMigrationDir+"/"+layout.SeedMigrationKCM,
		),
		"leader-elect-retry-period":   duration,
		"leader-elect-renew-deadline": duration,
	},
	component.KAS: {
		"cloud-provider": exactly(
			"",
			"external",
		),
		flagvalue.FlagCloudConfig:    gone,
		flagvalue.FlagFeatureGates:   gateList,
		flagvalue.FlagEnablePlugins:  pluginSet,
		flagvalue.FlagDisablePlugins: pluginSet,
	},
	component.Scheduler: {flagvalue.FlagFeatureGates: gateList},
	component.CCM: {
		"enable-leader-migration":     gone,
		"leader-migration-config":     gone,
		"leader-elect-renew-deadline": gone,
		"leader-elect-retry-period":   duration,
		flagvalue.FlagFeatureGates:    gone,
	},
	component.Kubelet: {
		"cloud-provider": exactly(
			"external",
		),
		flagvalue.FlagCloudConfig:      gone,
		flagvalue.FlagFeatureGates:     gateList,
		flagvalue.FlagHostname:         nodeName,
		flagvalue.FlagCredentialConfig: exactly(layout.CredentialConfig),
		flagvalue.FlagCredentialDir:    exactly(layout.CredentialDir),
	},
}

// IsEditable reports whether a flag of a component is one that steps of a migration change, and a rollback puts back. A
// target version adds those that it does not know.
func IsEditable(component, flag string, o v1.Options) bool {
	j := Judge{Options: o}
	return editable[component][flag] != nil || j.isDroppedFlag(component, flag)
}

// CheckUndo says what is wrong with edits of kubeadm's configuration that a record holds and that take those of the
// step back. They must name what the step has changed. What value a list gets is for PutBack to say.
func CheckUndo(s v1.Step, original []v1.Edit, o v1.Options) error {
	for _, e := range s.Edits {
		if !slices.ContainsFunc(original, func(of v1.Edit) bool { return undoes(e, of) }) {
			return fmt.Errorf("%s of %s takes no edit of the step back", e.Op, e.Name)
		}
		switch e.Op {
		case v1.EditSetFlag, v1.EditUnsetFlag:
			if !IsEditable(s.Component, e.Name, o) {
				return fmt.Errorf("flag --%s of %s is none that a migration changes", e.Name, s.Component)
			}
		case v1.EditSetVersion:
			if e.Name != layout.FieldKubernetesVersion {
				return fmt.Errorf("%s of %s is no change of a version that a migration makes", e.Op, e.Name)
			}
		case v1.EditAddHostPath, v1.EditRemoveHostPath:
			if layout.IsGuarded(e.Value) {
				return fmt.Errorf("%s is no cloud config", e.Value)
			}
		default:
			return fmt.Errorf("%s of %s is nothing that puts kubeadm's configuration back", e.Op, e.Name)
		}
		if strings.ContainsAny(e.Name+e.Value, "\x00\n\r") {
			return fmt.Errorf("%s of %q has a value of several lines", e.Op, e.Name)
		}
	}
	return nil
}

// undoes reports whether an edit may be what takes another one back.
func undoes(e, of v1.Edit) bool {
	switch of.Op {
	case v1.EditSetFlag, v1.EditUnsetFlag:
		return e.Name == of.Name && (e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag && of.Op == v1.EditSetFlag)
	case v1.EditRemoveHostPath:
		return e.Name == of.Name && e.Value == of.Value && e.Op == v1.EditAddHostPath
	case v1.EditAddHostPath:
		return e.Name == of.Name && e.Value == of.Value && e.Op == v1.EditRemoveHostPath
	default:
		return e.Op == of.Op && e.Name == of.Name
	}
}

// isDroppedFlag reports whether a flag has to go because the target version does not know it, and the version before it
// did.
func (j Judge) isDroppedFlag(component, flag string) bool {
	up := draft.UpgradeOf(j.Options)
	if !up.IsWanted() || targetHolds(j) != nil {
		return false
	}
	f, held := catalogue.FlagAt(component, flag, up.Minor)
	was, _ := catalogue.FlagAt(component, flag, up.Minor-1)
	return held && !f.Known && was.Known
}

// replaced are the flags that the target version does not know and whose values a flag takes over.
func (j Judge) replaced(component, flag string) []string {
	up := draft.UpgradeOf(j.Options)
	if !up.IsWanted() {
		return nil
	}
	return slices.DeleteFunc(catalogue.FlagsOf(component, up.Minor-1), func(was string) bool {
		end, known := catalogue.FlagEnds(component, was, "")
		return !known || end.Replacement != flag || !j.isDroppedFlag(component, was)
	})
}

// CheckEdits says what is wrong with what a step changes of a component.
func (j Judge) CheckEdits(s v1.Step) error {
	for _, e := range s.Edits {
		if err := j.edit(s, e); err != nil {
			return err
		}
	}
	if err := onLive(j, s); err != nil {
		return err
	}
	if s.Replicas != nil && *s.Replicas > mostReplicas {
		return fmt.Errorf("%d replicas are more than a control plane has", *s.Replicas)
	}
	return nil
}

// mostReplicas bounds what a step may scale a manager to.
const mostReplicas = 100

func (j Judge) edit(s v1.Step, e v1.Edit) error {
	if e.Path != "" && e.Op != v1.EditMountConfigMap &&
		(s.Kind != v1.StepKubelet || !slices.Contains(append([]string{s.Path}, s.Files...), e.Path)) {
		return fmt.Errorf("edit %s of %s is in %s, which the step does not name among its files", e.Op, e.Name, e.Path)
	}
	if strings.ContainsAny(e.Name+e.Value, "\x00\n\r") {
		return fmt.Errorf("edit %s of %q has a value of several lines", e.Op, e.Name)
	}
	switch e.Op {
	case v1.EditSetFlag, v1.EditUnsetFlag:
		return j.flag(s.Component, e)
	case v1.EditAddHostPath, v1.EditRemoveHostPath, v1.EditMountConfigMap, v1.EditUnmount:
		return j.mount(s, e)
	case v1.EditSetImage, v1.EditSetVersion:
		return j.version(s, e)
	case v1.EditSetGate, v1.EditUnsetGate:
		disabling := []string{catalogue.DisableCloudProviders, catalogue.DisableKubeletCloudCredentialProviders}
		goes := slices.Contains(disabling, e.Name)
		if s.Kind != v1.StepKubelet || !j.isInTreeGate(e.Name) || goes != (e.Op == v1.EditUnsetGate) ||
			!goes && e.Value != flagvalue.GateOn {
			return fmt.Errorf(
				"gate %s=%s is none that a migration changes in a kubelet's configuration",
				e.Name,
				e.Value,
			)
		}
	default:
		return fmt.Errorf("%q is no edit that this version of transplant knows", e.Op)
	}
	return nil
}

// mount says what is wrong with a mount that a step adds or removes.
func (j Judge) mount(s v1.Step, e v1.Edit) error {
	switch e.Op {
	case v1.EditAddHostPath:
		if e.Value != layout.KCMMigration || e.PathType != "File" || s.Component != component.KCM || s.Ref != "" {
			return fmt.Errorf(
				"%s gets no mount of %s: the only file that a migration mounts there is %s",
				s.Component,
				e.Value,
				layout.KCMMigration,
			)
		}
	case v1.EditRemoveHostPath:
		own := map[string]string{component.KCM: layout.KCMMigration, component.CCM: layout.CCMMigration}[s.Component]
		if e.Value != own && !j.isCloudConfigMount(s, e.Value) {
			return fmt.Errorf(
				"%s keeps its mount of %s: a migration removes those of its own files, and kubeadm's of a cloud config",
				s.Component,
				e.Value,
			)
		}
	default:
		if e.Name != layout.MigrationVolume ||
			e.Op == v1.EditMountConfigMap && (e.Value != layout.SeedMigration || e.Path != layout.SeedMigrationDir) {
			return fmt.Errorf(
				"volume %s (ConfigMap %s at %s) is not the one with the leader migration configs",
				e.Name,
				e.Value,
				e.Path,
			)
		}
	}
	return nil
}

// isCloudConfigMount reports whether kubeadm mounts the file for the sake of --cloud-config, which the same step
// removes. A file that another flag names is none, nor one that is guarded.
func (j Judge) isCloudConfigMount(s v1.Step, at string) bool {
	if s.Ref != layout.KubeadmConfigRef || s.Derive != layout.DeriveKubeadm || layout.IsGuarded(at) ||
		strings.Contains(at+"/", "/pki/") ||
		slices.Contains(clusterview.TrustDirs, at) {
		return false
	}
	for _, base := range FlagBases(s, j.Live) {
		for flag, value := range base {
			if flag != flagvalue.FlagCloudConfig && (value == at || strings.HasPrefix(value, at+"/")) {
				return false
			}
		}
	}
	return true
}

func (j Judge) flag(component string, e v1.Edit) error {
	rule := editable[component][e.Name]
	value := e.Value
	if e.Op == v1.EditUnsetFlag {
		value = ""
	}
	switch {
	case rule == nil &&
		(e.Op == v1.EditUnsetFlag && j.isDroppedFlag(component, e.Name) ||
			e.Op == v1.EditSetFlag && len(j.replaced(component, e.Name)) > 0):
		return nil // on a host its value is compared as well
	case rule == nil:
		return fmt.Errorf("flag --%s of %s is none that a migration changes", e.Name, component)
	case e.Op == v1.EditSetFlag && value == "", !rule(j, value):
		return fmt.Errorf(
			"%s of --%s to %q in %s is no change that a migration makes",
			e.Op,
			e.Name,
			e.Value,
			component,
		)
	}
	return nil
}

// isInTreeGate reports whether a feature gate has to do with in-tree providers.
func (j Judge) isInTreeGate(name string) bool {
	if slices.Contains(
		[]string{
			catalogue.DisableCloudProviders,
			catalogue.DisableKubeletCloudCredentialProviders,
			flagvalue.GateCredentialProviders,
			flagvalue.GateLeaderMigration,
			flagvalue.GateCSIMigration,
		},
		name,
	) {
		return true
	}
	p, _ := cloudprovider.Lookup(j.provider())
	return slices.ContainsFunc(p.Plugins, func(v cloudprovider.VolumePlugin) bool {
		return name == v.MigrationGate || name == v.UnregisterGate || name == v.CompleteGate
	})
}

// version holds images and kubeadm's version to the target of the options: a step gives another tag, never another
// registry or repository.
func (j Judge) version(s v1.Step, e v1.Edit) error {
	want := strings.TrimPrefix(j.Options.TargetVersion, "v")
	have := strings.TrimPrefix(e.Value, "v")
	switch {
	case targetHolds(j) != nil:
		return targetHolds(j)
	case want == "" || j.Options.ReplaceHosts:
		return fmt.Errorf(
			"%s of %s to %s: the options name no target version, so that no version changes",
			e.Op,
			e.Name,
			e.Value,
		)
	case e.Op == v1.EditSetImage && (e.Name != s.Component || !slices.Contains(component.Versioned, e.Name)),
		e.Op == v1.EditSetVersion && (e.Name != layout.FieldKubernetesVersion || s.Ref != layout.KubeadmConfigRef):
		return fmt.Errorf("%s of %s is no change of a version that a migration makes", e.Op, e.Name)
	case !tag.MatchString(e.Value) || have != want:
		return fmt.Errorf(
			"%s of %s to %s is not the target version %s of the options",
			e.Op,
			e.Name,
			e.Value,
			j.Options.TargetVersion,
		)
	}
	return nil
}

// CheckOnlyEditable says what a command line that a record holds has next to what runs that no step of a migration
// changes of the component. It is nil for nothing. A rollback puts command lines back from records, and asks this of
// them first.
func CheckOnlyEditable(component string, nowCommand, nowArgs, backCommand, backArgs []string, o v1.Options) error {
	flags := flagvalue.MergeFlags(
		commandline.FlagsOf(commandline.Unwrapped(slices.Concat(nowCommand, nowArgs))),
		commandline.FlagsOf(commandline.Unwrapped(slices.Concat(backCommand, backArgs))),
	)
	var edits []v1.Edit
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if IsEditable(component, name, o) {
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: name})
		}
	}
	a, b, err := commandline.ApplyArguments(nowCommand, nowArgs, edits)
	if err != nil {
		return err
	}
	c, d, err := commandline.ApplyArguments(backCommand, backArgs, edits)
	if err != nil {
		return err
	}
	if !slices.Equal(a, c) || !slices.Equal(b, d) {
		return fmt.Errorf(
			"the recorded command line of %s differs from the running one in more than the flags that a migration changes; nothing is put back; compare the journal with the workload",
			component,
		)
	}
	return nil
}
