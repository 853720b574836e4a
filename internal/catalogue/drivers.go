package catalogue

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Driver is a CSI driver that takes the place of an in-tree volume plugin.
type Driver struct {
	// Name is the driver's, e.g. ebs.csi.aws.com.
	Name string
	// Images are ends of the repositories that hold it, e.g. aws-ebs-csi-driver; registries differ between installers.
	Images []string
	// MigratesSince is the first release, e.g. 2.1, that takes over volumes of the in-tree plugin; empty when every release in use does.
	MigratesSince string
	// Releases tell which minors of Kubernetes its makers name for a series, sorted; a series that is not listed is not judged.
	Releases []DriverRelease
	// ClusterFlag is the flag by which it marks disks as this cluster's; empty when it has none. ClusterSecret is where the mark is kept
	// instead, namespace/name.
	ClusterFlag, ClusterSecret string
	// Zonal tells that a disk can be attached in one zone only.
	Zonal bool
	// Sidecars are the ends of the repositories of the containers that its controller needs beside the driver.
	Sidecars []string
}

// DriverRelease is what the makers of a driver say of a series.
type DriverRelease struct {
	// Series is 2.4 for 2.4.1.
	Series string
	// Oldest and Newest minor of Kubernetes; 0 for Newest means that none is named.
	Oldest, Newest int
}

// Supports reports whether a release is meant for a minor of Kubernetes.
func (r DriverRelease) Supports(minor int) bool {
	return minor >= r.Oldest && (r.Newest == 0 || minor <= r.Newest)
}

// DriverOf returns a CSI driver by its name.
func DriverOf(name string) (Driver, bool) {
	i := slices.IndexFunc(drivers, func(d Driver) bool { return d.Name == name })
	if i < 0 {
		return Driver{}, false
	}
	return drivers[i], true
}

// IsImage tells whether an image is the driver's.
func (d Driver) IsImage(image string) bool {
	repository := repositoryOf(image)
	return slices.ContainsFunc(d.Images, func(end string) bool { return repository == end || strings.HasSuffix(repository, "/"+end) })
}

func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}

// Release returns what is known of the series of a version such as v2.4.1.
func (d Driver) Release(version string) (DriverRelease, bool) {
	major, minor, ok := series(version)
	if !ok {
		return DriverRelease{}, false
	}
	want := strconv.Itoa(major) + "." + strconv.Itoa(minor)
	i := slices.IndexFunc(d.Releases, func(r DriverRelease) bool { return r.Series == want })
	if i < 0 {
		return DriverRelease{}, false
	}
	return d.Releases[i], true
}

// Migrates tells whether a version such as v2.0.1 takes over volumes of the in-tree plugin; the second result is false when the version cannot be
// compared.
func (d Driver) Migrates(version string) (migrates, known bool) {
	major, minor, ok := series(version)
	if !ok {
		return false, false
	}
	sinceMajor, sinceMinor, bound := series(d.MigratesSince)
	return !bound || major > sinceMajor || major == sinceMajor && minor >= sinceMinor, true
}

// series are the first two numbers of v2.4.1.
func series(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil
}

// ClassParameter is a StorageClass parameter of an in-tree plugin that its CSI driver does not take.
type ClassParameter struct {
	// Name in lower case; the plugins do not look at the case.
	Name string
	// Values that are refused, in lower case; nil means every one.
	Values []string
	// Why is a clause that says what becomes of it.
	Why string
}

// RefusedParameter returns why the driver of an in-tree plugin does not take a StorageClass parameter; false when it does.
func RefusedParameter(plugin, name, value string) (ClassParameter, bool) {
	for _, p := range refusedParameters[plugin] {
		if p.Name == strings.ToLower(name) && (p.Values == nil || slices.Contains(p.Values, strings.ToLower(value))) {
			return p, true
		}
	}
	return ClassParameter{}, false
}

// RefusedHandle returns why the driver of an in-tree plugin cannot take over a disk of this name; empty when it can.
func RefusedHandle(plugin, handle string) string {
	for _, r := range refusedHandles[plugin] {
		if r.pattern.MatchString(handle) {
			return r.why
		}
	}
	return ""
}

type refusedHandle struct {
	pattern *regexp.Regexp
	why     string
}

// CredentialAPI is what a kubelet of a minor knows about image credential providers.
type CredentialAPI struct {
	// ConfigVersions are the versions of kubelet.config.k8s.io in which it reads a CredentialProviderConfig, the newest first.
	ConfigVersions []string
	// PluginVersions are the versions of credentialprovider.kubelet.k8s.io that it speaks with the binaries, the newest first.
	PluginVersions []string
}

// CredentialConfigAt returns what kubelets of a minor know about image credential providers; nothing before 1.20.
func CredentialConfigAt(minor int) CredentialAPI {
	var c CredentialAPI
	for _, v := range credentialVersions {
		if minor >= v.since {
			c.ConfigVersions = append(c.ConfigVersions, "kubelet.config.k8s.io/"+v.version)
			c.PluginVersions = append(c.PluginVersions, "credentialprovider.kubelet.k8s.io/"+v.version)
		}
	}
	return c
}
