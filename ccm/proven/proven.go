// Package proven decides which kube-apiservers a cloud-controller-manager that is built on package ccm may be run
// against. These are the versions between the oldest and the newest that the skew tests ran it against.
//
// The version skew policy of Kubernetes wants a manager that is not newer than the API server. Ours is newer, and these
// tests replace the policy. The binary carries this list, prints it with --version=json, and `transplant check` uses
// it.
package proven

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// versions of kube-apiserver, oldest first. The tests in lab/skew run against each one of them, and against no other.
var versions = []string{
	"v1.24.17", "v1.25.0", "v1.26.0", "v1.27.4", "v1.28.0", "v1.29.0", "v1.30.14", "v1.31.0", "v1.32.2",
	"v1.33.4", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2",
}

// Versions are the versions of kube-apiserver that the tests ran against, oldest first.
func Versions() []string { return slices.Clone(versions) }

// Short are those of them that the short versions of the tests run against: other tests have their programs built
// anyway. A further one takes two processors minutes to compile.
func Short() []string { return []string{"v1.26.0"} }

// againstAll are the providers whose program the tests run against every version.
var againstAll = map[string]bool{"aws": true}

// VersionsOf are those that the tests ran the program of a provider against, oldest first. The programs have the
// library in common. One of them is run against all, and the others against the oldest, that of Short and the newest.
func VersionsOf(provider string) []string {
	if againstAll[provider] {
		return Versions()
	}
	return slices.Concat(versions[:1], Short(), versions[len(versions)-1:])
}

// Minors are the first and the last minor version of the range, such as 24 and 37 for 1.24 to 1.37.
func Minors() (first, last int) {
	return minor(versions[0]), minor(versions[len(versions)-1])
}

// Covers reports whether a minor version of Kubernetes 1 is within the range.
func Covers(minor int) bool {
	first, last := Minors()
	return first <= minor && minor <= last
}

// Ours reports whether an image holds a cloud-controller-manager that is built on package ccm; the empty one stands for
// the default, which does. Mirrors keep the repository's path and change the registry's name, so that only the path
// counts.
func Ours(image string) bool {
	return image == "" || strings.Contains(image, "/transplant-dev/")
}

// published is an image in the registry where this project's are published, with a tag, a digest or neither.
var published = regexp.MustCompile(`^ghcr\.io/transplant-dev/[a-z0-9-]+(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?$`)

// IsPublished reports whether an image is one that this project published itself. What a mirror serves under the same
// path, its owner decides.
func IsPublished(image string) bool { return published.MatchString(image) }

// Origin returns what is known of an image with the path of ours; empty for one of another path. Another registry may
// serve anything under it.
func Origin(image string) string {
	switch {
	case IsPublished(image):
		return "ours"
	case Ours(image):
		return "from another registry than this project's, with a path like ours"
	}
	return ""
}

// minor reads 26 from v1.26.0. A test holds every entry to that form.
func minor(version string) int {
	number, _ := strconv.Atoi(strings.Split(version, ".")[1])
	return number
}
