package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// The original's messages; what follows a colon in ours is the reason, which it does not give.
const (
	notSupported     = "external cloud-controller-manager is not supported for this cluster / provider combination"
	cannotBeDisabled = `feature gate "externalCloudProvider" cannot be disabled once it's enabled`
	cloudChanged     = "not allowed to change the cloud provider"
	driverNotAllowed = "CSI driver installation is disabled on the datacenter, can't be enabled on cluster"
	driverInUse      = "CSI addon is in use or unknown state "
)

// Judge returns why a write of a Cluster is refused; before is nil for a new one. It judges only what the write
// changes. A rule that is newer than an object does not prevent writes to it, and no rule prevents the deletion of a
// Cluster.
func Judge(before, after *kubermatic.Cluster, facts Facts) field.ErrorList {
	if after.DeletionTimestamp != nil {
		return nil
	}
	if before == nil {
		return created(after, facts)
	}
	var out field.ErrorList
	for _, rule := range []func(before, after *kubermatic.Cluster, facts Facts) field.ErrorList{
		featureStaysOn, // once on, kube-controller-manager may have been changed already
		cloudStays,     // nothing can be migrated to another cloud
		supported,      // what cannot be executed is not started
		inTreeEnded,    // an upgrade that would leave no cloud provider at all
		versionsInMigration,
		annotationsStay,
		csiDriver,
		oneGroup,
		ourAnnotations,
	} {
		out = append(out, rule(before, after, facts)...)
	}
	return out
}

// Refusals is what Judge would refuse of a Cluster that is there, for the operator: sentences, none when it may be
// migrated.
func Refusals(c *kubermatic.Cluster, facts Facts) []string {
	list := otherGroups(c, facts)
	if c.External() {
		if answer := External(c, facts); !answer.Yes {
			list = append(list, field.Invalid(featurePath, true, notSupported+": "+answer.Why))
		}
	}
	if why := driverMissing(c, facts); why != "" && facts.RunsInTree && !c.MigrationCompleted() {
		list = append(list, field.Forbidden(featurePath, why))
	}
	list = append(list, providers(c)...)
	out := make([]string, 0, len(list))
	for _, err := range list {
		out = append(out, err.Error())
	}
	slices.Sort(out)
	return out
}

func created(c *kubermatic.Cluster, facts Facts) field.ErrorList {
	out := slices.Concat(otherGroups(c, facts), providers(c), supported(nil, c, facts), ourAnnotations(nil, c, facts))
	provider, known := Lookup(ProviderOf(c.Spec.Cloud))
	if !known {
		return out
	}
	if answer := driver(c, provider, facts); !answer.Yes && !c.External() {
		out = append(
			out,
			field.Invalid(versionPath, c.Spec.Version, "new clusters on vSphere need the CSI driver: "+answer.Why),
		)
	}
	if end, ended := inTreeEnd(provider, MinorOf(c.Spec.Version)); ended && !c.External() {
		out = append(
			out,
			field.Invalid(versionPath, c.Spec.Version, fmt.Sprintf("needs spec.features.externalCloudProvider: %s", end.Why)),
		)
	}
	return out
}

var (
	versionPath     = field.NewPath("spec", "version")
	cloudPath       = field.NewPath("spec", "cloud")
	annotationsPath = field.NewPath("metadata", "annotations")
)

func featureStaysOn(before, after *kubermatic.Cluster, _ Facts) field.ErrorList {
	if before.External() && !after.External() {
		return field.ErrorList{field.Invalid(featurePath, false, cannotBeDisabled)}
	}
	return nil
}

func cloudStays(before, after *kubermatic.Cluster, _ Facts) field.ErrorList {
	var out field.ErrorList
	if was, is := ProviderOf(before.Spec.Cloud), ProviderOf(after.Spec.Cloud); was != "" && was != is {
		out = append(out, field.Forbidden(cloudPath, cloudChanged))
	}
	if was := before.Spec.Cloud.DatacenterName; was != "" && was != after.Spec.Cloud.DatacenterName {
		out = append(out, field.Forbidden(cloudPath.Child("dc"), "not allowed to change the datacenter"))
	}
	if !slices.Equal(configuredProviders(before.Spec.Cloud), configuredProviders(after.Spec.Cloud)) {
		out = append(out, providers(after)...)
	}
	return out
}

// providers refuses a Cluster that names more than one cloud. The settings themselves are never quoted: they hold
// credentials.
func providers(c *kubermatic.Cluster) field.ErrorList {
	names, named := configuredProviders(c.Spec.Cloud), c.Spec.Cloud.ProviderName
	switch {
	case len(names) > 1:
		return field.ErrorList{
			field.Forbidden(cloudPath, "a cluster is in one cloud, and this one has settings of "+strings.Join(names, ", ")),
		}
	case len(names) == 1 && named != "" && names[0] != named:
		return field.ErrorList{
			field.Invalid(cloudPath.Child("providerName"), named, "does not match the settings, which are those of "+names[0]),
		}
	}
	return nil
}

// supported: an external provider where there is none, or none for the version. What is not known is not refused; the
// operator does nothing until it is.
func supported(before, after *kubermatic.Cluster, facts Facts) field.ErrorList {
	if !after.External() {
		return nil
	}
	if before != nil && before.External() && before.Spec.Version == after.Spec.Version &&
		ProviderOf(before.Spec.Cloud) == ProviderOf(after.Spec.Cloud) {
		return nil
	}
	if answer := External(after, facts); !answer.Yes && !answer.Unknown {
		return field.ErrorList{field.Invalid(featurePath, true, notSupported+": "+answer.Why)}
	}
	if why := driverMissing(after, facts); why != "" && before != nil && !before.External() {
		return field.ErrorList{field.Forbidden(featurePath, why)}
	}
	return nil
}

// inTreeEnded: an upgrade of a cluster that has no external provider, or is not over with its migration.
func inTreeEnded(before, after *kubermatic.Cluster, _ Facts) field.ErrorList {
	provider, known := Lookup(ProviderOf(after.Spec.Cloud))
	migrating := isMigrating(before, after)
	if !known || before.Spec.Version == after.Spec.Version || after.External() && !migrating {
		return nil
	}
	minor := MinorOf(after.Spec.Version)
	end, ended := inTreeEnd(provider, minor)
	if _, already := inTreeEnd(provider, MinorOf(before.Spec.Version)); !ended || already {
		return nil
	}
	if migrating {
		return field.ErrorList{
			field.Invalid(
				versionPath,
				after.Spec.Version,
				"wait until the migration is over (condition CSIKubeletMigrationCompleted): old machines and their volumes still need the in-tree provider, and "+end.Why,
			),
		}
	}
	return field.ErrorList{
		field.Invalid(
			versionPath,
			after.Spec.Version,
			"enable spec.features.externalCloudProvider and let the migration end first: "+end.Why,
		),
	}
}

// isMigrating reports whether a migration runs, or begins with this write.
func isMigrating(before, after *kubermatic.Cluster) bool {
	if after.MigrationCompleted() {
		return false
	}
	provider, _ := Lookup(ProviderOf(after.Spec.Cloud))
	begins := provider.InTree != "" && after.External() && !before.External()
	return begins || after.External() && (before.NeedsMigration() || after.NeedsMigration())
}

// versionsInMigration: what a plan was made for must still be there when it is executed.
func versionsInMigration(before, after *kubermatic.Cluster, _ Facts) field.ErrorList {
	if before.Spec.Version == after.Spec.Version || !isMigrating(before, after) {
		return nil
	}
	from, err := version.ParseGeneric(before.Spec.Version)
	if err != nil {
		return nil // it had none
	}
	to, err := version.ParseGeneric(after.Spec.Version)
	switch {
	case err != nil:
		return field.ErrorList{
			field.Invalid(
				versionPath,
				after.Spec.Version,
				"the version cannot be taken away while the cluster is being migrated",
			),
		}
	case to.LessThan(from):
		return field.ErrorList{
			field.Invalid(
				versionPath,
				after.Spec.Version,
				fmt.Sprintf("the cluster cannot go back from %s while it is being migrated", before.Spec.Version),
			),
		}
	case to.Major() != from.Major() || to.Minor() > from.Minor()+1:
		return field.ErrorList{
			field.Invalid(
				versionPath,
				after.Spec.Version,
				fmt.Sprintf("the cluster cannot go from %s by more than one minor while it is being migrated", before.Spec.Version),
			),
		}
	}
	return nil
}

// annotationsStay: without both of them the original, and everything that looks as it does, takes the migration for one
// that is not wanted.
func annotationsStay(before, after *kubermatic.Cluster, _ Facts) field.ErrorList {
	if !before.External() || !before.NeedsMigration() || after.MigrationCompleted() {
		return nil
	}
	var out field.ErrorList
	for _, key := range []string{kubermatic.CCMMigrationNeeded, kubermatic.CSIMigrationNeeded} {
		if _, there := after.Annotations[key]; !there {
			out = append(
				out,
				field.Forbidden(
					annotationsPath.Key(key),
					"cannot be removed while the migration runs; "+kubermatic.AnnotationHold+" keeps one from going on",
				),
			)
		}
	}
	return out
}

// csiDriver: the driver comes and goes by the rules of the datacenter, and not while volumes depend on it.
func csiDriver(before, after *kubermatic.Cluster, facts Facts) field.ErrorList {
	was, is, path := before.Spec.CSIDriverDisabled(), after.Spec.CSIDriverDisabled(), field.NewPath(
		"spec",
		"disableCsiDriver",
	)
	switch {
	case was == is:
		return nil
	case !is && facts.Datacenter != nil && facts.Datacenter.DisableCSIDriver:
		return field.ErrorList{field.Forbidden(path, driverNotAllowed)}
	case !is:
		return nil
	case before.External() && isMigrating(before, after) &&
		driverMissing(before, facts) == "": // without a driver no volume is being moved
		return field.ErrorList{
			field.Forbidden(path, "volumes are being moved to the CSI driver: wait until the migration is over"),
		}
	}
	if use, there := before.Status.Conditions[kubermatic.ConditionCSIAddonInUse]; there &&
		use.Status != corev1.ConditionFalse {
		return field.ErrorList{field.Forbidden(path, driverInUse+use.Reason)}
	}
	return nil
}

// oneGroup: the feature is not enabled while there are two Clusters for one control plane. Other writes pass, so that
// one of them can be put right or deleted.
func oneGroup(before, after *kubermatic.Cluster, facts Facts) field.ErrorList {
	if before.External() || !after.External() {
		return nil
	}
	return otherGroups(after, facts)
}

func otherGroups(c *kubermatic.Cluster, facts Facts) field.ErrorList {
	if len(facts.OtherGroups) == 0 {
		return nil
	}
	return field.ErrorList{
		field.Forbidden(
			field.NewPath("metadata", "name"),
			fmt.Sprintf(
				"cluster %q exists in the group %s as well: both stand for the control plane in %s, so one of them has to go",
				c.Name,
				strings.Join(facts.OtherGroups, ", "),
				c.ControlPlaneNamespace(),
			),
		),
	}
}
