package facts

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
)

// Strategy is the plan's, leader migration when nothing is said.
func (f Facts) Strategy() string { return findings.OrElse(f.Opts.Strategy, StrategyLeaderMigration) }

// Target is the version that the control plane gets during the migration. Versions are judged against it if there is
// one, else against the API server's.
func (f Facts) Target() (version string, upgrade bool) {
	if f.Opts.TargetVersion == "" || f.Opts.ReplaceHosts {
		return f.Cluster.Version, false
	}
	return "v" + strings.TrimPrefix(f.Opts.TargetVersion, "v"), true
}

// NewImage is the image of the cloud-controller-manager that the plan installs and the minor of the library in it. It
// is the requested one, or the catalogue's for the provider. It is not ok, with an image, where the minor cannot be
// told, and without one where there is none.
func (f Facts) NewImage(cluster int) (image string, minor int, ok bool) {
	i, found, isWord := cloudprovider.Chosen(f.Opts.Image, f.Provider(), cluster)
	if isWord && (f.Opts.Image != "" || f.Provider() != "") {
		return i.Ref, i.Minor, found
	}
	minor, ok = f.ccmMinor(f.Opts.Image)
	return findings.OrElse(f.Opts.Image, component.Registry+"/"+component.CCM), minor, ok
}

// ImageVersion is v1.26.0 of an image's tag.
func ImageVersion(image string) (string, bool) {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	_, ok := VersionMinor(tag)
	return tag, ok
}

// HasLeaderMigration reports whether the cluster's version has leader migration, as far as that is known.
func (f Facts) HasLeaderMigration() bool {
	minor, ok := VersionMinor(f.Cluster.Version)
	flag, held := catalogue.FlagAt(component.KCM, "enable-leader-migration", minor)
	return !ok || !held || flag.Known
}

// GivenOrDefault says where the value of a feature gate comes from.
func (p Instance) GivenOrDefault(gate string) string {
	if v, given := p.Gates()[gate]; given {
		return "given as " + v
	}
	return "by default"
}

// PartInstall is the part of a hosted migration that installs a manager in a cluster that never had in-tree loops.
const PartInstall = v1.PartInstall

// NewMinor is the minor of the library in the manager that the migration brings in.
func (f Facts) NewMinor() int {
	cluster, _ := VersionMinor(f.Cluster.Version)
	if _, m, ok := f.NewImage(cluster); ok {
		return m
	}
	return DefaultCCMMinor
}
