package proven

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheVersionsAreReleasesInOrder(t *testing.T) {
	release := regexp.MustCompile(`^v1\.[1-9][0-9]*\.[0-9]+$`)
	for _, v := range Versions() {
		if !release.MatchString(v) {
			t.Errorf("%q is not a release", v)
		}
	}
	if !slices.IsSortedFunc(Versions(), func(a, b string) int { return minor(a) - minor(b) }) {
		t.Errorf("%v are not in order", Versions())
	}
}

func TestTheRangeHasBothItsEnds(t *testing.T) {
	first, last := Minors()
	for minor, want := range map[int]bool{first - 1: false, first: true, (first + last) / 2: true, last: true, last + 1: false} {
		if got := Covers(minor); got != want {
			t.Errorf("1.%d is covered: %v, want %v", minor, got, want)
		}
	}
}

func TestAnImageOfAnotherRegistryIsNotPublishedHere(t *testing.T) {
	const own = "ghcr.io/transplant-dev/aws-cloud-controller-manager"
	for image, want := range map[string]bool{
		own: true, own + ":v0.1.0": true, own + ":v0.1.0@sha256:" + strings.Repeat("a1", 32): true, "": false, own + "/evil:v0.1.0": false, own + "@sha256:a1": false,
		"registry.example.com/transplant-dev/aws-cloud-controller-manager:v0.1.0": false, "registry.example.com/" + own: false, "ghcr.io/transplant-dev/../evil:v1": false,
		"ghcr.io.example.com/transplant-dev/aws-cloud-controller-manager:v0.1.0": false, "ghcr.io/transplant-developers/x:v1": false, own + ":v0.1.0\n": false,
	} {
		if got := IsPublished(image); got != want {
			t.Errorf("%q is published by this project: %v, want %v", image, got, want)
		}
	}
}

// TestEachProgramIsProvenAtBothEnds: what VersionsOf says is what the trials in the lab run each program against.
func TestEachProgramIsProvenAtBothEnds(t *testing.T) {
	all := Versions()
	if got := VersionsOf("aws"); !slices.Equal(got, all) {
		t.Errorf("aws: %q", got)
	}
	for _, provider := range []string{"openstack", "vsphere", "other"} {
		if got := VersionsOf(provider); !slices.Equal(got, []string{all[0], "v1.26.0", all[len(all)-1]}) {
			t.Errorf("%s: %q", provider, got)
		}
	}
}
